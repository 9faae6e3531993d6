"""The end of a job's row at this party: stopping its tasks, releasing its cores, removing its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fate_flow.core.model.job import Answer, Claim, EngineState, Job, Task
from fate_flow.core.model.modules import ModuleInfo, OpensFiles
from fate_flow.core.model.reasons import Reason, job_status_for
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import TASK_BROKEN, JobStatus, TaskStatus, WorkerStatus, may_move
from fate_flow.core.planning.actions import MoveJob, MoveTask
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.effects import RemoveJobFolder, RemoveMessages
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.plain_v1 import stays_waiting
from fate_flow.services.participant.rows import OK, move_job, place_of
from fate_flow.services.workers.ending import stop_party_task
from fate_flow.services.workers.moves import move_federated

_IN_PROCESS = (TaskStatus.RUNNING, TaskStatus.STOPPING)


def has_workers(unit: UnitOfWork, job: Job) -> bool:
    """Return whether a worker of this seat still lives, as far as is known, even if the end did not wait for it."""
    workers = unit.tx.workers_of(job.job_id)
    return any(one.task.party == job.party and one.status is not WorkerStatus.EXITED for one in workers)


def forget_seat(unit: UnitOfWork, job: Job) -> Answer:
    """Remove the seat of a job that was refused elsewhere, and with the last seat its files."""
    unit.tx.forget_seat(job.key)
    unit.forget_binding(job.job_id)     # the binding is removed with the last seat
    if not unit.tx.jobs_here(job.job_id):
        unit.after_commit(RemoveJobFolder(job.job_id))
    return OK


def end_job_here(
    unit: UnitOfWork, job: Job, reason: Reason, message: str, deadline_seconds: float | None = None, caused_by: str = ""
) -> None:
    """End the job for this party: at once if nothing runs any more, else when its workers have ended.

    The workers have this party's own grace time, or less if the initiator waits for less. An empty `caused_by` means
    the initiator. `job.exit_code`, that of the worker that is the cause, is kept."""
    caused_by = caused_by or job.caused_by or str(job.initiator)
    busy = stop_tasks_here(unit, job, reason, deadline_seconds, caused_by)
    if job.is_plain_v1 and job.status is JobStatus.STOPPING:
        busy = has_workers(unit, job)      # also workers of an older version, if the next run's versions exist already
    if not busy:
        finalise(unit, job, reason, message, caused_by)
    elif job.status is not JobStatus.STOPPING:
        target = job_status_for(reason)
        move = MoveJob(
            JobStatus.STOPPING, reason, message, target=target, stop_by=ENDS_WHEN_DRAINED, exit_code=job.exit_code
        )
        move_job(unit, job, move, caused_by)


def with_code(job: Job, code: int | None) -> Job:
    """Return the job with the exit code of the worker that is the cause of its end, if there is one."""
    return job if code is None else replace(job, exit_code=code)


ENDS_WHEN_DRAINED = 1
"""The `stop_by` of a row that is not the initiator's: it ends by itself when its last worker has ended."""


def finalise(unit: UnitOfWork, job: Job, reason: Reason, message: str, caused_by: str) -> None:
    """Give this party's row its final status, and release its reservation."""
    release(unit, job)
    now = unit.tx.job(job.key) or job
    end = job_status_for(reason)
    move_job(unit, now, MoveJob(end, reason, message, exit_code=job.exit_code), caused_by)
    if reason is Reason.INITIATOR_LOST:
        close_tasks(unit, job, end)     # the initiator will not send their ends
    clean_up(unit, job.job_id)


def close_tasks(unit: UnitOfWork, job: Job, end: JobStatus) -> None:
    """Give each task whose end the initiator has not sent a final federated status, because the job is over."""
    now = unit.tx.job(job.key) or job
    for task in unit.tx.tasks(job.job_id):
        is_left = task.status is TaskStatus.WAITING and stays_waiting(job, task)
        if task.key.party != job.party or task.is_final or is_left:
            continue
        key, own = task.key, task.party_status
        keeps_own = end is JobStatus.SUCCESS or own in TASK_BROKEN
        if keeps_own and own is not TaskStatus.CANCELED and may_move(task.status, own):
            move = MoveTask(
                key.name, key.version, task.status, own, task.reason, task.message, caused_by=task.caused_by,
                exit_code=task.exit_code,
            )  # fmt: skip
        else:
            move = cut_off(task, now.reason, now.message, now.caused_by or str(job.initiator))
        move_federated(unit, job.job_id, move, is_decided=False)


def cut_off(task: Task, reason: Reason | None, message: str, caused_by: str) -> MoveTask:
    """Return the end of a task that its job cut off; `reason`, `message` and `caused_by` are those of the job."""
    known = Reason.STOPPED_BY_USER if reason is Reason.STOPPED_BY_USER else Reason.STOPPED
    key = task.key
    return MoveTask(key.name, key.version, task.status, TaskStatus.CANCELED, known, message, caused_by=caused_by)


def clean_up(unit: UnitOfWork, job_id: str) -> None:
    """Remove the job's messages and the files that were sent for uploads, once all its seats here have ended."""
    if not all(row.is_final for row in unit.tx.jobs_here(job_id)):
        return
    spec = unit.spec(job_id)
    sent = _files_read(unit.context.modules, spec) if spec else ()
    unit.after_commit(RemoveMessages(job_id, tuple(sent)))


def _files_read(modules: Mapping[str, ModuleInfo], spec: JobSpec) -> Iterator[str]:
    """Yield the paths of files that tasks read by their parameters; clients may have sent these files."""
    for task in spec.tasks.values():
        module = modules.get(task.module)
        if isinstance(module, OpensFiles) and module.file_read:
            for parameters in task.parameters.values():
                yield str(parameters.get(module.file_read, ""))


def release(unit: UnitOfWork, job: Job, at_most_round: int | None = None) -> bool:
    """Release the reservation; False if nothing was held.

    `at_most_round`: only a reservation of this round or an earlier one."""
    if not unit.tx.give_back(job.key, at_most_round, unit.now):
        return False
    engine = unit.tx.engine()
    assert engine is not None, "a reservation needs an engine"
    note_resource(unit, job, "return", job.claim, engine)
    unit.free(unit.context.party_id, job.job_id)
    return True


def stop_tasks_here(
    unit: UnitOfWork, job: Job, reason: Reason, deadline_seconds: float | None = None, caused_by: str = ""
) -> bool:
    """Stop every task of this seat; return whether workers still run. An empty `caused_by` means the initiator."""
    busy = False
    for task in unit.tx.tasks(job.job_id):
        if task.key.party != job.party or not task.runs_here or task.is_over_here or stays_waiting(job, task):
            continue
        cause = caused_by or str(job.initiator)
        stop_party_task(unit, task, reason_for_shares(reason), deadline_seconds=deadline_seconds, caused_by=cause)
        found = unit.tx.task(task.key)
        busy = busy or (found is not None and found.party_status in _IN_PROCESS)
    return busy


def reason_for_shares(reason: Reason) -> Reason:
    """Return the reason for shares that the end of their job cuts off, also in rows kept for other parties."""
    return reason if reason in (Reason.STOPPED_BY_USER, Reason.INITIATOR_LOST) else Reason.STOPPED


def note_resource(unit: UnitOfWork, job: Job, operation: str, claim: Claim, engine: EngineState) -> None:
    unit.note(
        Event.RESOURCE_RESULT, job_id=job.job_id, operation=operation, cores=claim.cores, memory=claim.memory,
        outcome="successfully", remaining_cores=engine.remaining_cores, remaining_memory=engine.remaining_memory,
        **place_of(job),
    )  # fmt: skip
