"""Whether a participant starts a job that holds a reservation, and whether it makes a running job wait again."""

from __future__ import annotations

from fate_flow.core.model.errors import NOT_EFFECTIVE
from fate_flow.core.model.job import Answer, Job
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.participant.reservation import not_approved, why_not_current
from fate_flow.core.wire.v1.job_answers import still_ends_data


def why_not_started(job: Job, round_number: int | None, revision: int = 0) -> Answer | None:
    """Return the answer to a `start` that starts nothing; None if the job is to be started.

    `round_number`: the reservation round of the command; None: it states none. A late command of an earlier round
    starts nothing. `revision`: that of the initiator's parameters, which may have changed since this party reserved."""
    if job.status is JobStatus.RUNNING:
        return Answer()
    if round_number not in (None, job.claim.round_number):
        return Answer(103, f"{job.key} was reserved in reservation round {job.claim.round_number}, not {round_number}")
    if job.status is not JobStatus.WAITING or not job.holds:
        return Answer(103, f"{job.key} is {job.status.value} and holds {'something' if job.holds else 'nothing'}")
    if job.consent is not None and not job.consent.is_given:
        return not_approved(job, job.consent)      # MySQL only: rejected while it was being reserved for
    return why_not_current(job, revision)


def why_not_requeued(job: Job, round_number: int | None, *, has_workers: bool) -> Answer | None:
    """Return the answer to a `status/waiting` that changes nothing; None if the running job is to wait again.

    `round_number`: the reservation round of the command. A late command changes nothing of a later round."""
    if job.is_final or job.status is JobStatus.STOPPING:
        return Answer(103, f"{job.key} is {job.status.value} ({job.reason.value if job.reason else 'no reason'})")
    if job.status is not JobStatus.RUNNING or job.claim.round_number != round_number:
        return Answer()
    return Answer(NOT_EFFECTIVE, f"{job.key} still has workers", still_ends_data()) if has_workers else None
