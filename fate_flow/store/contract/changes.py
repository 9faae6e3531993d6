"""What a write changes and what a read selects: defined once for the SQL of `sql/` and the values of `memory/`.

A change maps field names of the core's dataclasses to their new values; `store/database/rows.py` makes columns of it.
Every change of a status is built here, and its builder asks the table of moves: it raises IllegalMove for a move that
the table does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import (
    Blocker,
    Claim,
    Job,
    PendingRequest,
    Report,
    Seat,
    Task,
    TaskKey,
    Worker,
    WorkerEnd,
    WorkerPlace,
)
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import (
    JOB_END,
    TASK_BROKEN,
    TASK_END,
    IllegalMove,
    JobStatus,
    SeatStatus,
    TaskStatus,
    WorkerStatus,
    check_move,
    may_move,
)
from fate_flow.core.planning.actions import MoveJob, MoveTask

Change = dict[str, Any]

BUSY_JOBS = (JobStatus.READY, JobStatus.RUNNING, JobStatus.STOPPING)
"""Statuses of jobs that a server works on; also a waiting job that holds something, or is in a reservation round."""

OPEN_JOBS = (JobStatus.READY, JobStatus.WAITING, JobStatus.RUNNING, JobStatus.STOPPING)
"""All statuses that are not final, as a list, because a database uses no index for `not in`."""

LIVE_SEATS = (
    SeatStatus.HELD,
    SeatStatus.STARTING,
    SeatStatus.STARTED,
    SeatStatus.STOPPING,
    SeatStatus.DRAINING,
)
"""Statuses of seats whose party runs or holds something for us."""

SEATED = (SeatStatus.JOINED, SeatStatus.CHECKING, SeatStatus.APPLYING, *LIVE_SEATS)
"""Statuses of seats whose party has accepted a job that is not over."""

REJOINING_SEATS = tuple(status for status in SeatStatus if may_move(status, SeatStatus.JOINING))
"""Statuses of seats whose party can be told that the job waits again."""

UNFINISHED_WORKERS = (WorkerStatus.CREATED, WorkerStatus.RUNNING)

MOST_PASSERS = 10
"""How many of the jobs that passed it a waiting job remembers."""

MOST_PENDING = 32
"""How many refused seats a party considers when it has capacity again."""

SUBMIT_FAILED = "submit_failed"
JOB_END_TAG = "job_end"


# ------------------------------------------------------------------ new rows


def new_job(job: Job) -> Job:
    """Return the job with the fields of a new row: it holds nothing, and has no requests and no history.

    Every field that is not listed here is stored as it is given."""
    return changed(
        job, parties=by_role(job), asked=needed_by(job), queued=job.since, target=None,
        reason=None, message="", caused_by="", exit_code=None, cancel_requested=False, ready_owner="", progress=0,
        claim=Claim(), wait_reason="", blocked_on="", blocked_at="", blocked_by=None, retry_at=0, passes=0, passers=(),
        conflicts=0,
        round_number=0, start_time=0, end_time=0, stop_by=0, is_force_stop=False, unconfirmed=(), missing=(),
        rerun_signal=False, pending=PendingRequest(), hold=None, timers={}, is_restarting=False, restarts=0,
        lost_since=0, losses=0, changed=(),
    )  # fmt: skip


def needed_by(job: Job) -> Claim:
    """Return what the row of a job has of what it needs: no reservation of it."""
    asked = job.asked
    return Claim(asked.cores, asked.memory, engine=asked.engine, gpus=asked.gpus, elsewhere=asked.elsewhere)


def by_role(job: Job) -> tuple[Any, ...]:
    """Return the parties in the order of `f_roles`: role by role, the roles in the order of their first party."""
    roles = list(dict.fromkeys(party.role for party in job.parties))
    return tuple(sorted(job.parties, key=lambda party: roles.index(party.role)))


def new_seat(seat: Seat) -> Seat:
    return changed(seat, short_at="", blocked_by=None, lease=0, renew_at=0, silent_since=0, approval="")


def new_task(task: Task) -> Task:
    """Return the task with the fields of a new row; every field that is not listed here is stored as it is given."""
    return changed(
        task, reason=None, message="", exit_code=None, caused_by="", without=(), waits="", waits_since=0, policy="",
        target=None, federated_reason=None, federated_message="", federated_exit_code=None, federated_caused_by="",
        federated_end_time=0, worker_id="", start_time=0, end_time=0,
    )  # fmt: skip


def new_worker(worker: Worker) -> Worker:
    return changed(
        worker, place=None, is_stopping=False, start_time=0, end_time=0, reason=None, message="",
        caused_by="", exit_status="",
    )  # fmt: skip


# ------------------------------------------------------------------ moves


def job_moved(job: Job, move: MoveJob, at: int, caused_by: str) -> Change:
    check_move(job.status, move.new)
    change: Change = {"status": move.new, **_why(move.reason, move.message)}
    if move.target is not None:
        change.update(target=move.target, stop_by=move.stop_by)
    if move.new is JobStatus.STOPPING or move.new in JOB_END:
        change["timers"] = {}            # no policy acts on a job that ends
    if caused_by:
        change["caused_by"] = caused_by
    if move.exit_code is not None:
        change["exit_code"] = move.exit_code
    if move.unconfirmed:
        change["unconfirmed"] = move.unconfirmed
    if move.new is JobStatus.RUNNING:
        change.update(
            start_time=at, wait_reason="", blocked_on="", blocked_at="", blocked_by=None, conflicts=0, hold=None
        )  # fmt: skip
    if move.new in JOB_END:
        change.update(
            end_time=at, wait_reason="", blocked_on="", blocked_at="", blocked_by=None, stop_by=0, is_force_stop=False,
            rerun_signal=False,
            hold=None,
        )  # fmt: skip
    if move.new is JobStatus.SUCCESS:
        change["progress"] = 100
    return change


def begun_again(job: Job, run: int, since: int, wait_reason: str, *, is_loss: bool = False) -> Change:
    """An ended job waits in a later run like a new one, but keeps its place in the queue and its number of rounds.

    At its initiator it waits until all parties know of the run. `is_loss`: it has lost a party and waits for its
    return; its time limit goes on."""
    check_move(job.status, JobStatus.WAITING)
    if not job.is_final:
        raise IllegalMove(f"{job.key} is {job.status.value}: only an ended job begins again")
    return {
        "status": JobStatus.WAITING,
        "run": run,
        "target": None,
        "reason": None,
        "message": "",
        "caused_by": "",
        "exit_code": None,
        "cancel_requested": False,
        "progress": 0,
        "wait_reason": wait_reason,
        "blocked_on": "",
        "blocked_at": "",
        "blocked_by": None,
        "retry_at": 0,
        "passes": 0,
        "passers": (),
        "conflicts": 0,
        "since": job.since if is_loss else since,
        "queued": since,
        "lost_since": max(1, since) if is_loss else 0,
        "losses": job.losses + 1 if is_loss else 0,
        "start_time": 0,
        "end_time": 0,
        "stop_by": 0,
        "unconfirmed": (),
        "rerun_signal": job.is_initiator,
        "missing": (),
        "timers": {},
        "is_restarting": False,
        "restarts": job.restarts if is_loss else 0,
        "changed": (),
    }


def revised(new: Job) -> Change:
    """The parameters of a waiting or ended job change; `new` has the new values."""
    return {
        "asked": needed_by(new), "timeout_seconds": new.timeout_seconds,
        "ttl_seconds": new.ttl_seconds, "revision": new.revision, "changed": new.changed,
    }  # fmt: skip


def rejoined(queued: int) -> Change:
    """Every party knows that the job waits; `queued`: the steady time since which it waits for cores, if it changes."""
    change: Change = {"rerun_signal": False, "wait_reason": "", "lost_since": 0}
    return {**change, "queued": queued} if queued else change


def passed(passers: Sequence[str], by: str) -> Change:
    """A later job took capacity that the job waits for; `passers`: those that have. `passes` counts it, too."""
    return {"passers": (by, *(one for one in passers if one != by))[:MOST_PASSERS]}


def requeue_job(job: Job, wait_reason: str, retry_at: int) -> Change:
    """A running job waits in the same run until its next attempt is due; its cores are released separately."""
    check_move(job.status, JobStatus.WAITING)
    if job.status is not JobStatus.RUNNING:
        raise IllegalMove(f"{job.key} is {job.status.value}: only a running job is requeued")
    return {
        "status": JobStatus.WAITING,
        "wait_reason": wait_reason,
        "retry_at": retry_at,
        "queued": retry_at,
        "passes": 0,
        "passers": (),
        "rerun_signal": job.is_initiator,
    }


def seat_moved(
    seat: Seat, new: SeatStatus, message: str, free_cores: int, blocked_by: Blocker | None, short_at: str
) -> Change:  # fmt: skip
    check_move(seat.status, new)
    return {
        "status": new, "message": message, "free_cores": free_cores, "blocked_by": blocked_by, "short_at": short_at,
    }  # fmt: skip


def seat_rejoins(seat: Seat) -> Change:
    """A seat joins the next run; its fields of the last run are reset. The row may have moved since it was read, to
    another status of REJOINING_SEATS."""
    check_move(seat.status, SeatStatus.JOINING)
    return {
        "status": SeatStatus.JOINING, "run": seat.run + 1, "message": "", "free_cores": -1, "blocked_by": None,
        "lease": 0, "short_at": "",
        "renew_at": 0, "silent_since": 0,
    }  # fmt: skip


def tag_of_end(job: Job) -> str:
    """Return the tag for the row of a job that ends now."""
    return SUBMIT_FAILED if job.status is JobStatus.READY else JOB_END_TAG


def message_with(job: Job, text: str) -> str:
    return f"{job.message}; {text}" if job.message else text


def stop_requested(reason: Reason, message: str, by_user: bool, caused_by: str) -> Change:
    change: Change = {"caused_by": caused_by, **_why(reason, message)}
    if by_user:
        change["cancel_requested"] = True
    return change


def federated_moved(move: MoveTask, at: int) -> Change:
    """The federated status of a task changes."""
    check_move(move.old, move.new)
    change: Change = {"status": move.new}
    if move.policy:
        change["policy"] = move.policy
    if move.begins_again:
        change["begins_again"] = True
    if move.reason is not None or move.message:
        change.update(
            federated_reason=move.reason, federated_message=move.message, federated_exit_code=move.exit_code,
            federated_caused_by=move.caused_by,
        )  # fmt: skip
    if move.new in TASK_END:
        change["federated_end_time"] = at
    return change


def task_moved(
    task: Task, new: TaskStatus, at: int, reason: Reason | None, message: str, target: TaskStatus | None,
    exit_code: int | None, caused_by: str,
) -> Change:
    """The status of a party's share of a task changes."""
    check_move(task.party_status, new)
    change: Change = {"party_status": new, **_why(reason, message)}
    if target is not None:
        change["target"] = target
    if new is TaskStatus.RUNNING:
        change["start_time"] = at
    if new in TASK_END:
        change["end_time"] = at
    if exit_code is not None:
        change["exit_code"] = exit_code
    if caused_by:
        change["caused_by"] = caused_by
    return change


def task_reported(task: Task, report: Report) -> Change | None:
    """The status of a share changes by the report of its party; None if the report is not about this row, or not new.

    A plain v1 party knows no incarnations, so its reports contain none."""
    if report.task != task.key or report.incarnation not in ("", task.incarnation):
        return None
    if not may_move(task.party_status, report.status):
        return None
    at = report.end_time or report.start_time
    change = task_moved(
        task, report.status, at, report.reason, report.message, None, report.exit_code, report.caused_by
    )
    if report.start_time:
        change["start_time"] = report.start_time
    return change


def worker_moved(
    worker: Worker, new: WorkerStatus, at: int, place: WorkerPlace | None, end: WorkerEnd | None
) -> Change:
    """The status of a worker changes. Raises IllegalMove also for an exit without a reason."""
    check_move(worker.status, new)
    if new is WorkerStatus.RUNNING:
        return {"status": new, "place": place, "start_time": at}
    if end is None:
        raise IllegalMove(f"a worker is {new.value} for no reason")
    return {
        "status": new, "end_time": at, "reason": end.reason, "message": end.message, "caused_by": end.caused_by,
        "exit_status": end.exit_status,
    }  # fmt: skip


def ordered_to_stop(why: WorkerEnd) -> Change:
    """A worker is told to stop; its exit status comes later, from its process."""
    return {"is_stopping": True, "reason": why.reason, "message": why.message, "caused_by": why.caused_by}


def _why(reason: Reason | None, message: str) -> Change:
    return {} if reason is None else {"reason": reason, "message": message}


# ------------------------------------------------------------------ the newest version


def newest_tasks(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Return the newest version of each task, at all parties."""
    every = tuple(tasks)
    newest: dict[str, int] = {}
    for task in every:
        newest[task.key.name] = max(task.key.version, newest.get(task.key.name, 0))
    return tuple(task for task in every if task.key.version == newest[task.key.name])


SHARE_MOVING = TASK_BROKEN | {TaskStatus.STOPPING}
"""Statuses of a share that does not go on with the others."""


def is_moving(task: Task) -> bool:
    """Return whether the task stops, its share stops, is broken or waits for a place while it runs, or it is a waiting
    later version."""
    if task.status is TaskStatus.RUNNING:
        return task.party_status in SHARE_MOVING or task.waits_for_a_place
    return task.status is TaskStatus.STOPPING or (task.status is TaskStatus.WAITING and task.key.version > 0)


def newest_version(keys: Iterable[TaskKey]) -> int:
    return max((key.version for key in keys), default=0)
