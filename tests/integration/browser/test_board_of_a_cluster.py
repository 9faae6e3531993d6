"""The boards of real servers of three parties in a real browser: jobs that run, wait, fail at a partner, begin again,
do without a party and need an approval; and what people do to them, at the party where they sit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.access.client_roles import APPROVE, AUDIT, OPERATE, SUBMIT
from fate_flow.settings.people import Client, add_client
from tests.kit.servers.party_servers import (
    BASE_PORT,
    CORES,
    EVERYBODY,
    GUEST,
    HOST,
    OTHER,
    READER,
    Cluster,
    PartyServer,
    csv_text,
    job_of,
    running_cluster,
    table_named,
    taking_from,
)
from tests.kit.servers.programs import PYTHON, command, process_of, python
from tests.kit.waiting import eventually
from tests.kit.web.chromium import Chromium, chromium

pytestmark = [pytest.mark.timeout(600), pytest.mark.heavy]

TWO = {"guest": [GUEST], "host": [HOST]}
SHOTS = os.environ.get("FATE_FLOW_TEST_SCREENSHOTS")
"""A folder that gets a picture of each view, for people to look at."""

# Programs of workers: those that sleep stay until somebody ends them.
STAYS = "import time; print('step 1', flush=True); time.sleep(600)"
FAILS_AT_THE_HOST = """
import os, sys, time
if os.environ["FATE_FLOW_ROLE"] == "host":
    sys.exit("no such column: income")
time.sleep(600)
"""
STAYS_AT_FIRST = """
import os, time
while os.environ["FATE_FLOW_TASK_VERSION"] == "0":
    time.sleep(60)
"""
SOON = {"backoff": {"first": 0.05, "factor": 1, "longest": 0.05, "jitter": 0}}


@dataclass
class Boards:
    """Three parties, and a browser in which somebody with all client roles is signed in at one of them."""

    cluster: Cluster
    window: Chromium
    keys: dict[str, Client]
    at: str = ""
    problems: list[str] = field(default_factory=list)

    def open(self, party: PartyServer, path: str, text: str, shot: str = "") -> None:
        """Look at a page until it says this; an error in its console, or a barrier for people, is a problem."""
        if party.party_id != self.at:
            self._sign_in(party)
        self.window.go(f"{party.url}/board/{path}")
        self.window.wait_for_text(text)
        self.look(f"{party.party_id} {path}", shot)

    def look(self, page: str, shot: str = "") -> None:
        self.problems += [f"{page}: {one}" for one in (*self.window.console(), *self.window.barriers())]
        if SHOTS and shot:
            self.window.screenshot(Path(SHOTS) / f"{shot}.png")

    def press(self, action: str, *, reason: str = "", asks: bool = False) -> None:
        """Press the button of an action on the page of a job; `asks`: the page asks whether it is meant."""
        if reason:
            self.window.type(f"form[action$={action}] input[name=reason]", reason)
        self.window.click(f"form[action$={action}] button")
        if asks:
            self.window.accept_question()

    def _sign_in(self, party: PartyServer) -> None:
        self.window.forget_who_signed_in()
        self.window.go(f"{party.url}/board/")
        key = self.keys[party.party_id]
        self.window.type("#app_key", key.app_key)
        self.window.type("#secret", key.secret_key)
        self.window.click("#sign-in button")
        self.window.wait_for_text("Overview")
        self.at = party.party_id


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boards]:
    folder = tmp_path_factory.mktemp("boards")
    overlay: dict[str, Any] = {"commands": {"enabled": True, "allow": [PYTHON]}, "record": {"switch": True}}
    overlays = dict.fromkeys((GUEST, HOST, OTHER), overlay)
    overlays[OTHER] = {**overlay, "approval": {"required": True}}
    overlays[HOST] = {**overlay, "commands": {**overlay["commands"], "share_logs": True}}
    root = folder / "servers"
    with (
        running_cluster(root, (GUEST, HOST, OTHER), base_port=BASE_PORT + 130, overlays=overlays) as found,
        chromium(folder) as window,
    ):
        window.resize(1280, 1000)
        roles = SUBMIT | OPERATE | APPROVE | AUDIT
        keys = {party_id: add_client(one.home, "anna", roles, 1) for party_id, one in found.parties.items()}
        yield Boards(found, window, keys)


@pytest.fixture
def board(boards: Boards) -> Iterator[Boards]:
    boards.problems.clear()
    yield boards
    assert boards.problems == []
    boards.cluster.check_idle()


def test_a_job_that_runs_and_one_that_waits_for_it_are_held_released_and_stopped_by_buttons(board: Boards) -> None:
    cluster, guest = board.cluster, board.cluster.guest
    running = cluster.submit(command(TWO, command=python(STAYS), job={"task_cores": CORES}))
    cluster.wait(running, "running")
    eventually(lambda: process_of(guest, running, 0), "its worker")
    host_runs = lambda: [row["f_party_status"] for row in cluster.host.tasks(running)] == ["running"]  # noqa: E731
    eventually(host_runs, "the worker of the host")
    waiting = cluster.submit(command(TWO, command=python(STAYS)))

    board.open(guest, "", running, "overview")
    board.window.wait_for_text(waiting)
    board.open(guest, f"jobs/{running}", "running", "running")
    board.open(cluster.host, f"jobs/{running}", "Only the initiator knows", "running_at_the_host")
    assert "guest 9999: not known here host 10000: running" in " ".join(board.window.text("#task-train").split())
    board.open(guest, f"jobs/{running}/tasks/train/log", "step 1", "log")
    board.open(guest, f"jobs/{waiting}", "free", "waiting")
    board.open(guest, "queue", "free cores", "queue")
    board.open(guest, "jobs?component=train&party=10000", waiting, "jobs_of_a_partner")

    board.open(guest, f"jobs/{waiting}", "Hold it")
    board.window.run("document.querySelector('form[action$=priority] input[name=priority]').value = ''")
    board.window.type("form[action$=priority] input[name=priority]", "5")
    board.press("priority")
    board.window.wait_for_text("The priority is 5 now")
    board.press("hold", reason="until Monday")
    board.window.wait_for_text("anna holds the job")
    board.look("held", "held")
    board.press("release")
    board.window.wait_for_text("The job is released")
    for job_id in (running, waiting):
        board.open(guest, f"jobs/{job_id}", "Stop the job")
        board.press("stop", asks=True)
        board.window.wait_for_text("canceled")
    cluster.wait(waiting, "canceled")
    board.open(guest, f"jobs/{running}/history", "canceled", "history")
    board.open(guest, f"jobs/{running}/record", "stop", "record")


def test_a_job_that_failed_at_a_partner_names_it_first_and_is_run_again_by_a_button(board: Boards) -> None:
    cluster, guest = board.cluster, board.cluster.guest
    job_id = cluster.submit(command(TWO, command=python(FAILS_AT_THE_HOST)))
    cluster.wait(job_id, "failed")
    board.open(guest, f"jobs/{job_id}", "Rerun", "failed")
    assert "host 10000" in board.window.text("#why")
    board.open(guest, f"jobs/{job_id}/tasks/train", "host 10000", "failed_task")
    board.open(guest, "", job_id)
    assert "host 10000" in board.window.text("#part-failed")
    board.open(guest, f"jobs/{job_id}", "Rerun")
    board.press("rerun")
    eventually(lambda: len(guest.tasks(job_id)) == 2, "the second attempt")
    cluster.wait(job_id, "failed")
    board.open(cluster.host, f"jobs/{job_id}/history", "host 10000, run 1")
    board.open(guest, f"jobs/{job_id}/history", "The job has 2 runs", "failed_twice")
    names = "[...document.querySelectorAll('#timeline-table th[scope=row]')].map((one) => one.textContent)"
    tracks = list(dict.fromkeys(board.window.run(f"return {names}")))
    assert tracks[:4] == [f"{party}, run {run}" for run in (0, 1) for party in ("guest 9999", "host 10000")]
    assert sorted(tracks[4:]) == ["train at guest 9999", "train at host 10000"]
    board.open(guest, f"jobs/{job_id}/tasks/train", "Rerun from here")
    board.press("rerun", asks=True)
    eventually(lambda: len(guest.tasks(job_id)) == 3, "the third attempt")
    cluster.wait(job_id, "failed")


def test_a_gang_that_began_again_shows_both_attempts(board: Boards) -> None:
    cluster, guest = board.cluster, board.cluster.guest
    retry = {"on_events": ["interruption"], "max_interruptions": 3, **SOON}
    job_id = cluster.submit(command(TWO, command=python(STAYS_AT_FIRST), job={"retry": retry}))
    started = eventually(lambda: process_of(cluster.host, job_id, 0), "the host's worker")
    started.worker.send(signal.SIGKILL)
    cluster.wait(job_id, "success")
    board.open(guest, f"jobs/{job_id}", "success", "began_again")
    assert board.window.run("return document.querySelectorAll('#task-train td')[2].textContent") == "2"
    board.open(guest, f"jobs/{job_id}/tasks/train", "signal 9 (SIGKILL", "attempts")
    board.open(guest, f"jobs/{job_id}/tasks/train?party=host-10000&version=0", "Ask it for its workers")
    board.window.click("#only-status a")
    board.window.wait_for_text("1 worker with the newest process of each, as host 10000 has just said")
    assert "signal 9 (SIGKILL" in board.window.text("#listed-0")
    board.look("workers of a partner", "partner_workers")
    board.open(guest, f"jobs/{job_id}/tasks/train/usage", "Reserved and used", "usage")
    cells = "[...document.querySelectorAll('#head-workers ~ .wide tbody td')].map((one) => one.textContent)"
    _process, _seconds, processor_seconds, *_ = board.window.run(f"return {cells}")     # it lasts 0.0 s at times
    assert float(processor_seconds) > 0, "a worker of less than a second has what the kernel has counted"
    board.open(cluster.host, f"jobs/{job_id}/tasks/train", "Only guest 9999, the initiator of the job, knows")
    board.open(cluster.host, f"jobs/{job_id}/history", "SIGKILL")


def test_a_job_is_approved_at_one_party_and_does_without_it_when_it_fails_there(board: Boards) -> None:
    cluster, guest, other = board.cluster, board.cluster.guest, board.cluster.parties[OTHER]
    program = python("import os, sys; sys.exit(os.environ['FATE_FLOW_PARTY_ID'] == '10001')")
    document = command(EVERYBODY, command=program, job={"min_available": {"host": 1}})
    job_id = cluster.submit(document)
    board.open(guest, f"jobs/{job_id}", "has not approved it yet", "waits_for_approval")
    assert "host 10001" in board.window.text("#who-acts")
    board.open(other, "approvals", job_id, "approvals")
    board.open(other, f"jobs/{job_id}", "Approve this document", "approval")
    board.press("approve", reason="contract 7")
    cluster.wait(job_id, "success")
    board.open(guest, f"jobs/{job_id}", "It succeeded without host 10001", "partial")
    assert "approved by anna: contract 7" in board.window.text("#party-host-10001")
    assert "cause" not in board.window.text("#task-train")


def test_a_job_that_is_rejected_says_by_whom_and_why(board: Boards) -> None:
    cluster, guest, other = board.cluster, board.cluster.guest, board.cluster.parties[OTHER]
    job_id = cluster.submit(command(EVERYBODY, command=python("pass")))
    eventually(lambda: other.rows("SELECT 1 FROM t_job WHERE f_job_id = ? AND f_approval = 'pending'", job_id))
    board.open(other, f"jobs/{job_id}", "Reject the job")
    board.press("reject", reason="no contract for this data")
    cluster.wait(job_id, "failed")
    board.open(guest, f"jobs/{job_id}", "rejected by anna: no contract for this data", "rejected")
    board.open(guest, "audit", "Verify all logs", "audit")
    board.press("verify")
    board.window.wait_for_text("nobody else vouches for it")
    board.look("verified", "verified")


def test_tables_are_followed_to_where_they_went_and_metrics_are_shown(board: Boards) -> None:
    cluster, guest = board.cluster, board.cluster.guest
    for party, ids in ((guest, range(60)), (cluster.host, range(20, 90))):
        party.has_table("people", csv_text(["id", "x"], {f"p{number:02}": [number] for number in ids}))
    tasks = {
        "reader_0": READER,
        "common_0": {"module": "Intersection", "input": taking_from("reader_0.raw"), "output": {"data": ["common"]}},
    }
    job_id = cluster.run(job_of(tasks, TWO, common={"reader_0": table_named("people")}))
    board.open(guest, f"jobs/{job_id}", "common_0", "tables_job")
    board.open(guest, f"jobs/{job_id}/tasks/common_0", "output table", "tables_task")
    board.open(guest, f"jobs/{job_id}/tasks/common_0/metrics", "intersect_count", "metrics")
    board.open(guest, "data?origin=upload", "people", "data")
    board.open(guest, "data/table?namespace=it&name=people", "has handed it on as raw", "table")
    board.open(guest, "data?origin=output", job_id, "data_of_tasks")


def test_a_comparison_with_a_party_whose_keys_are_not_known_says_what_to_do(board: Boards, tmp_path: Path) -> None:
    board.cluster.run(command(TWO, command=python("pass")))
    proof = tmp_path / "with-9999.proof"
    board.cluster.host.flow("audit", "prove", "-p", GUEST, "-o", proof)
    board.open(board.cluster.guest, "audit?kind=sent&party=10000", "Compare both logs", "audit_of_a_partner")
    board.window.type("form[action$=reconcile] input[name=party]", HOST)
    board.window.type("form[action$=reconcile] input[name=file]", str(proof))
    board.press("reconcile")
    board.window.wait_for_text("no key list of party 10000 is saved here (fate_flow party join, flow key save)")
    assert [one for one in board.window.console() if "404" not in one] == []
    board.look("not possible", "not_possible")
