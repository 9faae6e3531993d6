"""Actions about the job itself: its status, its end, its next run, its timers."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Job
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JOB_END, JobStatus, SeatStatus
from fate_flow.core.planning.actions import (
    AllRejoined,
    Arm,
    BeginAgain,
    Disarm,
    ForceStop,
    Forget,
    MoveJob,
    Progress,
    Rejoin,
    RequeueJob,
    Restarted,
    RestartJob,
)
from fate_flow.core.planning.participant.job_end import cut_off, reason_for_shares
from fate_flow.core.planning.queue import pausing
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.effects import RemoveJobFolder
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.ends import clean_up, release
from fate_flow.services.participant.next_run import begin_again, requeue_job
from fate_flow.services.participant.rows import move_job
from fate_flow.services.workers.ending import finish_party_task
from fate_flow.services.workers.moves import move_federated


def change_status(unit: UnitOfWork, job: Job, move: MoveJob) -> None:
    if move.new in JOB_END:
        _end(unit, job, move)
    else:
        move_job(unit, job, move, caused_by=caused_by(job, move) if move.reason else "")
    if move.new is JobStatus.WAITING:
        unit.lengthen_queue()
        unit.tx.decide_submission(job.job_id, 0, "success")


def _end(unit: UnitOfWork, job: Job, move: MoveJob) -> None:
    assert move.reason is not None, "every end has a reason"
    unit.note(Event.JOB_FINISHING, job_id=job.job_id, status=move.new)
    _close_tasks(unit, job, move)
    release(unit, job)
    if move.missing:
        unit.tx.name_missing(job.key, move.missing)
    now = unit.tx.job(job.key) or job
    move_job(unit, now, replace(move, exit_code=now.exit_code), caused_by=caused_by(job, move))
    unit.note(Event.JOB_FINISHED, job_id=job.job_id, status=move.new)
    if job.status is JobStatus.READY:
        unit.tx.decide_submission(job.job_id, 103, move.message or move.reason.value)
    clean_up(unit, job.job_id)


def _close_tasks(unit: UnitOfWork, job: Job, move: MoveJob) -> None:
    """End the task rows that have not ended, both of this party and those kept for others."""
    if move.reason is Reason.DONE and not move.missing:
        return
    reason = reason_for_shares(move.reason) if move.reason else Reason.STOPPED
    for task in unit.tx.tasks(job.job_id):
        if not task.is_over_here:
            finish_party_task(unit, task, reason, "", caused_by=caused_by(job, move))
        if not task.is_final:
            move_federated(unit, job.job_id, cut_off(task, move.reason, move.message, caused_by(job, move)))


def wait_in_next_run(unit: UnitOfWork, job: Job, action: BeginAgain) -> None:
    unit.note(Event.RERUN_SIGNAL_ASKED, job_id=job.job_id)
    unit.note(Event.RERUN_WAITING_ASKED, job_id=job.job_id)
    begin_again(unit, job, job.run + 1, action.wait_reason, is_loss=action.is_loss)
    unit.note(Event.RERUN_SIGNAL_SET, job_id=job.job_id, outcome="successfully")


def rejoin(unit: UnitOfWork, job: Job, action: Rejoin) -> None:
    seat = action.seat
    if not unit.tx.rejoin(seat):
        raise OperationFailed(f"job {job.job_id}: the seat of {seat.party} in run {seat.run} has moved on")
    unit.moves(HistoryLevel.SEAT, job.job_id, seat.status, SeatStatus.JOINING, party=seat.party)


def all_rejoined(unit: UnitOfWork, job: Job, _: AllRejoined) -> None:
    unit.tx.all_rejoined(job.key, unit.steady if job.lost_since else 0)
    unit.lengthen_queue()
    unit.note(Event.RERUN_WAITING_SET, job_id=job.job_id, outcome="successfully")


def requeue(unit: UnitOfWork, job: Job, action: RequeueJob) -> None:
    requeue_job(unit, job, action.wait_reason, action.retry_at)
    unit.wake_at(action.retry_at, job.job_id)
    why = pausing(action.wait_reason, action.retry_at - unit.steady)
    unit.note(Event.JOB_NOTE, job_id=job.job_id, text=f"job {job.job_id} waits: {why}")


def set_progress(unit: UnitOfWork, job: Job, action: Progress) -> None:
    unit.tx.set_progress(job.key, action.percent)


def force_stop(unit: UnitOfWork, job: Job, action: ForceStop) -> None:
    unit.tx.force_stop_sent(job.key, action.stop_by)
    unit.wake_at(action.stop_by, job.job_id)


def arm(unit: UnitOfWork, job: Job, action: Arm) -> None:
    timers = _timers(unit, job)
    unit.tx.set_timers(job.key, {**timers, action.key: timers.get(action.key, action.at)})
    unit.wake_at(action.at, job.job_id)


def disarm(unit: UnitOfWork, job: Job, action: Disarm) -> None:
    timers = _timers(unit, job)
    timers.pop(action.key, None)
    unit.tx.set_timers(job.key, timers)


def _timers(unit: UnitOfWork, job: Job) -> dict[str, int]:
    """Read the timers again, because earlier actions of the same plan may have changed them."""
    return dict((unit.tx.job(job.key) or job).timers)


def restart(unit: UnitOfWork, job: Job, action: RestartJob) -> None:
    unit.tx.restart_job(job.key)
    unit.moves(
        HistoryLevel.JOB, job.job_id, job.status, job.status, party=job.party, message=action.message,
        caused_by=action.caused_by or str(job.party),
    )  # fmt: skip
    unit.note(Event.JOB_NOTE, job_id=job.job_id, text=f"job {job.job_id} begins again: {action.message}")


def restarted(unit: UnitOfWork, job: Job, _: Restarted) -> None:
    unit.tx.restarted(job.key)


def forget(unit: UnitOfWork, job: Job, _: Forget) -> None:
    unit.tx.forget_job(job.job_id)
    unit.after_commit(RemoveJobFolder(job.job_id))


def caused_by(job: Job, move: MoveJob) -> str:
    return job.caused_by or move.caused_by or str(job.party)
