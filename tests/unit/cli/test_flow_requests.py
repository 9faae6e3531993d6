"""What each command sends: method, path and body as the genuine client has them (client-api-v1, section 3)."""

from __future__ import annotations

import json

import pytest

from tests.kit.cli.stub_server import Reply

J = ("-j", "42")
SEAT = (*J, "-r", "guest", "-p", "9999", "-cpn", "psi_0")
SEAT_BODY = {"job_id": "42", "role": "guest", "party_id": "9999", "component_name": "psi_0"}
TABLE = ("-n", "demo", "-t", "site_a")
TABLE_BODY = {"namespace": "demo", "table_name": "site_a"}

COMMANDS = [
    (("job", "list"), "job/list/job", {"limit": 10}),
    (("job", "list", "--text", "a b", "-s", "failed", "--party", "10000", "--person", "ann", "--component", "toy_0",
      "--after", "2026-01-31", "--before", "2026-02-01", "--from", "1-2-guest-3"), "job/search", {
        "limit": 10, "text": "a b", "status": "failed", "party": "10000", "person": "ann", "component": "toy_0",
        "after": "2026-01-31", "before": "2026-02-01", "from": "1-2-guest-3",
    }),
    (("job", "list", "-l", "3", "--page", "4"), "job/list/job", {"limit": 3, "page": 4}),
    (("job", "query"), "job/query", {}),
    (("job", "query", *J, "-r", "host", "-p", "10000", "-s", "waiting"), "job/query",
     {"job_id": "42", "role": "host", "party_id": "10000", "status": "waiting"}),
    (("job", "query", "-r", "host", "-l", "9", "--page", "2"), "job/query", {"role": "host", "limit": 9, "page": 2}),
    (("job", "stop", "--job-id", "42"), "job/stop", {"job_id": "42"}),
    (("job", "rerun", *J), "job/rerun", {"job_id": "42", "force": False}),
    (("job", "rerun", *J, "-cpn", "lr_0", "--force"), "job/rerun",
     {"job_id": "42", "component_name": "lr_0", "force": True}),
    (("job", "resume", *J), "job/resume", {"job_id": "42"}),
    (("job", "priority", *J, "--set", "-3"), "job/priority", {"job_id": "42", "priority": -3}),
    (("job", "stop", "-j", "42", "--now"), "job/stop", {"job_id": "42", "now": True}),
    (("job", "hold", *J, "-m", "until noon", "--by", "ann"), "job/hold",
     {"job_id": "42", "message": "until noon", "author": "ann"}),
    (("job", "release", *J, "--by", "ann"), "job/release", {"job_id": "42", "author": "ann"}),
    (("job", "approve", *J, "--by", "ann"), "job/approve", {"job_id": "42", "author": "ann"}),
    (
        ("job", "approve", *J, "--by", "ann", "--reason", "contract 7"), "job/approve",
        {"job_id": "42", "author": "ann", "reason": "contract 7"},
    ),
    (("job", "approve", *J, "--by", "ann", "--revision", "2"), "job/approve",
     {"job_id": "42", "author": "ann", "revision": 2}),
    (("job", "approve", *J, "--by", "ann", "--digest", "0a" * 32), "job/approve",
     {"job_id": "42", "author": "ann", "digest": "0a" * 32}),
    (("job", "reject", *J, "--reason", "no contract", "--by", "ann"), "job/reject",
     {"job_id": "42", "reason": "no contract", "author": "ann"}),
    (("queue", "list", "-l", "5", "--page", "2", "--json"), "queue/list", {"limit": 5, "page": 2}),
    (("queue", "hold", "--message", "until noon", "--by", "ann"), "queue/hold",
     {"message": "until noon", "author": "ann"}),
    (("queue", "release", "--by", "ann"), "queue/release", {"author": "ann"}),
    (("job", "view", *J), "job/data/view/query", {"job_id": "42"}),
    (("job", "explain", *J, "--json"), "job/explain", {"job_id": "42"}),
    (("task", "list"), "job/list/task", {"limit": 10}),
    (("task", "list", "--page", "2"), "job/list/task", {"limit": 10, "page": 2}),
    (("task", "query", *J, "-l", "9", "--page", "2"), "job/task/query", {"job_id": "42", "limit": 9, "page": 2}),
    (("task", "query", *SEAT, "-s", "success"), "job/task/query", {**SEAT_BODY, "status": "success"}),
    (("resource", "query"), "resource/query", {}),
    (("resource", "history"), "resource/history", {}),
    (("resource", "return", *J), "resource/return", {"job_id": "42"}),
    (("data", "upload-history"), "data/upload/history", {"limit": 10}),
    (("data", "upload-history", "-l", "20", *J), "data/upload/history", {"limit": 20, "job_id": "42"}),
    (("table", "list"), "table/search", {"limit": 10, "origin": "upload"}),
    (("table", "list", "-l", "50", "--origin", "output", "-n", "demo", "--from", "1/demo/site_a"), "table/search",
     {"limit": 50, "origin": "output", "namespace": "demo", "from": "1/demo/site_a"}),
    (("table", "info", *TABLE), "table/table_info", TABLE_BODY),
    (("table", "preview", *TABLE), "table/preview", TABLE_BODY),
    (("table", "delete", *TABLE), "table/delete", TABLE_BODY),
    (("table", "delete", *SEAT), "table/delete", SEAT_BODY),
    (("table", "disable", *TABLE), "table/disable", TABLE_BODY),
    (("table", "enable", *TABLE), "table/enable", TABLE_BODY),
    (("server", "versions"), "server/version/get", {}),
    (("server", "reload"), "server/reload", {}),
    (("table", "disable-delete"), "table/disable/delete", {}),
    (("table", "tracking-source", *TABLE), "table/tracking/source", TABLE_BODY),
    (("table", "tracking-job", *TABLE), "table/tracking/job", TABLE_BODY),
    (("component", "metric-delete", *J), "tracking/component/metric/delete", {"job_id": "42"}),
    (("component", "metric-delete", "-d", "20260101"), "tracking/component/metric/delete", {"model": "20260101"}),
    (("party", "list", "--json"), "party/list", {}),
    (("privilege", "query", "-p", "10000"), "permission/query", {"party_id": "10000"}),
]
for group in ("component", "tracking"):
    COMMANDS += [
        ((group, "list", *J), "tracking/component/list", {"job_id": "42"}),
        ((group, "parameters", *SEAT), "tracking/component/parameters", SEAT_BODY),
        ((group, "metrics", *SEAT), "tracking/component/metrics", SEAT_BODY),
        ((group, "metric-all", *SEAT), "tracking/component/metric/all", SEAT_BODY),
        ((group, "metric-all", *SEAT, "-v", "0"), "tracking/component/metric/all", {**SEAT_BODY, "task_version": 0}),
        ((group, "output-model", *SEAT), "tracking/component/output/model", SEAT_BODY),
        ((group, "output-data-table", *SEAT, "-v", "2"), "tracking/component/output/data/table",
         {**SEAT_BODY, "task_version": 2}),
        ((group, "output-data-table", *SEAT), "tracking/component/output/data/table", SEAT_BODY),
        ((group, "get-summary", *SEAT), "tracking/component/summary/download", SEAT_BODY),
    ]


@pytest.mark.parametrize(("arguments", "path", "body"), COMMANDS, ids=lambda value: "")
def test_a_command_sends_what_the_genuine_client_sends(flow, stub, arguments, path, body):
    result = flow(*arguments)
    assert result.exit_code == 0
    assert (stub.last.method, stub.last.path, stub.last.json) == ("POST", f"/v1/{path}", body)


@pytest.mark.parametrize("arguments", [one[0] for one in COMMANDS], ids=" ".join)
def test_what_the_server_says_is_printed_as_the_genuine_client_prints_it(flow, stub, arguments):
    stub.answers({"retcode": 0, "retmsg": "gelöst", "data": {"a": [1]}})
    expected = json.dumps({"retcode": 0, "retmsg": "gelöst", "data": {"a": [1]}}, indent=4, ensure_ascii=False)
    assert flow(*arguments).stdout == expected + "\n\n"


@pytest.mark.parametrize("arguments", [one[0] for one in COMMANDS], ids=" ".join)
@pytest.mark.parametrize("reply", [
    Reply(200, {"retcode": 103, "retmsg": "no"}), Reply(404, {"retcode": 404, "retmsg": "no"}),
    Reply(210, {"retcode": 210, "retmsg": "no"}), Reply(500, {"retcode": 0, "retmsg": "no"}),
    Reply(200, {"retmsg": "no"}),
], ids=lambda reply: str(reply.status))
def test_a_refusal_is_printed_and_fails(flow, stub, arguments, reply):
    stub.answers(reply)
    result = flow(*arguments)
    assert (result.exit_code, json.loads(result.stdout)) == (1, reply.body)


def test_an_approval_is_of_the_document_that_the_job_had_when_it_was_printed(flow, stub):
    stub.answers({"retcode": 0, "retmsg": "success", "data": {
        "approval": {"status": "pending", "digest": "0a" * 32, "revision": 2},
    }})
    result = flow("job", "approve", *J, "--by", "ann")
    assert result.stderr == f"this approves the document {'0a' * 16} (revision 2)\n"
    assert [one.path for one in stub.asked] == ["/v1/job/explain", "/v1/job/approve"]
    assert stub.last.json == {"job_id": "42", "author": "ann", "digest": "0a" * 32}
    flow("job", "approve", *J, "--by", "ann", "--digest", "0b" * 16)
    assert [one.path for one in stub.asked[2:]] == ["/v1/job/approve"]
    assert stub.last.json["digest"] == "0b" * 16


def test_jobs_are_counted_by_one_request_after_the_other(flow, stub):
    stub.answers(*({"retcode": 0, "retmsg": "success", "data": {"count": 3, "looked_at": 9, "next": place}}
                   for place in ("1-2-guest-3", None)))  # fmt: skip
    assert json.loads(flow("job", "list", "-s", "failed", "--count").stdout) == {"count": 6}
    assert [one.json for one in stub.asked] == [{"status": "failed"}, {"status": "failed", "from": "1-2-guest-3"}]
    assert flow("job", "list", "--page", "2", "--text", "x").exit_code == 2
    assert len(stub.asked) == 2


def test_tables_are_counted_by_one_request_after_the_other(flow, stub):
    stub.answers(*({"retcode": 0, "retmsg": "success", "data": {"count": 1, "looked_at": 1, "next": place}}
                   for place in ("1/demo/site_a", None)))  # fmt: skip
    assert json.loads(flow("table", "list", "--origin", "writer", "--count").stdout) == {"count": 2}
    assert {one.path for one in stub.asked} == {"/v1/table/search/count"}
    assert [one.json for one in stub.asked] == [{"origin": "writer"}, {"origin": "writer", "from": "1/demo/site_a"}]


@pytest.mark.parametrize("noun", ["job", "table"])
@pytest.mark.parametrize(("option", "value"), [("--from", "1-2-guest-3"), ("--limit", "10"), ("-l", "10")])
def test_all_that_fit_are_counted_and_no_part_of_them(flow, stub, noun, option, value):
    result = flow(noun, "list", "--count", option, value)
    name = "--limit" if option == "-l" else option
    assert result.exit_code == 2
    assert f"{name}: does not go with --count" in result.stderr
    assert not stub.asked


def test_a_table_of_jobs_does_not_count_the_history(flow, stub):
    stub.answers({"retcode": 0, "retmsg": "success", "data": {"jobs": [], "count": 0, "is_counted": True}})
    assert flow("job", "list", "--table").exit_code == 0
    assert (stub.last.path, stub.last.json) == ("/v1/job/search", {"limit": 10})


def test_cleaning_the_queue_sends_no_body_at_all(flow, stub):
    assert flow("queue", "clean").exit_code == 0
    assert (stub.last.method, stub.last.path) == ("POST", "/v1/job/clean/queue")
    assert stub.last.body in (None, b"")
    assert "Content-Type" not in stub.last.headers


def test_the_documents_of_a_job_are_left_out_of_a_query(flow, stub):
    rows = [{"f_job_id": "42", "f_runtime_conf": {}, "f_dsl": {}}, {"f_job_id": "43"}]
    stub.answers({"retcode": 0, "retmsg": "success", "data": rows})
    assert json.loads(flow("job", "query", *J).stdout)["data"] == [{"f_job_id": "42"}, {"f_job_id": "43"}]


@pytest.mark.parametrize("arguments", [
    ("job", "stop"), ("job", "rerun"), ("job", "resume"),
    ("job", "query", "-s", "complete"), ("job", "query", "-r", "boss"), ("job", "list", "-l", "ten"),
    ("job", "log", *J), ("job", "config", *J, "-o", "."), ("component", "metrics", *J), ("table", "info", "-n", "demo"),
    ("table", "list", "--origin", "odd"),
    ("job", "nonsense"), ("job", "submit"), ("job", "submit", "-c", "missing.json"),
    ("component", "get-summary", *SEAT, "-o", "missing"),
], ids=" ".join)
def test_wrong_usage_asks_nobody(flow, stub, arguments):
    assert (flow(*arguments).exit_code, stub.asked) == (2, [])
