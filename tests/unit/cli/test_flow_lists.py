"""Lists and facts: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from fate_flow.cli.flow.main import flow as flow_command
from fate_flow.cli.server.main import fate_flow as server_command
from tests.kit.cli.terminal import on_a_terminal

JOB_FILE = Path(__file__).parents[3] / "docs" / "examples" / "toy.yaml"
J = ("-j", "42")
TABLE = ("-n", "demo", "-t", "site_a")
LONG_ID = "202601011200000000000042"
SEAT = (*J, "-r", "guest", "-p", "9999", "-cpn", "sum_0")

JOB = {
    "job_id": "42", "role": "guest", "party_id": 9999, "status": "running", "status_detail": "stopping",
    "create_time": None, "elapsed": None, "reason": "timeout",
    "message": "after 9 s\x1b[2J",
}  # fmt: skip
WAITING = {**JOB, "job_id": "43", "status": "waiting", "status_detail": "waiting", "wait_reason": "2nd in the queue"}
DONE = {**JOB, "job_id": "44", "status": "success", "status_detail": "success", "reason": "done", "elapsed": 3_725_000}
TASK = {
    "component_name": "sum_0", "task_version": 1, "job_id": "42", "role": "guest", "party_id": "9999",
    "status": "failed", "party_status": "success", "elapsed": 61_499, "reason": "worker_error",
    "message": "exit code 3",
}  # fmt: skip


AGAIN = {
    "status": "running", "status_detail": "restarting", "reason": None, "message": "",
    "wait_reason": "sum_0 begins again as version 2 when host 10000 has stopped",
}  # fmt: skip
SILENT = {
    **JOB, "job_id": "45", "status_detail": "running", "reason": None, "message": "",
    "wait_reason": "host 10000 has not answered for 9 s; given up in 81 s",
}  # fmt: skip


def prefixed(row):
    return {f"f_{name}": value for name, value in row.items()}


LISTS = {
    "job list": (("job", "list"), {"jobs": [JOB, WAITING, DONE], "count": 17}, [
        "3 of 17 jobs",
        "job name party status created took why",
        "42 guest-9999 stopping timeout: after 9 s?[2J",
        "43 guest-9999 waiting 2nd in the queue",
        "44 guest-9999 success 1 h 02 min",
    ]),
    "jobs that run and wait": (("job", "list"), {"jobs": [{**JOB, **AGAIN}, SILENT], "count": 2}, [
        "2 jobs",
        "job name party status created took why",
        "42 guest-9999 restarting sum_0 begins again as version 2 when host 10000 has stopped",
        "45 guest-9999 running host 10000 has not answered for 9 s; given up in 81 s",
    ]),
    "a job that starts its tasks again": (("job", "query", *J), [prefixed({**JOB, **AGAIN})], [
        "1 job",
        "job name party status created took why",
        "42 guest-9999 restarting sum_0 begins again as version 2 when host 10000 has stopped",
    ]),
    "tasks that start again": (("task", "list"), {"tasks": [{**TASK, **AGAIN}], "count": 1}, [
        "job 42",
        "1 task",
        "task party status started took why",
        "sum_0 #1 guest-9999 restarting, there success 1 min 01 s sum_0 begins again as version 2 when host 10000 has "
        "stopped",
    ]),
    "a task that starts again": (("task", "query", *J), [prefixed({**TASK, **AGAIN, "party_status": "running"})], [
        "job 42",
        "1 task",
        "task party status started took why",
        "sum_0 #1 guest-9999 restarting, there running 1 min 01 s sum_0 begins again as version 2 when host 10000 has "
        "stopped",
    ]),
    "job list, not counted": (
        ("job", "list"), {"jobs": [DONE], "count": 1, "is_counted": False, "is_cut": True, "looked_at": 20_000,
                           "next": "1-2-guest-3"}, [
            "1 job; more may fit (count them with --count)",
            "job name party status created took why",
            "44 guest-9999 success 1 h 02 min",
            "20,000 jobs were searched; go on with --from 1-2-guest-3",
        ],
    ),
    "job list, more than are counted": (
        ("job", "list"), {"jobs": [DONE], "count": 10_000, "is_counted": False, "is_cut": False, "looked_at": 0,
                           "next": "1-2-guest-3"}, [
            "1 of more than 10000 jobs (count them with --count)",
            "job name party status created took why",
            "44 guest-9999 success 1 h 02 min",
            "older: --from 1-2-guest-3",
        ],
    ),
    "job query": (("job", "query", *J), [prefixed(JOB)], [
        "1 job",
        "job name party status created took why",
        "42 guest-9999 stopping timeout: after 9 s?[2J",
    ]),
    "task list": (("task", "list"), {"tasks": [TASK, {**TASK, "job_id": "43", "task_version": 0}], "count": 9}, [
        "2 of 9 tasks",
        "job name task party status started took why",
        "42 sum_0 #1 guest-9999 failed, there success 1 min 01 s worker_error: exit code 3",
        "43 sum_0 guest-9999 failed, there success 1 min 01 s worker_error: exit code 3",
    ]),
    "task query": (("task", "query", *J), [prefixed({**TASK, "party_status": "failed", "elapsed": 250})], [
        "job 42",
        "1 task",
        "task party status started took why",
        "sum_0 #1 guest-9999 failed 0.2 s worker_error: exit code 3",
    ]),
    "job view": (("job", "view", *J), [{
        "f_component_name": "sum_0", "f_task_version": 0, "f_role": "guest", "f_party_id": "9999",
        "f_data_name": "raw", "f_table_namespace": "demo", "f_table_name": "t1",
    }], ["task version role party output made namespace table", "sum_0 0 guest 9999 raw demo t1"]),
    "table info": (("table", "info", *TABLE), {
        "table_name": "site_a", "namespace": "demo", "exist": 1, "count": 7, "partition": 2, "enable": False,
        "schema": {"sid": "id", "header": ["x", "y"]}, "origin": "upload", "address": {"uri": "file:a"},
    }, [
        "table site_a in namespace demo, disabled", "what value", "rows 7", "partitions 2", "id id", "columns 2: x, y",
        "origin upload", 'address {"uri": "file:a"}',
    ]),
    "table info of none": (("table", "info", *TABLE), {
        "table_name": "site_a", "namespace": "demo", "exist": 0, "count": 0,
    }, ["there is no table site_a in namespace demo"]),
    "upload history": (("data", "upload-history"), [{"42": {
        "upload_info": {"table_name": "site_a", "namespace": "demo", "partition": 2, "upload_count": 7},
        "notes": "the first", "schema": {"sid": "id", "header": [f"x{n}" for n in range(22)]},
    }}], [
        "job name created namespace table rows partitions columns notes",
        f"42 demo site_a 7 2 {', '.join(f'x{n}' for n in range(20))}, ... the first",
    ]),
    "sources": (("table", "tracking-source", *TABLE), [{
        "parent_table_namespace": "demo", "parent_table_name": "b", "source_table_namespace": "demo",
        "source_table_name": "a",
    }], ["made from: namespace table original source: namespace table", "demo b demo a"]),
    "tables": (("table", "list"), {
        "tables": [
            {"namespace": "demo", "table_name": "site_a", "count": 5, "columns": 3, "create_time": None, "job_id": "42",
             "enable": True},
            {"namespace": "demo", "table_name": "b\x1b", "count": 0, "columns": 1, "create_time": None, "job_id": "",
             "enable": False},
        ],
        "count": 10_000, "is_counted": False, "next": "1/it's/b",
    }, [
        "2 of more than 10000 tables (count them with --count)",
        "job name created namespace table rows columns state",
        "42 demo site_a 5 3 usable",
        "demo b? 0 1 disabled",
        """older: --from '1/it'"'"'s/b'""",
    ]),
    "what was reserved": (("resource", "history"), {"reserved": [
        {"begin": None, "end": None, "cores": 2.5, "memory": 0.0},
        {"begin": None, "end": None, "cores": 2.5, "memory": 0.0},
        {"begin": None, "end": None, "cores": 1.0, "memory": 9.5},
    ], "cores": 8, "memory": 0}, [
        "from to cores MB", "2.5 0.0", "1.0 9.5", "of 8 cores and unlimited MB of memory now",
    ]),
    "rows of a table": (("table", "preview", *TABLE), {
        "namespace": "demo", "table_name": "site_a", "count": 2000, "header": ["id", "x"], "data": [["a\x1b", "1"]],
    }, ["1 of 2000 rows", "id x", "a? 1"]),
    "jobs of a table": (("table", "tracking-job", *TABLE), {"count": 2, "job": ["42", "43"]}, [
        "job name status created", "42", "43",
    ]),
    "providers": (("provider", "list"), {"fate_flow": {"0.1.0": {"components": ["Reader", "Upload"]}}}, [
        "provider version components", "fate_flow 0.1.0 Reader, Upload",
    ]),
    "offered": (("provider", "list-components"), {"components": {"reader": {
        "alias": ["Reader"], "roles": ["host", "guest"], "default_provider": "fate_flow", "description": "Hands on.",
    }}}, ["component module roles provider does", "reader Reader guest, host fate_flow Hands on."]),
    "resources": (("resource", "query"), {
        "computing_engine_resource": {"f_engine_name": "STANDALONE", "f_cores": 8, "f_remaining_cores": 6,
                                      "f_memory": 900, "f_remaining_memory": 500},
        "engines": [
            {"f_engine_name": "STANDALONE"},
            {"f_engine_name": "big", "f_cores": 4, "f_remaining_cores": 1, "f_gpus": 2, "f_remaining_gpus": 0},
        ],
        "use_resource_job": [{
            "job_id": "42", "role": "guest", "party_id": "9999", "core": 2, "memory": 0, "gpus": 2, "engine": "big",
        }],
    }, ["STANDALONE: 6 of 8 cores and 500 of 900 MB of memory are free",
        "big: 1 of 4 cores and 0 of 2 GPUs are free", "job name party created holds",
        "42 guest-9999 2 cores and 2 GPUs of big"]),
    "an idle engine": (("resource", "query"), {
        "computing_engine_resource": {"f_engine_name": "STANDALONE", "f_cores": 8, "f_remaining_cores": 8,
                                      "f_memory": 0, "f_remaining_memory": 0},
        "use_resource_job": [],
    }, ["STANDALONE: 8 of 8 cores are free"]),
    "privileges": (("privilege", "query", "-p", "10000"), {
        "component": ["Reader"], "dataset": [{"namespace": "demo", "name": "site_a"}, "*"],
    }, ["may be used namespace name", "component Reader", "dataset demo site_a", "dataset *"]),
    "no privileges": (("privilege", "query", "-p", "10000"), {"component": [], "dataset": []}, ["nothing is granted"]),
    "components": (("component", "list", *J), {"components": ["a_0", "b_0"]}, ["component", "a_0", "b_0"]),
    "metrics": (("component", "metrics", *SEAT), {"train": ["loss", "auc"]}, [
        "namespace metric", "train loss", "train auc",
    ]),
    "values of metrics": (("component", "metric-all", *SEAT), {"train": {"loss": {"data": [[0, 0.5], [1, 0.25]]}}}, [
        "namespace metric key value", "train loss 0 0.5", "train loss 1 0.25",
    ]),
    "parameters": (("tracking", "parameters", *SEAT), {"module": "SecureSum", "ComponentParam": {"column": "y"}}, [
        "what value", "module SecureSum", 'ComponentParam {"column": "y"}',
    ]),
    "tables put out": (("component", "output-data-table", *SEAT), [
        {"table_name": "t1", "table_namespace": "demo", "data_name": "raw"},
    ], ["output namespace table", "raw demo t1"]),
    "summary": (("component", "get-summary", *SEAT), {"total": "2000", "ok": True}, [
        "what value", "total 2000", "ok true",
    ]),
    "parties": (("party", "list"), {
        "own": {"party_id": "9999", "hold": {"by": "ann", "message": "maintenance"}},
        "parties": [{"party_id": "10000", "url": "http://h", "status": "up", "circuit": "closed", "message": ""}],
    }, [
        "party 9999 is on hold by ann: maintenance", "party_id url status problem circuit message",
        "10000 http://h up closed",
    ]),
    "a party whose clock is off": (("party", "list"), {"own": {}, "parties": [{
        "party_id": "10000", "url": "https://h:1", "status": "up", "clock_offset": -10_800_000,
        "keys": {"state": "joined", "since": None, "by": "ann"},
    }]}, [
        "party_id url status problem circuit message", "10000 https://h:1 up", "party 10000: joined since by ann",
        "its clock 3 h 00 min behind ours: correct the clocks, signed requests allow 60 s",
    ]),
    "no other party": (("party", "list"), {"own": {"party_id": "9999"}, "parties": []}, [
        "no other party has an address here: invite one, or join one (fate_flow party)",
    ]),
    "an empty queue": (("queue", "list"), {"hold": None, "jobs": [], "count": 0, "unapproved": []}, [
        "no job waits",
    ]),
    "how a job stands": (("job", "explain", *J), {"status": "waiting", "place_in_queue": 2}, [
        "job 42: waiting", "why it waits: 2nd in the queue",
    ]),
    "history of a job": (("job", "history", *J), {"moves": [], "parties": []}, []),
    "what would run": (("job", "validate", "-f", str(JOB_FILE)), {"parties": [], "warnings": ["x: is ignored"]}, [
        "warning: x: is ignored",
    ]),
    "sections": (("service", "registry"), {"FATEFLOW": {"http_port": 9380}, "LOG": {"sql": False}}, [
        "section what value", "FATEFLOW http_port 9380", "LOG sql false",
    ]),
    "a connector": (("table", "connector-query", "--connector-name", "e"), {"connector_name": "e", "path": "/x"}, [
        "what value", "connector_name e", "path /x",
    ]),
    "versions": (("server", "versions"), {"API": "v1", "JDK": ""}, ["what value", "API v1", "JDK"]),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_people_read_a_table_and_scripts_read_json(flow, stub, name):
    arguments, data, lines = LISTS[name]
    envelope = {"retcode": 0, "retmsg": "success", "data": data}
    stub.answers(envelope)
    shown = flow(*arguments, "--table")
    assert (shown.exit_code, [" ".join(line.split()) for line in shown.stdout.splitlines()]) == (0, lines)
    for form in ((), ("--json",)):
        assert json.loads(flow(*arguments, *form).stdout) == envelope


def test_a_job_that_has_used_a_table_may_be_restarting(flow, stub):
    known = {"42": {"name": "night", "status": "running", "status_detail": "restarting"}}
    stub.answers({"retcode": 0, "retmsg": "success", "data": {"count": 1, "job": ["42"]}, "jobs": known})
    assert flow("table", "tracking-job", *TABLE, "--table").stdout.splitlines()[1].split() == [
        "42", "night", "restarting"]


def test_a_key_is_shown_with_its_id(flow, stub):
    envelope = {"retcode": 0, "retmsg": "success", "data": "-----BEGIN\nabc\n", "key_id": "3b1f"}
    stub.answers(envelope)
    assert flow("key", "query", "-p", "10000", "--table").stdout == "key_id 3b1f\n-----BEGIN\nabc\n"
    assert json.loads(flow("key", "query", "-p", "10000").stdout) == envelope


def test_a_list_of_nothing_says_so(flow, stub):
    stub.answers({"retcode": 0, "retmsg": "no job could be found", "data": []})
    assert flow("job", "query", "--table").stdout == "no job could be found\n"
    stub.answers({"retcode": 0, "retmsg": "success", "data": []})
    assert flow("data", "upload-history", "--table").stdout == "nothing found\n"


def test_a_refused_list_is_told_as_every_refusal(flow, stub):
    refused = {"retcode": 101, "retmsg": "find task failed"}
    stub.answers(refused)
    result = flow("task", "query", *J, "--table")
    assert (result.exit_code, json.loads(result.stdout), result.stderr) == (1, refused, "Error: find task failed\n")


def test_a_summary_that_is_written_to_a_file_has_one_form(flow, tmp_path):
    result = flow("component", "get-summary", *SEAT, "-o", str(tmp_path), "--table")
    assert (result.exit_code, "cannot be combined with -o" in result.stderr) == (2, True)


def test_nothing_that_was_held_is_no_failure(flow, stub):
    """As the genuine client has it: the retcode is 0, and the answer says that nothing came back."""
    returned = {"job_id": "42", "role": "guest", "party_id": "9999", "resource_in_use": False,
                "resource_return_status": False}
    envelope = {"retcode": 0, "retmsg": "success", "data": [returned]}
    stub.answers(envelope)
    result = flow("resource", "return", *J)
    assert (result.exit_code, json.loads(result.stdout)) == (0, envelope)


@pytest.mark.long
def test_a_terminal_gets_a_table_unless_json_is_asked_for(stub):
    envelope = {"retcode": 0, "retmsg": "success", "data": {"jobs": [{**WAITING, "job_id": LONG_ID}], "count": 1}}
    stub.answers(envelope)
    table, _ = on_a_terminal(stub, "job", "list", columns=60)
    assert "1 job\r" in table
    lines = [re.sub(r"\x1b\[\d*m", "", line) for line in table.splitlines()]
    assert max(map(len, lines)) <= 60
    assert lines[2].split()[0] == LONG_ID, "the name of what is listed is not folded"
    assert "queue" in table
    document, _ = on_a_terminal(stub, "job", "list", "--json")
    assert json.loads(document) == envelope


def commands_of(command, *path):
    yield path, command
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from commands_of(one, *path, name)


@pytest.mark.parametrize(
    ("path", "command"), [*commands_of(flow_command, "flow"), *commands_of(server_command, "fate_flow")],
    ids=lambda value: "",
)  # fmt: skip
def test_every_command_and_option_has_a_line_of_help(path, command):
    assert command.get_short_help_str(200), path
    without = [one.name for one in command.params if isinstance(one, click.Option) and not one.help]
    assert not without, path
