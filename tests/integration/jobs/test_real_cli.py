"""`flow` against real servers: what it prints, what it writes, and the exit codes that a script goes by."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.kit.servers.party_servers import (
    GUEST,
    HOST,
    OTHER,
    READER,
    Cluster,
    PartyServer,
    csv_text,
    job_of,
    summing,
    table_named,
    toy,
)
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

REFUSED, WRONG_USAGE, NO_SERVER = 1, 2, 3
NUMBERS = {f"id{number}": [number, number * 2] for number in range(20)}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path, toy())


def write(folder: Path, document: dict[str, Any]) -> tuple[Path, Path]:
    """The two files of a job, conf and DSL."""
    conf, dsl = folder / "conf.json", folder / "dsl.json"
    conf.write_text(json.dumps(document["job_runtime_conf"]))
    dsl.write_text(json.dumps(document["job_dsl"]))
    return conf, dsl


def failing() -> dict[str, Any]:
    return job_of(
        {"reader_0": READER}, {"guest": [GUEST], "host": [HOST]}, common={"reader_0": table_named("lost")}
    )


def uploading(folder: Path, name: str) -> Path:
    """The configuration of an upload, with its file beside it."""
    (folder / f"{name}.csv").write_text(csv_text(["id", "x", "y"], NUMBERS))
    conf = folder / f"upload_{name}.json"
    conf.write_text(json.dumps({
        "file": f"{name}.csv", "head": 1, "partition": 2, "id_delimiter": ",", "namespace": "it", "table_name": name,
    }))
    return conf


def info(server: PartyServer, name: str) -> dict[str, Any]:
    found = server.flow("table", "info", "-n", "it", "-t", name).document["data"]
    assert isinstance(found, dict)
    return found


# ---------------------------------------------------------------------- exit codes


def test_a_submit_prints_one_json_document_and_exits_with_0(on_sqlite: Cluster, files: tuple[Path, Path]) -> None:
    conf, dsl = files
    printed = on_sqlite.guest.flow("job", "submit", "-c", conf, "-d", dsl, "--watch")
    document = printed.document
    assert (document["retcode"], document["retmsg"]) == (0, "success")
    data = document["data"]
    assert Path(data["logs_directory"]).is_dir()
    assert json.loads(Path(data["dsl_path"]).read_text()) == toy()["job_dsl"]
    assert data["model_info"]["model_id"] == f"guest-{GUEST}#host-{HOST}#model"
    assert "task toy_0 host-10000" in printed.err
    assert printed.err.rstrip().endswith(f"job {printed.job_id}: success")
    watched = on_sqlite.guest.flow("job", "watch", "-j", printed.job_id)
    assert watched.out == ""
    assert watched.err.rstrip().endswith(": success")


def test_a_watched_job_that_fails_exits_with_1_and_says_why(on_sqlite: Cluster, tmp_path: Path) -> None:
    on_sqlite.guest.has_lost_table("lost")
    on_sqlite.host.has_lost_table("lost")
    conf, dsl = write(tmp_path, failing())
    printed = on_sqlite.guest.flow("job", "submit", "-c", conf, "-d", dsl, "--watch", code=REFUSED)
    assert printed.document["retcode"] == 0, "the submit itself went well"
    assert f"job {printed.job_id}: failed: reader_0 failed on " in printed.err
    assert "'lost'" in printed.err
    on_sqlite.guest.flow("job", "watch", "-j", printed.job_id, code=REFUSED)
    described = on_sqlite.guest.flow("job", "explain", "--table", "-j", printed.job_id).out
    assert described.startswith(f"job {printed.job_id}: failed: reader_0 failed on ")


def test_a_refused_submit_exits_with_1(on_sqlite: Cluster, files: tuple[Path, Path]) -> None:
    conf, dsl = files
    with on_sqlite.unchanged():
        printed = on_sqlite.host.flow("job", "submit", "-c", conf, "-d", dsl, "--watch", code=REFUSED)
        assert printed.document["retcode"] == 103
        assert "submit the job at party 9999" in printed.document["retmsg"]


@pytest.mark.parametrize("command", [
    ("job", "query"), ("job", "stop", "-j", "202601011200000000000"), ("queue", "clean"), ("server", "versions"),
])
def test_where_no_server_answers_the_exit_code_is_3(tmp_path: Path, command: tuple[str, ...]) -> None:
    with socket.socket() as holder:       # holds the port, and does not listen
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        nobody = PartyServer("1", f"http://127.0.0.1:{port}", tmp_path)
        printed = nobody.flow(*command, code=NO_SERVER)
    assert printed.document["retcode"] == 100
    assert f"no server answers at http://127.0.0.1:{port}" in printed.err


def test_wrong_usage_exits_with_2(on_sqlite: Cluster, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    on_sqlite.guest.flow("job", "submit", code=WRONG_USAGE)
    printed = on_sqlite.guest.flow("job", "submit", "-c", tmp_path / "broken.json", code=WRONG_USAGE)
    assert "broken.json: line 1, column 2" in printed.err


def test_what_is_not_known_exits_with_1(on_sqlite: Cluster, tmp_path: Path) -> None:
    unknown = "202601011200000000000"
    place = ("-j", unknown, "-r", "guest", "-p", GUEST)
    for command, retcode in (
        (("job", "stop", "-j", unknown), 102),
        (("job", "explain", "--json", "-j", unknown), 102),
        (("job", "config", *place, "-o", tmp_path), 101),
        (("job", "log", "-j", unknown, "-o", tmp_path), 404),
        (("task", "query", "-j", unknown), 101),
        (("component", "parameters", *place, "-cpn", "toy_0"), 101),
        (("component", "output-data", *place, "-cpn", "toy_0", "-o", tmp_path), 210),
        (("table", "delete", "-n", "it", "-t", "unknown"), 101),
    ):
        assert on_sqlite.guest.flow(*command, code=REFUSED).document["retcode"] == retcode, command


# ---------------------------------------------------------------------- looking before submitting


def test_validate_prints_what_each_party_would_run_and_starts_nothing(on_sqlite: Cluster, tmp_path: Path) -> None:
    document = job_of(
        {"reader_0": READER, "sum_0": summing("reader_0.raw")}, {"guest": [GUEST], "host": [HOST, OTHER]},
        common={"reader_0": table_named("numbers"), "sum_0": {"column": "x"}},
        by_role={"host": {"1": {"sum_0": {"need_run": False}}}}, parameters={"task_cores": 3, "task_parallelism": 2},
    )
    conf, dsl = write(tmp_path, document)
    on_sqlite.has_table("numbers")
    with on_sqlite.unchanged():
        printed = on_sqlite.guest.flow("job", "validate", "--table", "-c", conf, "-d", dsl)
        assert "guest-9999: 6 cores" in printed.out
        assert '{"column": "x"}' in printed.out
        data = on_sqlite.guest.flow("job", "validate", "-c", conf, "-d", dsl, "--json").document["data"]
    assert [(one["role"], one["party_id"], one["cores"]) for one in data["parties"]] == [
        ("guest", GUEST, 6), ("host", HOST, 6), ("host", OTHER, 6)
    ]
    assert [task["need_run"] for task in data["parties"][2]["tasks"]] == [True, False]


def test_validate_tells_all_that_is_wrong(on_sqlite: Cluster, tmp_path: Path) -> None:
    document = failing()
    document["job_dsl"]["components"]["reader_0"]["module"] = "Magic"
    document["job_runtime_conf"]["job_parameters"]["common"]["task_cores"] = "many"
    conf, dsl = write(tmp_path, document)
    with on_sqlite.unchanged():
        answer = on_sqlite.guest.flow("job", "validate", "-c", conf, "-d", dsl, "--json", code=REFUSED).document
    assert answer["retcode"] == 103
    assert ["'Magic'" in one or "'many'" in one for one in answer["data"]["problems"]] == [True, True]


# ---------------------------------------------------------------------- data in and out


def test_a_table_comes_in_is_looked_at_and_goes(on_sqlite: Cluster, tmp_path: Path) -> None:
    guest, conf = on_sqlite.guest, uploading(tmp_path, "cli_in")
    guest.post("table/delete", {"namespace": "it", "table_name": "cli_in"})
    printed = guest.flow("data", "upload", "-c", conf, "--watch", cwd=Path("/"))
    assert printed.document["data"]["table_name"] == "cli_in"
    found = info(guest, "cli_in")
    assert (found["exist"], found["count"], found["partition"]) == (1, 20, 2)
    assert found["schema"] == {"header": ["x", "y"], "sid": "id"}
    assert guest.flow("data", "upload", "-c", conf, code=REFUSED).document["retcode"] == 100
    guest.flow("data", "upload", "-c", conf, "--drop", "--watch")
    history = guest.flow("data", "upload-history", "-l", "1").document["data"]
    [uploaded] = history[0].values()
    assert (uploaded["upload_info"]["table_name"], uploaded["upload_info"]["upload_count"]) == ("cli_in", 20)
    assert guest.flow("table", "delete", "-n", "it", "-t", "cli_in").document["data"]["table_name"] == "cli_in"
    assert info(guest, "cli_in") == {"namespace": "it", "table_name": "cli_in", "exist": 0, "count": 0}
    # The answer follows the commit, and so does the removal of the file, in a thread of its own.
    eventually(lambda: not [path for path in guest.files() if "cli_in" in path], "the file of the table to go")


def test_a_download_gives_the_rows_back(on_sqlite: Cluster, tmp_path: Path) -> None:
    guest = on_sqlite.guest
    guest.flow("data", "upload", "-c", uploading(tmp_path, "cli_out"), "--drop", "--watch")
    target = guest.home / "downloads" / "cli_out.csv"
    target.unlink(missing_ok=True)
    conf = tmp_path / "download.json"
    conf.write_text(json.dumps({"namespace": "it", "table_name": "cli_out", "output_path": str(target)}))
    guest.flow("data", "download", "-c", conf, "--watch")
    assert target.read_text() == (tmp_path / "cli_out.csv").read_text()
    conf.write_text(json.dumps({"namespace": "it", "table_name": "cli_out", "output_path": "/etc/cli_out.csv"}))
    refused = guest.flow("data", "download", "-c", conf, code=REFUSED).document
    assert "is not below" in refused["retmsg"]


def test_a_missing_file_is_noticed_before_anything_is_sent(on_sqlite: Cluster, tmp_path: Path) -> None:
    conf = uploading(tmp_path, "gone")
    (tmp_path / "gone.csv").unlink()
    with on_sqlite.unchanged():
        printed = on_sqlite.guest.flow("data", "upload", "-c", conf, code=WRONG_USAGE, cwd=Path("/"))
    assert "gone.csv" in printed.err
    assert printed.document["retcode"] == 100


# ---------------------------------------------------------------------- looking at a job that is over


def _answered_at(server: PartyServer, party_id: str) -> int:
    parties = server.flow("party", "list", "--json").document["data"]["parties"]
    [found] = [one.get("answered_at") or 0 for one in parties if one["party_id"] == party_id]
    return int(found)


def test_all_that_is_to_be_had_of_a_finished_job(on_sqlite: Cluster, tmp_path: Path) -> None:
    guest, begun = on_sqlite.guest, time.time_ns() // 10**6
    for party in (guest, on_sqlite.host):
        party.has_table("looked_at", csv_text(["id", "x", "y"], NUMBERS))
    document = job_of(
        {"reader_0": READER, "sum_0": summing("reader_0.raw")}, {"guest": [GUEST], "host": [HOST]},
        common={"reader_0": table_named("looked_at"), "sum_0": {"column": "y"}},
    )
    job_id = on_sqlite.run(document)
    seat = ("-j", job_id, "-r", "guest", "-p", GUEST)

    [row] = guest.flow("job", "query", "-j", job_id).document["data"]
    assert (row["f_status"], row["f_progress"]) == ("success", 100)
    eventually(lambda: _answered_at(guest, HOST) >= begun, "the time of the host's last answer")
    assert row["f_roles"] == {"guest": [int(GUEST)], "host": [int(HOST)]}
    assert job_id in [one["job_id"] for one in guest.flow("job", "list", "-l", "3").document["data"]["jobs"]]
    tasks = guest.flow("task", "query", "-j", job_id, "-s", "success").document["data"]
    assert {(one["f_component_name"], one["f_party_id"]) for one in tasks} >= {("reader_0", GUEST), ("sum_0", GUEST)}
    assert guest.flow("component", "list", "-j", job_id).document["data"] == {"components": ["reader_0", "sum_0"]}
    described = guest.flow("component", "parameters", *seat, "-cpn", "sum_0").document["data"]
    assert described["ComponentParam"]["column"] == "y"
    names = guest.flow("tracking", "metrics", *seat, "-cpn", "sum_0").document["data"]
    assert names == {"train": ["secure_sum"]}
    summary = guest.flow("component", "get-summary", *seat, "-cpn", "sum_0").document["data"]
    assert summary == {"total": "760.00"}

    at_host = ("-j", job_id, "-r", "host", "-p", HOST)
    for place in (seat, at_host):       # a reader hands on the table itself
        [table] = guest.flow("component", "output-data-table", *place, "-cpn", "reader_0").document["data"]
        assert table == {"data_name": "raw", "table_name": "looked_at", "table_namespace": "it"}
    assert "No found component" in guest.flow("component", "output-data-table", *at_host, "-cpn", "none_0", code=1).out

    guest.flow("component", "output-data", *seat, "-cpn", "reader_0", "-o", tmp_path)
    folder = tmp_path / f"job_{job_id}_reader_0_guest_{GUEST}_output_data"
    with (folder / "raw.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["id", "x", "y"], *([sid, *map(str, values)] for sid, values in NUMBERS.items())]
    assert json.loads((folder / "raw.meta").read_text()) == {"header": ["id", "x", "y"]}

    guest.flow("job", "config", *seat, "-o", tmp_path)
    folder = tmp_path / f"job_{job_id}_config"
    assert json.loads((folder / "dsl.json").read_text()) == document["job_dsl"]
    conf = json.loads((folder / "runtime_conf.json").read_text())
    assert conf["component_parameters"] == document["job_runtime_conf"]["component_parameters"]

    on_sqlite.check_idle()       # nobody writes a line of the job any more
    guest.flow("job", "log", "-j", job_id, "-o", tmp_path)
    fetched = tmp_path / f"job_{job_id}_log"
    own = guest.home / "logs" / job_id
    names_here = {str(path.relative_to(own)) for path in own.rglob("*") if path.is_file()}
    assert {str(path.relative_to(fetched)) for path in fetched.rglob("*") if path.is_file()} == names_here
    assert (fetched / "guest" / GUEST / "INFO.log").read_bytes() == (own / "guest" / GUEST / "INFO.log").read_bytes()


def test_a_server_says_what_it_is_and_what_it_has(on_sqlite: Cluster) -> None:
    versions = on_sqlite.guest.flow("server", "versions").document["data"]
    assert versions["API"] == "v1"
    engine = on_sqlite.guest.flow("resource", "query").document["data"]["computing_engine_resource"]
    assert (engine["f_engine_name"], engine["f_cores"], engine["f_remaining_cores"]) == ("STANDALONE", 20, 20)


def test_a_running_job_s_cores_cannot_be_given_back_by_hand(on_sqlite: Cluster) -> None:
    with on_sqlite.held(HOST):
        job_id = on_sqlite.submit(toy())
        on_sqlite.wait(job_id, "running")
        refused = on_sqlite.guest.flow("resource", "return", "-j", job_id, code=REFUSED).document
        assert "is running" in refused["retmsg"]
        assert on_sqlite.guest.free_cores == 18
    on_sqlite.wait(job_id, "success")
    returned = on_sqlite.guest.flow("resource", "return", "-j", job_id).document["data"]
    assert [one["resource_return_status"] for one in returned] == [False]


def test_init_remembers_the_server(on_sqlite: Cluster, tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    environment.pop("FATE_FLOW_SERVER", None)
    flow = str(Path(sys.executable).with_name("flow"))

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [flow, *map(str, arguments)], env=environment, cwd=tmp_path, text=True, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=120, check=False,
        )

    done = call("init", "-c", on_sqlite.host.home / "conf" / "service_conf.yaml")
    assert (done.returncode, json.loads(done.stdout)["retcode"]) == (0, 0), done.stderr
    assert json.loads(call("job", "list").stdout)["retcode"] == 0
    parties = json.loads(call("party", "list", "--json").stdout)["data"]["parties"]
    assert {one["party_id"] for one in parties} == {GUEST, OTHER}


def test_a_new_home_has_keys_and_flow_finds_them_on_the_same_machine(on_sqlite: Cluster, tmp_path: Path) -> None:
    guest = on_sqlite.guest
    assert (guest.home / "keys" / "clients.yaml").stat().st_mode & 0o777 == 0o600
    said = requests.post(f"{guest.url}/v1/job/list/job", json={}, timeout=30).json()
    assert (said["retcode"], said["retmsg"][:28]) == (109, "requests have to be signed: ")
    host, port = guest.url.removeprefix("http://").split(":")
    for where in (("-c", str(guest.home / "conf" / "service_conf.yaml")), ("--ip", host, "--port", port)):
        environment = {**os.environ, "FATE_FLOW_SETTINGS": str(tmp_path / "settings.yaml")}
        environment.pop("FATE_FLOW_SERVER", None)
        for text in (("init", *where), ("job", "list")):
            argv = [Path(sys.executable).with_name("flow"), *text]
            done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stdout
