"""A job that bounds how many workers of all its tasks may fail: parties count, its initiator adds up and ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.core.planning.plan import plan_job
from fate_flow.core.wire.v1.reports import read_report, report_of
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.participant.participant import Participant
from fate_flow.services.scheduling.events import WorkerChanged
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import MINUTE_RULES, Process, chosen, job_of, submit
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import command, create
from tests.kit.services.replicas import START, a_server, see
from tests.kit.services.sights import FAILED, RUNS
from tests.kit.values import GUEST, HOST, JOB_ID, a_job, a_seat, a_spec, a_task, a_view

PARTIES = {"guest": ["9999"], "host": ["10000"]}
REPLACED = {"replicas": 2, "max_failed_workers": 5}


def a_host(most: int | None) -> HandServer:
    """A host where the two workers of task a run; the party replaces those that fail."""
    document = job(PARTIES, {"a": []}, cores=2, commands={"a": REPLACED}, max_failed_workers=most)
    host, described = a_server(), {"turn": 1}
    for one in (
        create(document=document), command(K.STATUS, argument="waiting"), command(K.CHECK, **described),
        command(K.APPLY, **described), command(K.START), START,
    ):  # fmt: skip
        assert host.handle(one).is_ok
    see(host, RUNS, RUNS)
    return host


def reported(host: HandServer) -> list[object]:
    return [one.body.get("failed_workers") for one in host.outbox() if one.kind is K.REPORT]


def test_a_party_says_at_once_how_many_have_failed_that_it_replaced() -> None:
    host = a_host(most=3)
    assert set(reported(host)) == {None}
    host.steady = 60_000
    see(host, FAILED)
    assert reported(host)[-1] == 1
    see(host, FAILED)
    assert reported(host)[-1] == 2
    assert host.task().party_status is TaskStatus.RUNNING


def test_it_says_nothing_where_the_job_does_not_ask() -> None:
    host = a_host(most=None)
    before = reported(host)
    see(host, FAILED)
    assert reported(host) == before


def of_two(most: int, retries: int = 0) -> Process:
    """A running job at its initiator, whose only task runs at both parties."""
    one = chosen(HandServer("9999", rules=MINUTE_RULES))
    submit(one, document=job(PARTIES, max_failed_workers=most, retries=retries))
    one.scheduler.poll()
    for kind in (K.CHECK, K.APPLY, K.START):
        one.answer(kind)
    assert job_of(one).status is JobStatus.RUNNING
    return one


def record_heartbeat(one: Process, failed: object, status: str = "running", **more: Any) -> None:
    """The host reports that so many of its workers have failed."""
    with one.server.store.reading() as tx:
        row = tx.task(TaskKey(JOB_ID, "work_0", 0, HOST))
    assert row is not None
    report = read_report({**report_of(row), "party_status": status, "failed_workers": failed, **more})
    assert report is not None
    with one.server.unit() as unit:
        Coordinator(Participant()).take_report(unit, report)
    one.scheduler.poll()


@pytest.mark.parametrize(("failed", "status"), [(2, JobStatus.RUNNING), (3, JobStatus.STOPPING)])
def test_the_job_ends_when_more_have_failed_than_may(failed: int, status: JobStatus) -> None:
    one = of_two(most=2)
    record_heartbeat(one, failed)
    found = job_of(one)
    assert found.status is status
    if status is JobStatus.STOPPING:
        text = "3 workers of its tasks failed, max_failed_workers of the job is 2"
        assert (found.reason, found.message) == (Reason.TASK_FAILED, text)


def test_those_of_all_parties_are_added_up_and_a_report_that_comes_late_changes_nothing() -> None:
    one = of_two(most=2, retries=5)
    record_heartbeat(one, 2)
    record_heartbeat(one, 1)
    assert job_of(one).status is JobStatus.RUNNING
    worker = worker_of(one.server, "work_0", GUEST)
    for observation in (RUNS, FAILED):
        one.server.engine.sights[worker] = observation
        one.scheduler.step([WorkerChanged(worker)])
    assert job_of(one).message == "3 workers of its tasks failed, max_failed_workers of the job is 2"


def test_a_share_that_failed_at_a_party_that_does_not_count_is_one() -> None:
    one = of_two(most=0, retries=5)
    record_heartbeat(one, None)
    assert job_of(one).status is JobStatus.RUNNING
    record_heartbeat(one, None, "failed", reason="worker_error", end_time=5)
    assert job_of(one).message == "1 worker of its tasks failed, max_failed_workers of the job is 0"


def test_an_interruption_is_nobodys_fault() -> None:
    one = of_two(most=0, retries=5)
    record_heartbeat(one, None, "failed", reason="worker_killed", end_time=5)
    assert job_of(one).status is JobStatus.RUNNING


@pytest.mark.parametrize("value", [None, True, -1, 1.5, "3", 10**9, [1]])
def test_what_is_no_count_is_none(value: object) -> None:
    report = read_report({**report_of(a_task("a", HOST)), "failed_workers": value})
    assert report is not None
    assert report.failed_workers == 0


def test_the_plan_stops_the_job_before_any_rule_or_retry() -> None:
    spec = replace(a_spec(auto_retries=5), max_failed_workers=1)
    seats = (a_seat(GUEST, SeatStatus.STARTED), a_seat(HOST, SeatStatus.STARTED))
    for failed, stops in ((1, False), (2, True)):
        plan = plan_job(a_view(a_job(), spec=spec, seats=seats, failed_workers=failed))
        moves = [one for one in plan if isinstance(one, MoveJob)]
        assert [one.new for one in moves] == ([JobStatus.STOPPING] if stops else [])
