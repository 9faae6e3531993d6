"""What a participant decides when a job ends, or when a run of it is over: for the row of the job and for its tasks.

`services/participant/ends.py` carries it out.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from fate_flow.core.model.job import Job, Task
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TASK_BROKEN, JobStatus, TaskStatus, may_move
from fate_flow.core.planning.actions import MoveTask
from fate_flow.core.planning.rerun import KEPT
from fate_flow.core.wire.v1.endings import fitting
from fate_flow.core.wire.v1.job_bodies import LastRun

# ---------------------------------------------------------------------- the row of the job


class EndStep(Enum):
    """What an end means for the row of a job at this party."""

    FINALISE = "finalise"        # nothing runs here any more: write the final status
    DRAIN = "drain"              # the workers end first
    GO_ON = "go on"              # it drains already


def plan_end(job: Job, *, is_busy: bool, has_workers: bool) -> EndStep:
    """Decide how the row ends after the tasks here were told to stop.

    `is_busy`: a share of the job is still in process. `has_workers`: a worker of this seat still lives; for a plain v1
    initiator it counts also if it is of an older version, because the next run's versions may exist already."""
    is_draining = job.status is JobStatus.STOPPING
    if not (has_workers if job.is_plain_v1 and is_draining else is_busy):
        return EndStep.FINALISE
    return EndStep.GO_ON if is_draining else EndStep.DRAIN


def ends_as(job: Job) -> JobStatus | None:
    """Return the status in which the row has ended or will end; None if it goes on.

    It may differ from the initiator's, if the row ended because the initiator was silent for too long."""
    return job.status if job.is_final else job.target


def end_of_last_run(job: Job, last: LastRun) -> LastRun:
    """Return how a row ends its last run, of whose end this party has not heard: as the initiator says, if it can."""
    if may_move(job.status, last.status):
        return last
    canceled = JobStatus.CANCELED
    return LastRun(canceled, replace(last.end, reason=fitting(last.end.reason, canceled)))


# ---------------------------------------------------------------------- its tasks


def is_stopped_with_job(job: Job, task: Task) -> bool:
    """Return whether the end of the job stops this share: it is of this seat, and neither over nor left waiting."""
    is_of_seat = task.key.party == job.party and task.runs_here
    return is_of_seat and not task.is_over_here and not stays_waiting(job, task)


def reason_for_shares(reason: Reason) -> Reason:
    """Return the reason for shares that the end of their job cuts off, also in rows kept for other parties."""
    return reason if reason in (Reason.STOPPED_BY_USER, Reason.INITIATOR_LOST) else Reason.STOPPED


def task_end_with_job(job: Job, task: Task, end: JobStatus) -> MoveTask | None:
    """Return the federated end of a task whose end the initiator has not sent, because its job ended as `end`.

    None: the task is of another seat, has ended, or stays waiting for a rerun."""
    is_left = task.status is TaskStatus.WAITING and stays_waiting(job, task)
    if task.key.party != job.party or task.is_final or is_left:
        return None
    key, own = task.key, task.party_status
    keeps_own = end is JobStatus.SUCCESS or own in TASK_BROKEN
    if keeps_own and own is not TaskStatus.CANCELED and may_move(task.status, own):
        is_bad = own in TASK_BROKEN
        return MoveTask(
            key.name, key.version, task.status, own, task.reason, task.message,
            caused_by=task.caused_by if is_bad else str(job.initiator),      # who says that it went well everywhere
            exit_code=task.exit_code if is_bad else None,
        )  # fmt: skip
    return cut_off(task, job.reason, job.message, job.caused_by or str(job.initiator))


def cut_off(task: Task, reason: Reason | None, message: str, caused_by: str) -> MoveTask:
    """Return the end of a task that its job cut off; `reason`, `message` and `caused_by` are those of the job."""
    known = Reason.STOPPED_BY_USER if reason is Reason.STOPPED_BY_USER else Reason.STOPPED
    key = task.key
    return MoveTask(key.name, key.version, task.status, TaskStatus.CANCELED, known, message, caused_by=caused_by)


def has_kept(row: Task | None) -> bool:
    """Return whether this party has kept its share of a task that the initiator keeps; None: there is no row.

    The party dropped the outputs if it ended the job by itself before it heard that the task had succeeded."""
    return row is not None and row.party_status in KEPT and (row.status in KEPT or not row.is_final)


# ---------------------------------------------------------------------- for an initiator that speaks plain v1


def stays_waiting(job: Job, task: Task) -> bool:
    """Return whether the end of the job leaves this share waiting: it never began, and a rerun starts this version."""
    return job.is_plain_v1 and task.party_status is TaskStatus.WAITING and not task.worker_id


def refuses_status(job: Job, task: Task, new: TaskStatus) -> bool:
    """Return whether to refuse a bad federated status, because the share stays waiting."""
    return new in TASK_BROKEN and task.status is TaskStatus.WAITING and stays_waiting(job, task)
