"""Whether a participant starts a job, and whether it makes a running job wait again."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.errors import NOT_EFFECTIVE, NOT_READY
from fate_flow.core.model.job import Answer, Claim, Job
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.participant.start_and_requeue import why_not_requeued, why_not_started
from tests.kit.values import HOST, JOB_ID, a_job

HELD = Claim(2, 0, token="x", round_number=3)
KEY = f"job {JOB_ID} on {HOST}"


def held(status: JobStatus = JobStatus.WAITING, **fields: Any) -> Job:
    return a_job(status, HOST, **{"claim": HELD, **fields})


@pytest.mark.parametrize(
    ("job", "round_number", "expected"),
    [
        (held(), 3, None),
        (held(), None, None),
        (held(consent=Consent(Approval.APPROVED)), 3, None),
        (held(JobStatus.RUNNING), 2, Answer()),
        (held(), 2, Answer(103, f"{KEY} was reserved in reservation round 3, not 2")),
        (held(claim=Claim()), None, Answer(103, f"{KEY} is waiting and holds nothing")),
        (held(JobStatus.STOPPING), 3, Answer(103, f"{KEY} is stopping and holds something")),
        (held(JobStatus.READY, claim=Claim()), None, Answer(103, f"{KEY} is ready and holds nothing")),
    ],
)
def test_only_a_waiting_job_that_holds_a_reservation_of_the_round_starts(
    job: Job, round_number: int | None, expected: Answer | None
) -> None:
    assert why_not_started(job, round_number) == expected


def test_a_job_whose_parameters_have_changed_since_it_was_reserved_for_does_not_start() -> None:
    text = "it has parameters of revision 1, and not yet those of 2"
    assert why_not_started(held(revision=1), 3, 2) == Answer(NOT_READY, text)
    assert why_not_started(held(revision=2), 3, 2) is None


@pytest.mark.parametrize(("approval", "retcode"), [(Approval.PENDING, NOT_READY), (Approval.REJECTED, 103)])
def test_a_job_that_is_not_approved_does_not_start(approval: Approval, retcode: int) -> None:
    found = why_not_started(held(consent=Consent(approval, "Ann", "no")), 3)
    assert found is not None
    assert found.retcode == retcode


@pytest.mark.parametrize(
    ("job", "has_workers", "expected"),
    [
        (held(JobStatus.RUNNING), False, None),
        (held(JobStatus.RUNNING), True, Answer(NOT_EFFECTIVE, f"{KEY} still has workers", {"still_ends": True})),
        (held(JobStatus.RUNNING, claim=Claim(2, 0, "x", round_number=4)), True, Answer()),
        (held(), False, Answer()),
        (held(JobStatus.STOPPING), False, Answer(103, f"{KEY} is stopping (no reason)")),
        (held(JobStatus.FAILED, reason=Reason.TASK_FAILED), False, Answer(103, f"{KEY} is failed (task_failed)")),
    ],
)
def test_only_a_job_that_runs_in_the_round_waits_again(job: Job, has_workers: bool, expected: Answer | None) -> None:
    assert why_not_requeued(job, 3, has_workers=has_workers) == expected
