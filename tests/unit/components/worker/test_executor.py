"""The worker process from its configuration to its result file."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fate_flow.components.__main__ import main
from fate_flow.components.base.errors import BadConfig
from fate_flow.components.builtin import reader
from fate_flow.components.tables.table import Table
from fate_flow.components.tables.table_uri import format_uri
from fate_flow.components.worker.executor import one_line, read_config
from fate_flow.core.text.yaml_text import yaml_text
from tests.kit.components.memory_channel import a_table

TASK_ID = "202601010000000000000_upload_0"


@pytest.fixture(autouse=True)
def _own_logging():
    """A worker sets up logging for its whole process; give the test's back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        handler.close()
    root.handlers[:], root.level = handlers, level


def logger_config(folder: Path) -> dict:
    handler = {"class": "logging.FileHandler", "filename": str(folder / "INFO.log"), "delay": True}
    return {"version": 1, "handlers": {"info": handler}, "root": {"handlers": ["info"], "level": "INFO"}}


class Worker:
    """A worker folder, and what is in it after a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "a.csv"
        self.source.write_text("id,x\nb,1\na,2\n")
        self.config = {
            "task_id": TASK_ID,
            "party_task_id": f"{TASK_ID}_3_local_0_abcdef",
            "task_name": "upload_0",
            "component": "upload",
            "role": "local",
            "party_id": "0",
            "stage": "default",
            "parameters": {"file": str(self.source), "namespace": "demo", "name": "a", "need_run": True, "odd": 1},
            "output_artifacts": {
                "metric": {"uri": f"file://{folder}/metric.json", "type_name": "json_metric"},
            },
            "conf": {
                "computing": {"metadata": {"options": {"data_dir": str(folder / "data"), "task_cores": 2}}},
                "logger": {"config": logger_config(folder)},
            },
        }

    def argv(self) -> list[str]:
        (self.folder / "config.yaml").write_text(yaml.safe_dump(self.config))
        return [
            "component", "execute", "--config", str(self.folder / "config.yaml"),
            "--execution-final-meta-path", str(self.folder / "result.json"), "--process-tag", "x",
        ]

    def run(self) -> int:
        return main(self.argv())

    @property
    def result(self) -> dict:
        return json.loads((self.folder / "result.json").read_text())

    @property
    def log(self) -> str:
        return (self.folder / "INFO.log").read_text()


@pytest.fixture
def worker(tmp_path):
    return Worker(tmp_path)


def test_a_success_is_written_down_and_said(worker, capsys):
    assert worker.run() == 0
    uri = format_uri(worker.folder / "data", "demo", "a")
    metadata = {"namespace": "demo", "name": "a", "count": 2, "replaced": 0, "schema": {"header": ["x"], "sid": "id"}}
    assert worker.result == {
        "status": {"code": 0, "exceptions": None},
        "io_meta": {"inputs": {}, "outputs": {
            "data": {"data": [{"uri": uri, "type_name": "table", "metadata": metadata}]},
            "model": {},
            "metric": {"metric": [{"uri": f"file://{worker.folder}/metric.json", "type_name": "json_metric"}]},
        }},
        "summary": {"table_name": "a", "namespace": "demo", "partition": 1, "upload_count": 2, "replaced_rows": 0,
                    "schema": {"header": ["x"], "sid": "id"}},
    }
    (metric,) = json.loads((worker.folder / "metric.json").read_text())
    assert metric["data"] == [["count", 2], ["upload_count", 2]]
    assert capsys.readouterr().out == f"finish upload_0 {TASK_ID} 3 on local 0 with success\n"


def test_the_log_follows_the_worker(worker):
    worker.run()
    for line in (
        f"enter TaskExecutor worker in subprocess, pid: {os.getpid()}",
        f"run upload_0 {TASK_ID} 3 on local 0 task",
        "component parameters on party:",
        "odd: Upload has no such parameter, it has no effect",
        f"finish upload_0 {TASK_ID} 3 on local 0 with success",
        f"worker TaskExecutor, process role: ProcessRole.WORKER, pid: {os.getpid()}, elapsed:",
    ):
        assert line in worker.log
    assert "need_run" not in worker.log


def test_a_result_that_a_full_disk_does_not_take_is_an_exit_code_of_its_own(worker, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert worker.run() == 74
    assert not (worker.folder / "result.json").exists()
    assert "result.json cannot be written: the disk is full; make room there; it would say: No space left" in worker.log


def test_nothing_unfinished_is_left_behind(worker):
    worker.run()
    assert not list(worker.folder.rglob("*.tmp"))


def test_loggers_that_were_there_before_go_on(worker):
    worker.run()
    assert not logging.getLogger("fate_flow.components.builtin.upload").disabled


def test_a_failure_names_what_is_at_fault_in_one_line(worker, capsys):
    worker.source.write_text("id,x\na,1\nb\n")
    assert worker.run() == 1
    assert worker.result["status"] == {
        "code": -1,
        "exceptions": "the file for table 'a', line 3: 1 field, where 2 are expected",
    }
    assert "Traceback" in worker.log
    assert "finish upload_0" in worker.log
    assert capsys.readouterr().out == f"finish upload_0 {TASK_ID} 3 on local 0 with failed\n"


def test_an_unforeseen_exception_crosses_without_its_text(worker, monkeypatch):
    def run(_task):
        raise ValueError("id 4711 is secret")

    monkeypatch.setattr(reader, "run", run)
    parameters = {"table": {"namespace": "demo", "name": "a"}}
    worker.config |= {"component": "reader", "role": "guest", "parameters": parameters}
    assert worker.run() == 1
    said = worker.result["status"]["exceptions"]
    assert said.startswith("unexpected ValueError (executor.py, line ")
    assert "4711" not in said
    assert "id 4711 is secret" in worker.log


def test_an_error_of_the_system_is_told(worker):
    worker.config["output_artifacts"]["metric"]["uri"] = "file:///no/such/folder/metric.json"
    assert worker.run() == 1
    assert "No such file or directory (executor.py, line " in worker.result["status"]["exceptions"]


@pytest.mark.parametrize(("change", "said"), [
    ({"component": "hetero_lr"}, "component: there is no component 'hetero_lr'"),
    ({"role": "guest"}, "Upload does not run at role 'guest'"),
    ({"parameters": {"file": "/tmp/x", "namespace": "a"}}, "name is missing"),
    ({"parameters": [1]}, "task configuration: parameters: [1] is not a mapping of keys"),
    ({"task_name": None}, "task configuration: task_name: None is not text"),
    ({"conf": {}}, "task configuration: data_dir"),
])
def test_a_wrong_configuration_is_named(worker, change, said):
    worker.config |= change
    assert worker.run() == 1
    assert said.replace("data_dir", "conf.computing.metadata.options.data_dir") in worker.result["status"]["exceptions"]


def test_the_configuration_may_be_json_as_the_server_writes_it(worker):
    worker.config["parameters"] = {"data_num": "1e3 is text in JSON"}
    (worker.folder / "config.yaml").write_text(yaml_text(worker.config))
    assert read_config(worker.folder / "config.yaml") == yaml.safe_load(yaml_text(worker.config)) == worker.config


_NOT_JSON = ("{", "a: 1", '{"a": NaN}', "[1, Infinity]", '? "a" : 1', '{"a": 1}\nb: 2', "'1'", "~")


@pytest.mark.parametrize("text", _NOT_JSON)
def test_what_is_not_json_is_read_as_yaml(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    try:
        expected = yaml.safe_load(text)
    except yaml.YAMLError:
        with pytest.raises(BadConfig, match="it is not YAML"):
            read_config(path)
    else:
        assert read_config(path) == expected


@pytest.mark.parametrize("text", [None, "{", "- a list"])
def test_a_configuration_that_cannot_be_read_still_has_a_result(worker, text):
    argv = worker.argv()
    path = worker.folder / "config.yaml"
    path.unlink() if text is None else path.write_text(text)
    assert main(argv) == 1
    assert worker.result["status"]["code"] == -1
    assert worker.result["status"]["exceptions"].startswith("task configuration: ")


def test_a_component_that_needs_others_says_when_there_is_no_exchange(worker):
    uri = a_table(worker.folder / "data", "g", [("a",)])
    worker.config |= {"component": "intersection", "role": "guest", "parameters": {}}
    worker.config["input_artifacts"] = {"data": {"uri": uri, "type_name": "table"}}
    parties = [{"role": "guest", "partyid": "0"}, {"role": "host", "partyid": 1}]
    worker.config["conf"]["federation"] = {"metadata": {"parties": {"parties": parties}}}
    assert worker.run() == 1
    assert "conf.federation.metadata.exchange is missing" in worker.result["status"]["exceptions"]


def test_several_tables_at_an_input_are_refused_where_one_is_needed(worker):
    one = {"uri": format_uri(worker.folder, "demo", "a"), "type_name": "table"}
    worker.config |= {"component": "intersection", "role": "host", "parameters": {}}
    worker.config["input_artifacts"] = {"data": [one, one]}
    assert worker.run() == 1
    assert "input data has 2 tables, intersection takes one" in worker.result["status"]["exceptions"]


def test_a_message_becomes_one_line():
    assert one_line("a\nb\x1b[31m\u2028c") == "a b [31m c"
    assert len(one_line("x" * 1000)) < 510


def test_a_process_of_its_own_runs_the_same(worker):
    done = subprocess.run(
        [sys.executable, "-m", "fate_flow.components", *worker.argv()], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(Table(format_uri(worker.folder / "data", "demo", "a"))) == [("b", "1"), ("a", "2")]


def test_components_are_listed_and_described(capsys):
    assert main(["component", "list"]) == 0
    assert "secure_sum" in json.loads(capsys.readouterr().out)["buildin"]
    assert main(["component", "desc", "--name", "Intersection"]) == 0
    described = yaml.safe_load(capsys.readouterr().out)["component"]
    assert described["roles"] == ["guest", "host"]
    assert described["input_artifacts"]["data"] == {
        "data": {"types": ["table"], "roles": ["guest", "host"], "stages": ["default"]},
    }


@pytest.mark.parametrize(("argv", "code"), [
    ([], 2), (["component"], 2), (["component", "execute"], 2), (["--help"], 0),
    (["component", "desc", "--name", "hetero_lr"], 1),
])
def test_a_wrong_command_is_an_exit_code_and_never_an_exit(argv, code, capsys):
    assert main(argv) == code
    assert "".join(capsys.readouterr())


def test_preload_leaves_libraries_of_single_components_to_their_first_worker():
    code = (
        "import sys\n"
        "from fate_flow.components import preload\n"
        "preload()\n"
        "print([name for name in ('private_set_intersection', 'pymysql', 'sqlite3') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['sqlite3']"


def test_after_preload_and_its_own_module_a_run_imports_nothing_more(worker):
    """A forked worker pays for every import that the spawner did not make."""
    code = (
        "import sys, json\n"
        "from fate_flow.components import preload\n"
        "preload()\n"
        "from fate_flow.engines.local.spawner import import_once\n"
        "import_once(['fate_flow.components.builtin.upload'])\n"
        "before = set(sys.modules)\n"
        "from fate_flow.components.__main__ import main\n"
        "main(sys.argv[1:])\n"
        "print(sorted(set(sys.modules) - before), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *worker.argv()], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
