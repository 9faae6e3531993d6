"""Every command that shows a job shows its name and a time, in a window of 80 and of 120 characters."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from fate_flow.cli.console import display
from fate_flow.cli.flow.main import flow as flow_command
from fate_flow.core.record.canonical import canonical
from tests.kit.cli.stub_server import Reply

JOB, NAME = "2026112210110761175207694", "monthly"
NOON = 1_699_963_200_000
DATE, TIME_OF_DAY = "2023-11-14", re.compile(r"\d\d:\d\d:\d\d")
J, SEAT = ("-j", JOB), ("-j", JOB, "-r", "guest", "-p", "9999", "-cpn", "sum_0")

PARTY = {"role": "guest", "party_id": "9999"}
LISTED = {
    **PARTY, "job_id": JOB, "name": NAME, "status": "waiting", "create_time": NOON, "start_time": NOON,
    "wait_reason": "host 10000 has 2 of 20 cores free, 9 asked; 1st in the queue",
}  # fmt: skip
TASK = {
    **PARTY, "job_id": JOB, "component_name": "sum_0", "task_version": 1, "status": "failed", "start_time": NOON,
    "elapsed": 61_499, "reason": "worker_error", "message": "exit code 3: no column x in the table of this party",
}  # fmt: skip
ENTRY = {
    "log": "own", "epoch": 1, "index": 7,
    "entry": canonical({"v": 1, "kind": "act", "at": NOON, "job": JOB, "who": "ann", "what": "submitted"}).decode(),
}
MODEL = {
    "model_id": JOB, "model_version": 1, "job_id": JOB, "create_time": NOON, "tags": [], "deployed_as": [],
    "models": [{
        **PARTY, "task_name": "fit", "output_key": "model", "type_name": "json", "bytes": 7, "sha256": "0a" * 32,
        "content": None,
    }],
}  # fmt: skip
UPLOAD = {"upload_info": {"table_name": "site_a", "namespace": "demo", "upload_count": 7}, "notes": "", "schema": {}}
LISTED_TABLE = {
    "namespace": f"output_{JOB}", "table_name": "site_a", "origin": "output", "count": 7, "columns": 3, "job_id": JOB,
    "create_time": NOON, "enable": True,
}  # fmt: skip
OUTPUT = {**PARTY, "component_name": "sum_0", "data_name": "raw", "table_name": "t1", "create_time": NOON}
MOVE = {**PARTY, "time": NOON, "level": "job", "old": "ready", "new": "running", "message": "", "caused_by": ""}
ENGINE = {"f_engine_name": "STANDALONE", "f_cores": 8, "f_remaining_cores": 6}
QUEUED = {**LISTED, "place_in_queue": 1, "parties": [{**PARTY, "asked_cores": 9}]}
DONE = {**LISTED, "status": "success", "reason": "done", "end_time": NOON, "elapsed": 900}
EXPLAINED = {**DONE, "time": NOON, "tasks": [{**TASK, "parties": [TASK]}]}

SHOWN = {
    "job list": ((), {"jobs": [LISTED], "count": 1}),
    "job query": (J, [{f"f_{key}": value for key, value in LISTED.items()}]),
    "job explain": (J, EXPLAINED),
    "job history": (J, {"moves": [MOVE], "parties": []}),
    "job changes": (J, {
        "job_id": JOB, "digest": "3b" * 32, "count": 1, "formats": None, "next": None,
        "approved_before": {
            "job_id": "42", "by": "ann", "time": NOON, "digest": "0a" * 32, "has_same_name": True,
            "is_as_approved": True,
        },
        "changes": [{"kind": "changed", "place": "runtime_conf.role", "before": "1", "now": "2"}],
    }),
    "job view": (J, [{f"f_{key}": value for key, value in OUTPUT.items()}]),
    "job watch": (J, EXPLAINED),
    "task list": ((), {"tasks": [TASK, {**TASK, "job_id": "42"}], "count": 9}),
    "task query": (J, [{f"f_{key}": value for key, value in TASK.items()}]),
    "queue list": ((), {"count": 1, "jobs": [QUEUED], "unapproved": [{**QUEUED, "initiator": PARTY}]}),
    "resource query": ((), {
        "computing_engine_resource": ENGINE, "engines": [ENGINE],
        "use_resource_job": [{**PARTY, "job_id": JOB, "core": 2, "memory": 0, "gpus": 0, "engine": "STANDALONE"}],
    }),
    "data upload-history": ((), [{JOB: UPLOAD}]),
    "table list": ((), {"tables": [LISTED_TABLE], "count": 1, "is_counted": True, "next": None}),
    "table tracking-job": (("-n", "demo", "-t", "site_a"), {
        "count": 1, "job": [JOB],
        "models": [{**PARTY, "model_id": "credit", "model_version": 3, "output": "model", "component_name": "fit"}],
    }),
    "model list": ((), [MODEL]),
    "model show": (("--model-id", JOB), MODEL),
    "audit show": (J, {"party_id": "9999", "entries": [ENTRY]}),
    "audit search": ((), {"party_id": "9999", "entries": [ENTRY], "after": None}),
    "component list": (J, {"components": ["sum_0"]}),
    "component parameters": (SEAT, {"module": "SecureSum"}),
    "component metrics": (SEAT, {"train": ["loss"]}),
    "component metric-all": (SEAT, {"train": {"loss": {"data": [[0, 0.5]]}}}),
    "component output-data-table": (SEAT, [{"table_name": "t1", "table_namespace": "demo", "data_name": "raw"}]),
    "component get-summary": (SEAT, {"total": 7}),
    "top": (("--once",), {
        "computing_engine_resource": ENGINE, "jobs": [QUEUED], "count": 1, "is_counted": True, "parties": [],
    }),
}  # fmt: skip
"""The arguments of each command that shows jobs, and what a server answers."""

ABOUT_NO_JOB = {
    "audit reconcile", "audit verify", "component desc", "job validate", "key query", "notify choose", "notify show",
    "party list", "privilege query", "provider list", "provider list-components", "resource history", "server info",
    "server versions", "service registry", "table connector-query", "table info", "table preview",
    "table tracking-source",
}  # fmt: skip
PRINTS_A_PROGRAM = {"task log", "job log"}
"""What a program has printed, or files of it."""

CHANGES_A_JOB = {
    "component metric-delete", "job approve", "job hold", "job parameter-update", "job priority", "job reject",
    "job release", "job rerun", "job resume", "job stop", "model tag-list", "model tag-model", "resource return",
    "table delete",
}  # fmt: skip
"""They print the answer of the server as JSON, in any case."""

WRITES_FILES = {
    "audit prove", "component output-data", "component output-model", "job config", "task output",
}  # fmt: skip
"""They print JSON that says where the files are, or the documents themselves."""


def commands() -> Iterator[tuple[str, set[str]]]:
    """Each command of `flow` that help shows, with its options; those of `tracking` are those of `component`."""

    def walk(command: click.Command, *path: str) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                yield from walk(command.commands[name], *path, name)
        elif not command.hidden:
            yield " ".join(path), command

    for name, command in walk(flow_command):
        if not name.startswith("tracking "):
            yield name, {option for one in command.params for option in one.opts}


def test_each_command_with_a_job_or_a_table_is_named_here() -> None:
    found = {name for name, options in commands() if options & {"-j", "--table", "--json", "--once"}}
    named = (ABOUT_NO_JOB, PRINTS_A_PROGRAM, CHANGES_A_JOB, WRITES_FILES, set(SHOWN) - {"audit search"})
    assert sorted(one for group in named for one in group) == sorted(found)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", SHOWN)
def test_a_job_is_shown_with_its_name_and_a_time(flow, stub, monkeypatch, name, width) -> None:
    arguments, data = SHOWN[name]
    monkeypatch.setattr(display, "_columns", lambda: width)
    beside = {JOB: {"name": NAME, "status": "success", "create_time": NOON}}
    stub.answers(Reply(body={"retcode": 0, "retmsg": "success", "data": data, "jobs": beside}))
    has_form = any("--json" in options for one, options in commands() if one == name)
    result = flow(*name.split(), *arguments, *(["--table"] if has_form else []))
    assert result.exit_code == 0, result.output
    assert NAME in result.output
    assert JOB in result.output
    assert DATE in result.output or TIME_OF_DAY.search(result.output), result.output
    tables = [line for line in result.output.splitlines() if line.startswith("  ")]
    if name != "top":              # in a pipe it has no width
        assert all(len(line) <= width for line in tables), result.output
