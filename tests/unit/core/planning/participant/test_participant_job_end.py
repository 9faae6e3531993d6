"""What a participant decides at the end of a job: for its row, for the shares here, and for the tasks."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.job import Job, Task
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.planning.actions import MoveTask
from fate_flow.core.planning.participant.job_end import (
    EndStep,
    cut_off,
    end_of_last_run,
    ends_as,
    has_kept,
    is_stopped_with_job,
    plan_end,
    reason_for_shares,
    refuses_status,
    stays_waiting,
    task_end_with_job,
)
from fate_flow.core.wire.v1.endings import JobEnd
from fate_flow.core.wire.v1.job_bodies import LastRun
from tests.kit.values import GUEST, HOST, a_job, a_task

W, R, STOPPING = TaskStatus.WAITING, TaskStatus.RUNNING, TaskStatus.STOPPING
S, F, C, PASS = TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.CANCELED, TaskStatus.PASS


def copy(status: JobStatus = JobStatus.RUNNING, **fields: Any) -> Job:
    return a_job(status, HOST, **fields)


def share(party_status: TaskStatus, status: TaskStatus | None = None, **fields: Any) -> Task:
    return a_task("a", HOST, party_status, status, **{"runs_here": True, **fields})


# ---------------------------------------------------------------------- the row of the job


@pytest.mark.parametrize(
    ("status", "is_plain_v1", "is_busy", "has_workers", "step"),
    [
        (JobStatus.RUNNING, False, False, False, EndStep.FINALISE),
        (JobStatus.RUNNING, False, True, False, EndStep.DRAIN),
        (JobStatus.RUNNING, False, False, True, EndStep.FINALISE),
        (JobStatus.STOPPING, False, True, False, EndStep.GO_ON),
        (JobStatus.STOPPING, False, False, True, EndStep.FINALISE),
        (JobStatus.RUNNING, True, False, True, EndStep.FINALISE),
        (JobStatus.RUNNING, True, True, True, EndStep.DRAIN),
        (JobStatus.STOPPING, True, False, True, EndStep.GO_ON),
        (JobStatus.STOPPING, True, True, False, EndStep.FINALISE),
    ],
)
def test_a_row_ends_when_nothing_runs_here_any_more(
    status: JobStatus, is_plain_v1: bool, is_busy: bool, has_workers: bool, step: EndStep
) -> None:
    job = copy(status, is_plain_v1=is_plain_v1)
    assert plan_end(job, is_busy=is_busy, has_workers=has_workers) is step


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (copy(), None),
        (copy(JobStatus.STOPPING, target=JobStatus.CANCELED), JobStatus.CANCELED),
        (copy(JobStatus.FAILED), JobStatus.FAILED),
        (copy(JobStatus.FAILED, target=JobStatus.CANCELED), JobStatus.FAILED),
    ],
)
def test_a_row_ends_as_it_has_ended_or_will(job: Job, expected: JobStatus | None) -> None:
    assert ends_as(job) is expected


def test_the_last_run_ends_as_the_initiator_says() -> None:
    said = LastRun(JobStatus.FAILED, JobEnd(Reason.TASK_FAILED, "b has failed", "host 10001", 3))
    assert end_of_last_run(copy(), said) == said


def test_a_row_that_cannot_end_so_is_canceled() -> None:
    said = LastRun(JobStatus.SUCCESS, JobEnd(Reason.DONE, "all done", "host 10001"))
    expected = LastRun(JobStatus.CANCELED, JobEnd(Reason.STOPPED, "all done", "host 10001"))
    assert end_of_last_run(copy(JobStatus.READY), said) == expected


# ---------------------------------------------------------------------- its tasks


@pytest.mark.parametrize(
    ("task", "is_plain_v1", "expected"),
    [
        (share(R), False, True),
        (share(W), False, True),
        (share(STOPPING), False, True),
        (share(S), False, False),
        (share(R, runs_here=False), False, False),
        (a_task("a", GUEST, R), False, False),
        (share(W), True, False),
        (share(W, worker_id="w"), True, True),
    ],
)
def test_the_end_of_a_job_stops_the_shares_of_its_seat(task: Task, is_plain_v1: bool, expected: bool) -> None:
    assert is_stopped_with_job(copy(is_plain_v1=is_plain_v1), task) is expected


@pytest.mark.parametrize("reason", Reason)
def test_shares_learn_two_reasons_of_their_job_alone(reason: Reason) -> None:
    is_passed_on = reason in (Reason.STOPPED_BY_USER, Reason.INITIATOR_LOST)
    assert reason_for_shares(reason) is (reason if is_passed_on else Reason.STOPPED)


OWN = {"reason": Reason.WORKER_ERROR, "message": "out of range", "caused_by": "host 10000", "exit_code": 3}


@pytest.mark.parametrize(
    ("task", "end", "new"),
    [
        (share(S, R), JobStatus.SUCCESS, S),
        (share(F, R, **OWN), JobStatus.FAILED, F),
        (share(F, R, **OWN), JobStatus.SUCCESS, F),
        (share(S, R), JobStatus.FAILED, C),            # what the others made of it is not known
        (share(C, R), JobStatus.FAILED, C),
        (share(R, R), JobStatus.SUCCESS, C),           # from running to running is no move
        (share(W, W), JobStatus.CANCELED, C),
    ],
)
def test_a_task_whose_end_was_not_sent_ends_with_its_job(task: Task, end: JobStatus, new: TaskStatus) -> None:
    job = copy(end, reason=Reason.TASK_FAILED, message="enough", caused_by="host 10001")
    found = task_end_with_job(job, task, end)
    if new is C:
        assert found == MoveTask("a", 0, task.status, C, Reason.STOPPED, "enough", caused_by="host 10001")
    else:
        cause = str(GUEST) if new is S else task.caused_by
        assert found == MoveTask("a", 0, R, new, task.reason, task.message, caused_by=cause, exit_code=task.exit_code)


@pytest.mark.parametrize(
    ("task", "is_plain_v1"),
    [(a_task("a", GUEST, R), False), (share(S, S), False), (share(F, C), False), (share(W), True)],
)
def test_other_tasks_are_left_as_they_are(task: Task, is_plain_v1: bool) -> None:
    assert task_end_with_job(copy(JobStatus.CANCELED, is_plain_v1=is_plain_v1), task, JobStatus.CANCELED) is None


def test_a_job_without_a_known_cause_was_ended_by_its_initiator() -> None:
    found = task_end_with_job(copy(JobStatus.CANCELED, reason=Reason.STOPPED), share(R), JobStatus.CANCELED)
    assert found is not None
    assert found.caused_by == str(GUEST)


@pytest.mark.parametrize(
    ("reason", "known"),
    [(Reason.STOPPED_BY_USER, Reason.STOPPED_BY_USER), (Reason.INITIATOR_LOST, Reason.STOPPED), (None, Reason.STOPPED)],
)
def test_a_task_that_is_cut_off_is_canceled(reason: Reason | None, known: Reason) -> None:
    move = cut_off(share(S, R, version=2), reason, "enough", "guest 9999")
    assert move == MoveTask("a", 2, R, C, known, "enough", caused_by="guest 9999")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (None, False),
        (share(S, S), True),
        (share(PASS, PASS), True),
        (share(S, R), True),
        (share(S, C), False),
        (share(C, R), False),
        (share(R, R), False),
    ],
)
def test_a_share_was_kept_if_it_succeeded_and_its_task_was_not_given_up(row: Task | None, expected: bool) -> None:
    assert has_kept(row) is expected


# ---------------------------------------------------------------------- for an initiator that speaks plain v1


@pytest.mark.parametrize(
    ("is_plain_v1", "task", "expected"),
    [
        (True, share(W), True),
        (False, share(W), False),
        (True, share(R), False),
        (True, share(W, worker_id="w"), False),
    ],
)
def test_a_share_that_never_began_waits_for_a_rerun_by_plain_v1(is_plain_v1: bool, task: Task, expected: bool) -> None:
    job = copy(is_plain_v1=is_plain_v1)
    assert stays_waiting(job, task) is expected
    assert refuses_status(job, task, C) is expected
    assert not refuses_status(job, task, S)
