"""Stopping a share of this party and its workers, and writing its final status.

Only the party itself writes the final status of its party tasks.
"""

from __future__ import annotations

from fate_flow.core.model.job import Task, TaskKey, Worker, WorkerEnd
from fate_flow.core.model.modules import has_replicas
from fate_flow.core.model.reasons import Reason, task_status_for
from fate_flow.core.model.status import TaskStatus, WorkerStatus
from fate_flow.core.planning.participant.share_end import (
    ShareEnd,
    StopStep,
    plan_share_stop,
    why_share_ends,
    why_workers_stop,
)
from fate_flow.jobspec.ceilings import stop_allowed
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.effects import CloseExchange, StopWorker
from fate_flow.services.context.recording import record_exchange
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.moves import move_party_task, read_again, version_fields
from fate_flow.services.workers.reports import tell_initiator


def stop_party_task(
    unit: UnitOfWork, task: Task, reason: Reason, message: str = "", deadline_seconds: float | None = None,
    exit_code: int | None = None, caused_by: str = "",
) -> None:  # fmt: skip
    """Stop a party task: it ends at once if it has no living worker, else when its workers have ended.

    `caused_by`: the party that is the cause, if it is not this one.
    `deadline_seconds`: the caller waits no longer; None: the workers have this party's own grace time."""
    workers = living_workers(unit, task)
    match plan_share_stop(task, has_workers=bool(workers), deadline_seconds=deadline_seconds):
        case StopStep.KILL:
            for worker in workers:
                stop_worker(unit, worker, 0)
        case StopStep.END:
            finish_party_task(unit, task, reason, message, exit_code, caused_by)
        case StopStep.STOP:
            _stop_with(unit, task, workers, reason, message, deadline_seconds, exit_code, caused_by)


def _stop_with(
    unit: UnitOfWork, task: Task, workers: list[Worker], reason: Reason, message: str, deadline_seconds: float | None,
    exit_code: int | None, caused_by: str,
) -> None:  # fmt: skip
    unit.note(Event.TASK_STOP_ASKED, **version_fields(task.key))
    move_party_task(unit, task, TaskStatus.STOPPING, reason, message, task_status_for(reason), exit_code, caused_by)
    why = why_workers_stop(task, reason, message, caused_by)
    for worker in workers:
        unit.tx.mark_stopping(worker.worker_id, why)
        stop_worker(unit, worker, deadline_seconds)
    tell_initiator(unit, read_again(unit, task))


def dismiss(unit: UnitOfWork, worker: Worker, reason: Reason, message: str) -> None:
    """Stop a worker that is no longer needed, while others of its share go on."""
    unit.tx.mark_stopping(worker.worker_id, WorkerEnd(reason, message, str(worker.task.party)))
    stop_worker(unit, worker)


def stop_worker(unit: UnitOfWork, worker: Worker, deadline_seconds: float | None = None) -> None:
    """Tell the worker's runner, after the commit, to end it; the caller waits no longer than `deadline_seconds`."""
    grace = stop_seconds(unit, worker.task)
    if deadline_seconds is not None:
        grace = min(grace, deadline_seconds)
    unit.after_commit(StopWorker(worker, grace))


def stop_seconds(unit: UnitOfWork, key: TaskKey) -> float:
    """Return the seconds from SIGTERM to SIGKILL: as the job asks, within this party's limit, else this party's own."""
    rules, spec = unit.context.rules, unit.spec(key.job_id)
    asked = spec.tasks[key.name].stop_seconds if spec is not None and key.name in spec.tasks else None
    return stop_allowed(asked, rules.stop_grace_seconds, rules.longest_stop_seconds)


def finish_party_task(
    unit: UnitOfWork, task: Task, reason: Reason, message: str, exit_code: int | None = None, caused_by: str = ""
) -> None:
    """Write the final status of this party's share, and report it to the initiator."""
    if task.is_over_here:
        return
    why = why_share_ends(task, ShareEnd(reason, message, caused_by))
    end = task_status_for(why.reason)
    if not move_party_task(unit, task, end, why.reason, why.message, exit_code=exit_code, caused_by=why.caused_by):
        now = read_again(unit, task)
        if now.party_status is not task.party_status:     # another process of this server was faster: decide again
            finish_party_task(unit, now, why.reason, why.message, exit_code, why.caused_by)
            return
    record_exchange(unit, task)
    unit.after_commit(CloseExchange(task.key, task.incarnation))
    tell_initiator(unit, read_again(unit, task))


def living_workers(unit: UnitOfWork, task: Task) -> list[Worker]:
    """Return the workers of this party task that have been ordered and have not exited."""
    if not task.worker_id:
        return []
    if has_replicas(unit.context.modules, task.module):
        workers: tuple[Worker | None, ...] = unit.tx.workers_of_task(task.key)
    else:
        workers = (unit.tx.worker(task.worker_id),)
    return [one for one in workers if one is not None and one.status is not WorkerStatus.EXITED]
