"""flow job submit and validate: the files, the request, the retries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fate_flow.jobspec.native.schema import JOB
from tests.kit.cli.stub_server import Reply

CONF = {"dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999}}
DSL = {"components": {"reader_0": {"module": "Reader"}}}
ACCEPTED = {"retcode": 0, "retmsg": "success", "jobId": "42", "data": {"job_id": "42", "code": 0}}


@pytest.fixture
def files(write_json):
    return "-c", write_json("conf.json", CONF), "-d", write_json("dsl.json", DSL)


@pytest.mark.parametrize(("command", "path"), [
    (("submit",), "/v1/job/submit"), (("validate", "--json"), "/v1/job/validate"),
])
def test_the_files_and_their_names_are_sent(flow, stub, files, command, path):
    stub.answers(ACCEPTED)
    result = flow("job", *command, *files)
    assert (result.exit_code, json.loads(result.stdout)) == (0, ACCEPTED)
    assert stub.last.path == path
    conf = {**CONF, "conf_path": "conf.json", "dsl_path": "dsl.json"}
    assert stub.last.json == {"job_dsl": DSL, "job_runtime_conf": conf}
    assert "Idempotency-Key" not in stub.last.headers


FILE = "version: 1  # \u00e4\ntasks: {}\n"


@pytest.mark.parametrize(("command", "path"), [
    (("submit",), "/v1/job/submit"), (("validate", "--json"), "/v1/job/validate"),
])
def test_a_job_file_is_sent_as_it_is(flow, stub, command, path):
    Path("job.yaml").write_text(FILE, encoding="utf-8")
    stub.answers(ACCEPTED)
    result = flow("job", *command, "-f", "job.yaml")
    assert (result.exit_code, json.loads(result.stdout)) == (0, ACCEPTED)
    assert (stub.last.path, stub.last.json) == (path, {"job_file": FILE})


def test_what_parties_give_less_of_is_told_beside_the_answer(flow, stub):
    Path("job.yaml").write_text(FILE, encoding="utf-8")
    described = {"role": "host", "party_id": "10000", "message": "a: timeout 9 s is 5 s \x1b(ceilings.task_timeout)"}
    answer = {**ACCEPTED, "data": {**ACCEPTED["data"], "effective": [described]}}
    stub.answers(answer)
    result = flow("job", "submit", "-f", "job.yaml")
    assert json.loads(result.stdout) == answer
    assert result.stderr == "note: host-10000: a: timeout 9 s is 5 s ?(ceilings.task_timeout)\n"


@pytest.mark.parametrize("command", ["submit", "validate"])
def test_a_job_is_one_file_or_two_and_not_both(flow, stub, files, command):
    Path("job.yaml").write_text(FILE, encoding="utf-8")
    for arguments, text in ((("-f", "job.yaml", *files), "cannot be combined with -c"), ((), "Missing option '-f'")):
        result = flow("job", command, *arguments)
        assert (result.exit_code, result.stdout, stub.asked) == (2, "", [])
        assert text in result.stderr


def test_a_job_file_that_is_no_text_is_named(flow, stub):
    Path("job.yaml").write_bytes(b"name: \xff")
    result = flow("job", "submit", "-f", "job.yaml")
    assert (result.exit_code, stub.asked) == (2, [])
    assert "job.yaml: byte 6 is not UTF-8" in result.stderr


def test_the_schema_is_printed_without_a_server(flow, stub):
    result = flow("job", "schema")
    assert (json.loads(result.stdout), stub.asked) == (JOB, [])


def test_a_job_needs_no_dsl_file(flow, stub, files):
    flow("job", "submit", *files[:2])
    assert stub.last.json == {"job_dsl": {}, "job_runtime_conf": {**CONF, "conf_path": "conf.json"}}


def test_a_request_id_rides_in_a_header(flow, stub, files):
    flow("job", "submit", *files, "--request-id", "nightly-7")
    assert stub.last.headers["Idempotency-Key"] == "nightly-7"


@pytest.mark.parametrize("request_id", ["", "two words", "a\nb", "x" * 129, "ä"])
def test_a_request_id_that_fits_no_header_is_refused(flow, stub, files, request_id):
    result = flow("job", "submit", *files, "--request-id", request_id)
    assert (result.exit_code, stub.asked) == (2, [])
    assert "--request-id" in result.stderr


def test_an_output_path_means_this_machine(flow, stub, write_json, tmp_path):
    flow("job", "submit", "-c", write_json("conf.json", {"output_path": "out"}))
    assert stub.last.json["job_runtime_conf"]["output_path"] == str(tmp_path / "out")


@pytest.mark.parametrize(("text", "message"), [
    (b'{"a": 1,\n  "b": }', "conf.json: line 2, column 8: Expecting value"),
    (b"", "conf.json: line 1, column 1: Expecting value"),
    (b"[1]", "conf.json: is not a JSON object"),
    (b'{"a": NaN}', "conf.json: NaN is not JSON"),
    (b'{"a": "\xff"}', "conf.json: byte 7 is not UTF-8"),
    (b'{"components": {"a": {}, "a": {}}}', "conf.json: components.a is there twice: an object has each of its keys"),
    (b"[" * 100_000, "conf.json: "),
])
@pytest.mark.parametrize("option", ["-c", "-d"])
def test_a_bad_file_is_named_with_its_line(flow, stub, write_json, text, message, option):
    good = write_json("good.json", {})
    Path("conf.json").write_bytes(text)
    files = ("-c", "conf.json") if option == "-c" else ("-c", good, "-d", "conf.json")
    result = flow("job", "submit", *files)
    assert (result.exit_code, result.stdout, stub.asked) == (2, "", [])
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_may_begin_with_a_byte_order_mark(flow, stub):
    Path("conf.json").write_text('{"a": 1}', encoding="utf-8-sig")
    assert flow("job", "submit", "-c", "conf.json").exit_code == 0
    assert stub.last.json["job_runtime_conf"]["a"] == 1


BUSY = Reply(503, {"retcode": 503, "retmsg": "too many submits"}, {"Retry-After": "2"})


def test_a_busy_server_is_asked_again(flow, stub, files, pauses):
    stub.answers(BUSY, BUSY, ACCEPTED)
    result = flow("job", "submit", *files, "--request-id", "a")
    assert (result.exit_code, json.loads(result.stdout)) == (0, ACCEPTED)
    assert pauses == [2.0, 2.0]
    assert result.stderr.count("busy (too many submits)") == 2
    assert [one.headers["Idempotency-Key"] for one in stub.asked] == ["a"] * 3
    assert len({one.body for one in stub.asked}) == 1


def test_a_server_that_stays_busy_is_left_alone_in_the_end(flow, stub, files, pauses):
    stub.answers(BUSY)
    result = flow("job", "submit", *files)
    assert (result.exit_code, json.loads(result.stdout), len(pauses)) == (1, BUSY.body, 5)


@pytest.mark.parametrize(("header", "seconds"), [("3600", 10.0), ("-1", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 1.0)])
def test_how_long_a_busy_server_is_waited_for_has_bounds(flow, stub, files, pauses, header, seconds):
    stub.answers(Reply(503, BUSY.body, {"Retry-After": header}), ACCEPTED)
    assert flow("job", "submit", *files).exit_code == 0
    assert pauses == [seconds]


def test_a_503_that_names_no_time_is_a_refusal(flow, stub, files, pauses):
    stub.answers(Reply(503, BUSY.body))
    assert (flow("job", "submit", *files).exit_code, pauses) == (1, [])


PLAN = {
    "parties": [
        {"role": "guest", "party_id": "9999", "cores": 4, "memory": 0, "tasks": [
            {"component_name": "reader_0", "module": "Reader", "need_run": True,
             "parameters": {"table": {"name": "ä"}}},
            {"component_name": "sum_0", "module": "SecureSum", "need_run": False, "parameters": {"x": 1}},
        ]},
        {"role": "host", "party_id": "10000", "cores": 2, "memory": 512, "tasks": []},
    ],
    "warnings": ["job_parameters.common.backend: no such key"],
}


def test_a_plan_is_told_per_party(flow, stub, files):
    stub.answers({"retcode": 0, "retmsg": "success", "data": PLAN})
    result = flow("job", "validate", "--table", *files)
    assert result.exit_code == 0
    assert result.stdout == (
        "guest-9999: 4 cores\n"
        "  task       module      parameters\n"
        '  reader_0   Reader      {"table": {"name": "ä"}}\n'
        "  sum_0      SecureSum   does not run\n"
        "\n"
        "host-10000: 2 cores, 512 MB\n"
        "  task   module   parameters\n"
        "\n"
        "warning: job_parameters.common.backend: no such key\n"
    )


def test_a_plan_with_stages_tells_them(flow, stub, files):
    tasks = [{"component_name": "read", "module": "Reader", "stage": "default"},
             {"component_name": "fit", "module": "fate.psi", "stage": "train", "parameters": {"x": 1}}]
    parties = [{"role": "guest", "party_id": "9999", "cores": 1, "tasks": tasks}]
    stub.answers({"retcode": 0, "retmsg": "success", "data": {"parties": parties}})
    assert flow("job", "validate", "--table", *files).stdout == (
        "guest-9999: 1 core\n"
        "  task   module     stage     parameters\n"
        "  read   Reader     default   {}\n"
        '  fit    fate.psi   train     {"x": 1}\n'
        "\n"
    )


def value(what, source, where):
    return {"value": what, "from": source, "where": where}


def test_a_plan_tells_what_holds_and_where_it_comes_from(flow, stub, files):
    default = value("none", "server default", "job_default_config.auto_retries")
    tasks = [
        {"component_name": name, "module": "M", "parameters": {}, "values": {
            "timeout": value(5.0, "party", "ceilings.task_timeout of host 10000"), "retry": default}}
        for name in ("a", "b")
    ]
    parties = [{"role": "host", "party_id": "10000", "cores": 1, "asked": "not asked", "message": "it is\nsilent",
                "values": {"task_cores": value(1, "document", "resources.cores (line 4)")}, "tasks": tasks}]
    plan = {"parties": parties, "values": {"timeout": value(60, "default", "")}, "warnings": []}
    stub.answers({"retcode": 0, "retmsg": "success", "data": plan})
    assert flow("job", "validate", "--table", *files).stdout == (
        "host-10000: 1 core\n"
        "not asked: it is silent\n"
        "  task   module   parameters\n"
        "  a      M        {}\n"
        "  b      M        {}\n"
        "\n"
        "  value        of          is     from\n"
        "  task_cores   each task   1      resources.cores (line 4)\n"
        "  retry        a, b        none   server default job_default_config.auto_retries\n"
        "  timeout      a, b        5      ceilings.task_timeout of host 10000\n"
        "\n"
        "  value     of        is   from\n"
        "  timeout   the job   60   default\n"
        "\n"
    )


def test_all_that_is_wrong_with_a_job_is_told(flow, stub, files):
    stub.answers({"retcode": 103, "retmsg": "a: is bad", "data": {"problems": ["a: is bad", "b: is bad"]}})
    result = flow("job", "validate", "--table", *files)
    assert (result.exit_code, result.stderr) == (1, "Error: a: is bad\nb: is bad\n")
    assert json.loads(result.stdout)["retcode"] == 103


def test_a_plan_that_a_party_refuses_is_an_error(flow, stub, files):
    stub.answers({"retcode": 101, "retmsg": "job_dsl.components.a.module: no such module"})
    result = flow("job", "validate", "--table", *files)
    assert result.exit_code == 1
    assert result.stderr == "Error: job_dsl.components.a.module: no such module\n"
    assert json.loads(result.stdout)["retcode"] == 101
