"""The tab key after -j offers the newest jobs of the server; without one, nothing and no error."""

from __future__ import annotations

import threading

import pytest
from click.testing import CliRunner

from fate_flow.cli.connection import job_ids
from fate_flow.cli.connection.job_lists import has_no_such_route
from fate_flow.cli.connection.settings_file import store
from fate_flow.cli.console.reply import ServerReply
from fate_flow.cli.flow.main import flow as flow_command
from tests.kit.api.client_world import make_world
from tests.kit.cli.stub_server import Reply

JOBS = [
    {"job_id": "2026112210110761175207694", "status": "running", "name": "monthly totals"},
    {"job_id": "2026112209571354101509876", "status": "success", "name": ""},
]


@pytest.fixture(autouse=True)
def with_time(monkeypatch):
    """What a user would not wait for, a busy machine may need."""
    monkeypatch.setattr(job_ids, "_SECONDS", 60.0)


def completed(text, url):
    """As bash asks for it."""
    env = {"_FLOW_COMPLETE": "bash_complete", "COMP_WORDS": text, "COMP_CWORD": str(len(text.split(" ")) - 1),
           "FATE_FLOW_SERVER": url}
    done = CliRunner().invoke(flow_command, [], prog_name="flow", env=env)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("command", ["flow job stop -j ", "flow task log --job-id ", "flow job explain --json -j "])
def test_job_ids_are_offered(stub, command):
    stub.answers({"retcode": 0, "retmsg": "success", "data": {"jobs": JOBS, "count": 2}})
    assert completed(command, stub.url) == [f"plain,{one['job_id']}" for one in JOBS]
    assert (stub.last.path, stub.last.json) == ("/v1/job/search", {"limit": 50}), "it counts no history"
    assert completed(f"{command}202611221", stub.url) == [f"plain,{JOBS[0]['job_id']}"]
    around = {"text": "202611221", "after": "2026-11-20", "before": "2026-11-25"}
    assert stub.last.json == {"limit": 50, **around}, "the server need not look at all jobs since then"


@pytest.mark.parametrize("begin", ["2026", "20261399", "00010101", "99991231"])
def test_what_is_no_day_is_looked_for_among_the_newest_jobs(stub, begin):
    stub.answers({"retcode": 0, "retmsg": "success", "data": {"jobs": [], "count": 0}})
    assert completed(f"flow job stop -j {begin}", stub.url) == []
    assert stub.last.json == {"limit": 50, "text": begin}


def test_an_older_server_is_asked_for_its_list(stub):
    refusal = {"retcode": 100, "retmsg": "<NotFound '404: Not Found'>"}
    stub.answers(refusal, {"retcode": 0, "retmsg": "success", "data": {"jobs": JOBS, "count": 2}})
    assert completed("flow job stop -j 20261122", stub.url) == [f"plain,{one['job_id']}" for one in JOBS]
    assert (stub.last.path, stub.last.json) == ("/v1/job/list/job", {"limit": 50, "job_id": "20261122"})


def test_the_server_that_the_command_names_is_asked(stub):
    stub.answers({"retcode": 0, "retmsg": "success", "data": {"jobs": JOBS, "count": 2}})
    assert len(completed(f"flow --server {stub.url} job stop -j ", "http://127.0.0.1:1")) == 2
    host, _, port = stub.url.removeprefix("http://").partition(":")
    store({"ip": host, "port": int(port)})
    assert len(completed("flow job stop -j ", "")) == 2


def test_what_a_server_says_of_an_unknown_route_is_known(tmp_path):
    world = make_world(tmp_path)
    for path, is_unknown in (("job/unheard_of", True), ("job/search", False), ("job/explain", False)):
        answer = world.post(path, {})
        assert has_no_such_route(ServerReply(answer.status_code, answer.json)) is is_unknown
    world.store.close()


@pytest.mark.parametrize("reply", [
    {"retcode": 109, "retmsg": "requests have to be signed"}, {"retcode": 0, "data": None}, Reply(500, b"<html>"),
    {"retcode": 0, "data": {"jobs": [1]}},
])
def test_what_a_server_does_not_say_is_not_offered(stub, reply):
    stub.answers(reply)
    assert completed("flow job stop -j ", stub.url) == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "no address", ""])
def test_without_a_server_nothing_is_offered(url):
    assert completed("flow job stop -j ", url) == []


def test_a_server_that_hangs_is_not_waited_for(stub, monkeypatch):
    monkeypatch.setattr(job_ids, "_SECONDS", 0.05)
    leave = threading.Event()

    def hang(_asked):
        leave.wait(60)
        return Reply(body={"retcode": 0, "data": {"jobs": JOBS}})

    stub.answers(hang)
    assert completed("flow job stop -j ", stub.url) == []
    leave.set()
