"""What an initiator learns of the tasks of its job: starts, reports, reasons, ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest

from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.job import Answer, Report
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import RULES, Author, Reason, may_say, task_status_for
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import Action, MoveSeat
from fate_flow.records.operator_log.events import Event
from fate_flow.services.participant import participant as participant
from tests.kit.job_documents import job
from tests.kit.services.hand_initiator import Initiator, accepted, report, running
from tests.kit.services.hand_server import worker_of
from tests.kit.services.sights import RUNS, STOPPED
from tests.kit.values import GUEST, HOST, JOB_ID, NOW, OTHER, a_seat


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (Answer(), TaskStatus.WAITING, None),
        (Answer(data="nonsense"), TaskStatus.WAITING, None),
        (Answer(10, "another incarnation"), TaskStatus.WAITING, None),
        (Answer(103, "not running"), TaskStatus.FAILED, Reason.LAUNCH_FAILED),
        (Answer(100, "internal error"), TaskStatus.FAILED, Reason.LAUNCH_FAILED),
    ],
)
def test_what_the_answer_to_a_task_start_means(answer: Answer, status: TaskStatus, reason: Reason | None) -> None:
    guest = running()
    guest.answer(K.TASK_START, answer)
    task = guest.task("work_0", HOST)
    assert (task.party_status, task.reason) == (status, reason)
    if reason:
        assert task.message == f"host 10000 did not start it: {answer.retmsg}"


def test_a_report_rides_in_the_answer_to_a_task_start() -> None:
    guest = running()
    task = guest.task("work_0", HOST)
    body = {
        "job_id": JOB_ID, "component_name": "work_0", "task_version": 0, "role": "host", "party_id": "10000",
        "party_status": "running", "incarnation": task.incarnation,
    }  # fmt: skip
    guest.answer(K.TASK_START, Answer(data=body))
    assert guest.task("work_0", HOST).party_status is TaskStatus.RUNNING


def test_a_party_cannot_report_for_another_one_in_its_answer() -> None:
    guest = running()
    task = guest.task("work_0", GUEST)
    body = {
        "job_id": JOB_ID, "component_name": "work_0", "task_version": 0, "role": "guest", "party_id": "9999",
        "party_status": "failed", "incarnation": task.incarnation,
    }  # fmt: skip
    guest.answer(K.TASK_START, Answer(data=body))
    assert guest.task("work_0", GUEST).party_status is TaskStatus.WAITING


@pytest.mark.parametrize(
    ("change", "is_taken"),
    [
        (lambda one: one, True),
        (lambda one: replace(one, incarnation=""), True),                           # a plain v1 peer
        (lambda one: replace(one, incarnation="ee" * 16), False),
        (lambda one: replace(one, task=replace(one.task, version=1)), False),
        (lambda one: replace(one, task=replace(one.task, name="other")), False),
        (lambda one: replace(one, task=replace(one.task, party=OTHER)), False),
        (lambda one: replace(one, task=replace(one.task, party=GUEST)), False),     # decided here, not said
    ],
)
def test_only_a_report_on_this_attempt_counts(change: Callable[[Report], Report], is_taken: bool) -> None:
    guest = running()
    task = guest.task("work_0", HOST)
    said = change(Report(task.key, task.incarnation, TaskStatus.RUNNING, start_time=5))
    with guest.unit() as unit:
        assert guest.side.take_report(unit, said) is is_taken
    assert guest.task("work_0", HOST).party_status is (TaskStatus.RUNNING if is_taken else TaskStatus.WAITING)


INITIATORS = [reason for reason in Reason if not may_say(Author.PARTY, reason)]
OWN_FAULTS = [reason for reason, rule in RULES.items() if rule.retry_event is not None]
IN_ITS_STATUS = {"success": Reason.DONE, "failed": Reason.WORKER_ERROR, "canceled": Reason.STOPPED,
                 "timeout": Reason.TASK_TIMEOUT}


@pytest.mark.parametrize("reason", INITIATORS)
def test_a_reason_of_the_initiator_in_a_report_is_not_taken_and_stands_in_the_log(reason: Reason) -> None:
    guest = running()
    status = task_status_for(reason)
    assert report(guest, status, reason=reason)
    found = guest.task("work_0", HOST)
    assert (found.party_status, found.reason) == (status, IN_ITS_STATUS[status.value])
    text = f"reason {reason.value} is not for a party to say, taken as {IN_ITS_STATUS[status.value].value}"
    assert any(text in str(one["text"]) for one in guest.record.seen(Event.JOB_WARNING))


@pytest.mark.parametrize("reason", INITIATORS)
def test_a_share_that_stops_by_a_reason_of_the_initiator_stops_without_one(reason: Reason) -> None:
    guest = running()
    report(guest, TaskStatus.STOPPING, reason=reason)
    found = guest.task("work_0", HOST)
    assert (found.party_status, found.reason) == (TaskStatus.STOPPING, None)


@pytest.mark.parametrize("named", [str(GUEST), "host 10001", ""])
@pytest.mark.parametrize("reason", [Reason.DONE, *OWN_FAULTS])
def test_what_a_party_has_done_itself_it_has_caused(reason: Reason, named: str) -> None:
    guest = running()
    report(guest, task_status_for(reason), reason=reason, caused_by=named)
    assert guest.task("work_0", HOST).caused_by == str(HOST)


@pytest.mark.parametrize(("named", "cause"), [(str(GUEST), GUEST), ("host 10001", HOST), ("", HOST)])
@pytest.mark.parametrize("reason", [Reason.STOPPED, Reason.STOPPED_BY_USER, Reason.INITIATOR_LOST])
def test_a_share_that_was_stopped_names_a_party_of_the_job_or_itself(reason: Reason, named: str, cause: Party) -> None:
    guest = running()
    report(guest, task_status_for(reason), reason=reason, caused_by=named)
    found = guest.task("work_0", HOST)
    assert (found.reason, found.caused_by) == (reason, str(cause))


def test_a_success_whose_beginning_was_lost_began_all_the_same() -> None:
    guest = running()
    assert report(guest, TaskStatus.SUCCESS)
    task = guest.task("work_0", HOST)
    assert (task.party_status, task.start_time, task.end_time) == (TaskStatus.SUCCESS, 5, 9)
    assert not report(guest, TaskStatus.RUNNING)          # late: it is over


def test_an_end_without_a_time_ends_now() -> None:
    guest = running()
    report(guest, TaskStatus.FAILED, reason=Reason.WORKER_ERROR, end_time=0)
    assert guest.task("work_0", HOST).end_time == NOW


def test_a_failed_task_ends_the_job_and_says_whose_share_it_was() -> None:
    guest = running()
    guest.answer(K.TASK_START)
    guest.engine.sights[worker_of(guest, "work_0", GUEST)] = RUNS
    guest.watch("work_0", GUEST)
    report(guest, TaskStatus.FAILED, reason=Reason.WORKER_ERROR, message="column x is missing")
    guest.engine.sights[worker_of(guest, "work_0", GUEST)] = STOPPED
    guest.watch("work_0", GUEST)
    found = guest.job(GUEST)
    assert (found.status, found.reason, found.caused_by) == (JobStatus.STOPPING, Reason.TASK_FAILED, "host 10000")
    assert found.message == "work_0 failed on host 10000: column x is missing"
    guest.answer(K.STOP)
    assert guest.status is JobStatus.FAILED


def test_many_tasks_that_are_passed_over_are_not_a_plan_that_never_settles() -> None:
    names = [f"t{number:03d}" for number in range(100)]
    graph = {name: names[number - 1 : number] for number, name in enumerate(names)}
    document = job({"guest": ["9999"]}, graph)
    described = {"common": {name: {"need_run": False} for name in names}}
    guest = Initiator()
    guest.submit(replace(document, runtime_conf={**document.runtime_conf, "component_parameters": described}))
    guest.advance(may_begin_round=True)
    rounds = 1
    while guest.status is JobStatus.RUNNING and rounds < 10:
        with guest.unit() as unit:
            guest.side.advance(unit, JOB_ID)
            goes_on = [at for at, _ in unit.pending.alarms] == [0]        # at once
            assert guest.status is not JobStatus.RUNNING or goes_on
        rounds += 1
    assert (guest.status, rounds > 1) == (JobStatus.SUCCESS, True)


def test_a_plan_that_changes_nothing_is_an_error_and_not_an_endless_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = accepted()
    same = (MoveSeat(a_seat(), SeatStatus.CHECKING),)
    monkeypatch.setattr("fate_flow.services.initiator.initiator.plan_job", lambda _: same)
    monkeypatch.setattr("fate_flow.store.memory.store.MemoryTransaction.move_seat", lambda *_: False)
    with pytest.raises(OperationFailed, match=f"the plan of job {JOB_ID} does not settle"):
        guest.advance()


def test_every_action_has_a_handler() -> None:
    side = Initiator().side
    assert {*side._actions.handlers, *side._answers.handlers} == set(get_args(Action))
