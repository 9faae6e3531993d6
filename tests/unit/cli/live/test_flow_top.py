"""flow top: one screen of what a party does."""

from __future__ import annotations

import json
from threading import Event
from time import time_ns

import pytest

from fate_flow.cli.connection.client import Client
from fate_flow.cli.connection.settings_file import Address
from fate_flow.cli.output.overview import Looks, lines_of
from tests.kit.cli.stub_server import Asked, Reply, Stub
from tests.kit.waiting import eventually

NOW = time_ns() // 1_000_000
ENGINE = {
    "f_engine_name": "STANDALONE", "f_cores": 20, "f_remaining_cores": 2, "f_memory": 0, "f_gpus": 4,
    "f_remaining_gpus": 1,
}  # fmt: skip
SLURM = {"f_engine_name": "slurm", "f_cores": 400, "f_remaining_cores": 100}
PARTIES = [
    {"party_id": "10000", "status": "answers"},
    {"party_id": "10001", "status": "does not answer", "message": "connection refused"},
    {"party_id": "10002", "status": "does not answer", "problem": "clock", "message": "compare the clocks"},
]


def job(number: int, status: str, **fields: object) -> dict[str, object]:
    shown = {"job_id": f"job{number}", "name": "night", "role": "guest", "party_id": "9999", "status": status, **fields}
    return {f"f_{name}": value for name, value in shown.items()}


FAILED = job(100, "failed", end_time=NOW - 1_000, reason="worker_failed", message="division by zero")


def waiting(number: int) -> dict[str, object]:
    reason = "host 10000 has 2 of 20 cores free, 9 asked"
    return {"job_id": f"wait{number}", "place_in_queue": number, "wait_reason": reason}


class Server:
    """What a server with so many jobs answers."""

    def __init__(self, stub: Stub, running: int = 1, queued: int = 1, *, is_older: bool = False) -> None:
        self.is_older = is_older
        self.data = {
            "resource/query": {"computing_engine_resource": ENGINE, "engines": [ENGINE, SLURM]},
            "running": {
                "jobs": [job(number, "running", start_time=NOW - 65_000) for number in range(running)],
                "count": running, "is_counted": True,
            },
            "failed": {"jobs": [FAILED], "count": 7, "is_counted": True},
            "failed of an older server": {
                "jobs": [FAILED, job(101, "failed", end_time=NOW - 90_000_000)], "count": 2000,
            },
            "queue/list": {
                "jobs": [waiting(number) for number in range(1, queued + 1)], "count": queued,
                "unapproved": [{"job_id": "theirs"}],
            },
            "party/list": {"own": {"party_id": "9999", "hold": {"by": "ann", "message": "noon"}}, "parties": PARTIES},
        }  # fmt: skip
        self.parties_may_answer = Event()
        self.parties_may_answer.set()
        stub.answers(self.answer)

    def answer(self, asked: Asked) -> Reply:
        path = asked.path.removeprefix("/v1/")
        if path == "party/list":
            self.parties_may_answer.wait(30)
        if self.is_older and path in ("job/search", "job/failed"):
            return Reply(body={"retcode": 100, "retmsg": "<NotFound '404: Not Found'>"})
        is_of_failed = "failed" in (asked.json.get("status") or ())
        names = {
            "job/search": "running", "job/failed": "failed",
            "job/list/job": "failed of an older server" if is_of_failed else "running",
        }
        return Reply(body={"retcode": 0, "retmsg": "success", "data": self.data[names.get(path, path)]})


@pytest.fixture
def looks(stub):
    with Looks(Client(lambda: Address(stub.url)), lambda: NOW) as looks:
        yield looks


def texts(view, width=None, height=None) -> list[str]:
    return [line.text for line in lines_of(view, width, height)]


def test_it_is_printed_once_in_a_pipe(flow, stub):
    Server(stub)
    result = flow("top")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:6] == [
        "party 9999 is on hold by ann: noon",
        "party 10001: does not answer: connection refused",
        "party 10002: does not answer (clock): compare the clocks",
        "STANDALONE: 2 of 20 cores and 1 of 4 GPUs are free",
        "slurm: 100 of 400 cores are free",
        "1 job runs",
    ]
    assert "job0" in result.stdout
    assert "guest-9999" in result.stdout
    assert "host 10000 has 2 of 20 cores free, 9 asked" in result.stdout
    assert "1 job of another initiator needs an approval here: flow queue list" in result.stdout
    assert "division by zero" in result.stdout
    assert "7 jobs failed in the last 24 hours, the newest 1 of them shown" in result.stdout
    assert "/v1/job/list/job" not in {one.path for one in stub.asked}, "it counts the history"


def test_an_older_server_is_asked_for_its_lists(flow, stub):
    Server(stub, is_older=True)
    shown = flow("top").stdout
    assert "1 job runs" in shown
    assert "the newest of those that failed in the last 24 hours" in shown
    assert "division by zero" in shown
    assert "job101" not in shown, "it failed two days ago"


def test_how_long_a_job_runs_is_said(stub, looks):
    Server(stub)
    assert "1 min 05 s" in next(line for line in texts(looks.take(waits=True)) if "job0" in line)


def test_what_a_running_job_waits_for_is_said_and_so_is_a_status_other_than_running(stub, looks):
    silence, again = "host 10000 has not answered for 9 s; given up in 81 s", "a begins again as version 1"
    server = Server(stub)
    server.data["running"] = {"count": 4, "is_counted": True, "jobs": [
        job(0, "running", status_detail="restarting", wait_reason=again),
        job(1, "running", status_detail="running", wait_reason=silence),
        job(2, "running", status_detail="stopping", wait_reason="ends as failed when host 10000 has stopped"),
        job(3, "running", status_detail="running"),
    ]}  # fmt: skip
    lines = texts(looks.take(waits=True))
    assert [line.partition("0.0 s")[2].strip() for line in lines if " job" in line and "0.0 s" in line] == [
        f"restarting; {again}", silence, "stopping; ends as failed when host 10000 has stopped", "",
    ]


def test_a_party_that_does_not_answer_holds_nothing_up(stub, looks):
    server = Server(stub)
    server.parties_may_answer.clear()
    assert texts(looks.take(waits=False))[0] == "the other parties are being asked"
    server.parties_may_answer.set()
    eventually(lambda: "party 10001: does not answer: connection refused" in texts(looks.take(waits=False)))


@pytest.mark.parametrize(("running", "queued", "shown"), [
    (50, 50, ("50 jobs run, 3 of them shown", "50 jobs wait, 3 of them shown")),
    (50, 1, ("50 jobs run, 5 of them shown", "1 job waits")),
    (1, 50, ("1 job runs", "50 jobs wait, 5 of them shown")),
    (0, 0, ("no job runs", "no job waits")),
])
def test_what_does_not_fit_is_counted(stub, looks, running, queued, shown):
    Server(stub, running, queued)
    lines = texts(looks.take(waits=True), 200, 19)
    assert len(lines) <= 19
    assert tuple(line for line in lines if line.startswith(("no ", "1 job runs", "50 ", "1 job waits"))) == shown


def test_a_refusal_ends_it(flow, stub):
    stub.answers(Reply(body={"retcode": 109, "retmsg": "the key of eve may not read jobs"}))
    result = flow("top")
    assert result.exit_code == 1
    assert "the key of eve may not read jobs" in result.stdout + result.stderr
    assert json.loads(result.stdout)["retcode"] == 109
