"""Rules of a job at its initiator: what acts later survives a restart, and is dropped when it has been overtaken."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import CommandKind, TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.wire.v1.reports import read_report, report_of
from fate_flow.services.scheduling.events import HeartbeatAnswered, PartySilent, WorkerChanged
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import MINUTE_RULES, Process, after, chosen, job_of, restarted, submit
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.sights import FAILED, RUNS
from tests.kit.values import GUEST, HOST, JOB_ID, a_task

K = CommandKind


def alone(*policies: dict[str, Any]) -> Process:
    """A job of the guest alone whose only task has just been started, with these rules."""
    one = chosen(HandServer("9999", cores=4, rules=MINUTE_RULES))
    submit(one, document=job({"guest": ["9999"]}, policies=policies), accept=False)
    one.scheduler.poll()
    see(one, RUNS)
    return one


def see(one: Process, observation: Any, version: int = 0) -> None:
    worker = worker_of(one.server, "work_0", GUEST, version)
    one.server.engine.sights[worker] = observation
    one.scheduler.step([WorkerChanged(worker)])


def versions(one: Process) -> int:
    with one.server.store.reading() as tx:
        return max(task.key.version for task in tx.tasks(JOB_ID))


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_delay_survives_the_restart_of_its_initiator(is_restarted: bool) -> None:
    one = alone({"event": "worker_failed", "action": "cancel_job", "timeout": 30})
    see(one, FAILED)
    assert list(job_of(one).timers) == ["worker_failed work_0 0 guest 9999"]
    after(one, 10)
    one = restarted(one) if is_restarted else one
    after(one, 19.9)
    assert job_of(one).status is JobStatus.RUNNING
    after(one, 0.2)
    found = job_of(one)
    assert (found.status, found.reason) == (JobStatus.CANCELED, Reason.STOPPED_BY_POLICY)
    assert found.message.startswith("cancel_job after worker_failed of work_0 on guest 9999: ")


def test_a_task_is_restarted_at_once_and_the_version_moves_on() -> None:
    one = alone({"event": "any", "action": "restart_task"})
    see(one, FAILED)
    assert versions(one) == 1
    see(one, FAILED, 1)
    assert (versions(one), job_of(one).status) == (2, JobStatus.RUNNING)
    see(one, FAILED, 2)
    assert (versions(one), job_of(one).status) == (2, JobStatus.FAILED)
    assert "(restart_task: attempt 3 of 3 was the last)" in job_of(one).message


def test_a_job_is_restarted_with_what_it_holds() -> None:
    one = alone({"event": "task_failed", "action": "restart_job"})
    claim = job_of(one).claim
    see(one, FAILED)
    found = job_of(one)
    assert (versions(one), found.restarts, found.is_restarting, found.claim) == (1, 1, False, claim)
    assert (found.status, found.run) == (JobStatus.RUNNING, 0)


def test_the_history_has_the_restart_of_a_job_and_of_each_task_with_the_party_at_fault() -> None:
    one = alone({"event": "task_failed", "action": "restart_job"})
    see(one, FAILED)
    with one.server.store.reading() as tx:
        found = tx.history(JOB_ID)
    [restart] = [each for each in found if each.level is HistoryLevel.JOB and each.old == each.new == "running"]
    assert restart.message.startswith("restart_job after task_failed of work_0: guest 9999: ")
    assert restart.caused_by == "guest 9999"
    begun = [each for each in found if each.level is HistoryLevel.TASK and not each.old]
    assert [(each.version, each.message) for each in begun] == [(0, ""), (1, "all tasks of the job begin again")]
    assert {each.caused_by for each in begun} == {"guest 9999"}


def test_the_exit_code_of_a_worker_stands_in_its_row_and_in_its_report() -> None:
    one = alone({"exit_code": FAILED.exit_code, "action": "fail_job"})
    see(one, FAILED)
    assert job_of(one).reason is Reason.FAILED_BY_POLICY
    row = one.server.task("work_0", GUEST)
    assert (row.exit_code, row.party_status) == (FAILED.exit_code, TaskStatus.FAILED)
    report = read_report(report_of(row))
    assert report is not None
    assert report.exit_code == FAILED.exit_code


@pytest.mark.parametrize("code", [None, -1, 256, True, "1", 1.5])
def test_an_exit_code_of_another_party_that_is_none_is_left_out(code: object) -> None:
    body = {**report_of(a_task("a", HOST, TaskStatus.FAILED, reason=Reason.WORKER_ERROR)), "exit_code": code}
    report = read_report(body)
    assert report is not None
    assert report.exit_code is None


# ---------------------------------------------------------------------- a party that does not answer


def of_two(*policies: dict[str, Any]) -> Process:
    one = chosen(HandServer("9999", rules=MINUTE_RULES))
    submit(one, document=job({"guest": ["9999"], "host": ["10000"]}, policies=policies))
    one.scheduler.poll()
    for kind in (K.CHECK, K.APPLY, K.START):
        one.answer(kind)
    assert job_of(one).status is JobStatus.RUNNING
    return one


LATER = {"event": "party_unreachable", "action": "cancel_job", "timeout": 60}


def silence_of(one: Process) -> tuple[bool, str]:
    with one.server.store.reading() as tx:
        seat = next(seat for seat in tx.seats(JOB_ID) if seat.party == HOST)
    assert seat.status is not SeatStatus.LEFT
    return bool(seat.silent_since), seat.message


def test_a_silent_party_is_waited_for_as_long_as_the_rule_says() -> None:
    one = of_two(LATER)
    for seconds in (90.0, 95.0):
        one.scheduler.step([PartySilent("10000", seconds)])
    assert silence_of(one) == (True, "party 10000 has not answered for 90 s")
    after(one, 59)
    assert job_of(one).status is JobStatus.RUNNING
    after(one, 2)
    assert (job_of(one).status, job_of(one).reason) == (JobStatus.STOPPING, Reason.STOPPED_BY_POLICY)


def test_a_party_that_answers_again_in_time_costs_nothing() -> None:
    one = of_two(LATER)
    assert not one.scheduler.is_unsure_of("10000")
    one.scheduler.step([PartySilent("10000", 90.0)])
    one.scheduler.beat()
    assert one.scheduler.is_unsure_of("10000"), "its next answer is new"
    one.scheduler.step([HeartbeatAnswered("10000", {})])
    assert (silence_of(one), job_of(one).timers) == ((False, ""), {})
    after(one, 61)
    assert job_of(one).reason is None


def test_a_silent_party_without_a_rule_for_it_ends_the_job() -> None:
    one = of_two({"event": "task_failed", "action": "cancel_job"})
    one.scheduler.step([PartySilent("10000", 90.0)])
    found = job_of(one)
    assert (found.reason, found.message) == (Reason.PARTY_UNREACHABLE, "party 10000 has not answered for 90 s")
    assert found.caused_by == "host 10000"


def test_a_rule_of_the_other_party_cannot_be_smuggled_in_by_a_report() -> None:
    """A report names how a share ended; what is done about it stands in the document alone."""
    one = of_two({"exit_code": 7, "action": "complete_job"})
    key = TaskKey(JOB_ID, "work_0", 0, HOST)
    with one.server.store.reading() as tx:
        row = tx.task(key)
    assert row is not None
    body = {**report_of(row), "party_status": "failed", "reason": "completed_by_policy", "exit_code": 6, "end_time": 5}
    report = read_report(body)
    assert report is not None
    assert (report.reason, report.status) == (Reason.WORKER_ERROR, TaskStatus.FAILED)
