"""Builds the view of a job from the database, for its plan."""

from __future__ import annotations

from fate_flow.core.model.job import Job, Task
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.party_return import LOSSES
from fate_flow.core.planning.view import JobView
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.ends import has_workers


def view_of(
    unit: UnitOfWork, job: Job, spec: JobSpec, tasks: tuple[Task, ...], may_begin_round: bool = False
) -> JobView:
    """Return the view of a job. `tasks` may be empty while the job waits in the queue: plans do not need them then."""
    rules = unit.context.rules
    return JobView(
        job=job,
        spec=spec,
        seats=unit.tx.seats(job.job_id),
        tasks=tasks,
        now=unit.steady,
        fresh_id=unit.context.fresh_id(),
        failed_workers=unit.tx.failed_workers(job.job_id) if spec.max_failed_workers is not None else 0,
        may_begin_round=may_begin_round,
        drain_milliseconds=rules.drain,
        retry_milliseconds=rules.retry_wait,
        long_backoff_milliseconds=rules.long_backoff,
        has_workers=_still_works(unit, job),
    )


def _still_works(unit: UnitOfWork, job: Job) -> bool:
    is_ending = job.status is JobStatus.STOPPING and job.reason in LOSSES
    return is_ending and any(has_workers(unit, row) for row in unit.tx.jobs_here(job.job_id))
