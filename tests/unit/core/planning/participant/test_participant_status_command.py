"""What a participant decides when the initiator sends a status of the job, or states how the job stands."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.errors import NOT_EFFECTIVE
from fate_flow.core.model.job import Answer, Job
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JOB_END, JobStatus
from fate_flow.core.planning.participant.status_command import (
    EndAsStated,
    EndCopy,
    FinalStep,
    ForgetCopy,
    WaitStep,
    is_open_copy,
    plan_final_status,
    plan_standing,
    plan_waiting,
)
from fate_flow.core.wire.v1.endings import JobEnd
from fate_flow.core.wire.v1.initiator_bodies import Standing
from tests.kit.values import HOST, JOB_ID, a_job

READY, WAITING, RUNNING, STOPPING = JobStatus.READY, JobStatus.WAITING, JobStatus.RUNNING, JobStatus.STOPPING
SUCCESS, FAILED, CANCELED = JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.CANCELED
KEY = f"job {JOB_ID} on {HOST}"


def copy(status: JobStatus = RUNNING, **fields: Any) -> Job:
    return a_job(status, HOST, **fields)


# ---------------------------------------------------------------------- `status/waiting`


@pytest.mark.parametrize(
    ("status", "is_plain_v1", "round_number", "adds_tasks", "step"),
    [
        (READY, False, None, False, WaitStep.ACCEPTED),
        (READY, False, 3, True, WaitStep.ACCEPTED),
        (READY, True, None, False, WaitStep.ACCEPTED),
        (RUNNING, False, 3, False, WaitStep.REQUEUE),
        (WAITING, False, 3, True, WaitStep.REQUEUE),
        (STOPPING, False, 3, False, WaitStep.REQUEUE),
        (WAITING, False, None, True, WaitStep.ADD_TASKS),
        (WAITING, False, None, False, WaitStep.KNOWN),
        (RUNNING, False, None, True, WaitStep.KNOWN),
        (FAILED, False, None, False, WaitStep.KNOWN),
        (STOPPING, False, None, False, WaitStep.KNOWN),
        (WAITING, True, None, False, WaitStep.KNOWN),
        (RUNNING, True, None, False, WaitStep.KNOWN),
        (STOPPING, True, None, False, WaitStep.NEXT_RUN),
        (FAILED, True, None, False, WaitStep.NEXT_RUN),
        (SUCCESS, True, 3, True, WaitStep.NEXT_RUN),
    ],
)
def test_what_a_row_does_when_the_job_waits(
    status: JobStatus, is_plain_v1: bool, round_number: int | None, adds_tasks: bool, step: WaitStep
) -> None:
    assert plan_waiting(copy(status, is_plain_v1=is_plain_v1), round_number, adds_tasks=adds_tasks) is step


# ---------------------------------------------------------------------- `status/<final status>`


@pytest.mark.parametrize(
    ("status", "new", "is_submit_failed", "expected"),
    [
        (READY, FAILED, True, FinalStep.FORGET),
        (READY, CANCELED, False, FinalStep.END),
        (READY, SUCCESS, False, Answer(NOT_EFFECTIVE, f"{KEY} is ready, which does not end as success")),
        (WAITING, FAILED, True, FinalStep.END),
        (WAITING, SUCCESS, False, FinalStep.END),
        (RUNNING, SUCCESS, False, FinalStep.END),
        (STOPPING, CANCELED, False, FinalStep.END),
        (FAILED, SUCCESS, False, FinalStep.CLOSE),
        (SUCCESS, SUCCESS, True, FinalStep.CLOSE),
    ],
)
def test_what_a_row_does_when_the_job_ends(
    status: JobStatus, new: JobStatus, is_submit_failed: bool, expected: FinalStep | Answer
) -> None:
    assert plan_final_status(copy(status), new, is_submit_failed=is_submit_failed) == expected


# ---------------------------------------------------------------------- the standing of a job

END = JobEnd(Reason.TASK_FAILED, "work_0 failed", "guest 9999")


@pytest.mark.parametrize(
    ("row", "is_open"),
    [
        (copy(READY), True), (copy(WAITING), True), (copy(STOPPING), True), (copy(is_initiator=True), False),
        (copy(is_plain_v1=True), False), *((copy(status), False) for status in sorted(JOB_END, key=str)),
    ],
)  # fmt: skip
def test_only_an_open_copy_has_a_standing(row: Job, is_open: bool) -> None:
    assert is_open_copy(row) is is_open


@pytest.mark.parametrize(
    ("row", "said", "expected"),
    [
        (copy(READY, run=1), Standing(1, FAILED, END), ForgetCopy()),
        (copy(READY, run=1), Standing(1, WAITING), None),
        (copy(READY, run=1), None, None),
        (copy(run=1), Standing(1, FAILED, END), EndAsStated(FAILED, END)),
        (copy(run=1), Standing(1, RUNNING), None),
        (copy(run=1), Standing(1, None), None),
        (copy(run=1), Standing(0, FAILED, END), None),
        (copy(run=1), Standing(2, FAILED, END), EndCopy(Reason.STOPPED, "run 1 is over: guest 9999 is in run 2")),
        (copy(run=1), Standing(2, None), EndCopy(Reason.STOPPED, "run 1 is over: guest 9999 is in run 2")),
        (copy(run=1), None, None),
    ],
)
def test_a_copy_ends_with_the_job(row: Job, said: Standing | None, expected: object) -> None:
    assert plan_standing(row, said, is_lost=False) == expected


@pytest.mark.parametrize("said", [None, Standing(0, RUNNING)])
def test_a_copy_of_a_lost_job_ends(said: Standing | None) -> None:
    lost = EndCopy(Reason.INITIATOR_LOST, "guest 9999 does not know this job any more")
    assert plan_standing(copy(WAITING), said, is_lost=True) == lost
    assert plan_standing(copy(READY), said, is_lost=True) == ForgetCopy()
