"""The end of a job's row at this party: stopping its tasks, releasing its cores, removing its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fate_flow.core.model.artifact import file_at
from fate_flow.core.model.job import Answer, Claim, Command, CommandKind, EngineState, Job
from fate_flow.core.model.modules import ModuleInfo, OpensFiles
from fate_flow.core.model.reasons import Reason, job_status_for
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import JobStatus, TaskStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.core.planning.participant.job_end import (
    EndStep,
    is_stopped_with_job,
    plan_end,
    reason_for_shares,
    task_end_with_job,
)
from fate_flow.core.wire.v1.initiator_bodies import StopRequest
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.effects import RemoveJobFolder, RemoveMessages
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.rows import OK, move_job, place_of
from fate_flow.services.workers.ending import stop_party_task
from fate_flow.services.workers.moves import move_federated

_IN_PROCESS = (TaskStatus.RUNNING, TaskStatus.STOPPING)


def has_workers(unit: UnitOfWork, job: Job) -> bool:
    """Return whether a worker of this seat still lives, as far as is known, even if the end did not wait for it."""
    workers = unit.tx.workers_of(job.job_id)
    return any(one.task.party == job.party and one.status is not WorkerStatus.EXITED for one in workers)


def forget_seat(unit: UnitOfWork, job: Job) -> Answer:
    """Remove the seat of a job that was refused elsewhere, and with the last seat its files.

    The job id stays bound: lines of its log are here, and a job that was invited again may have more."""
    release(unit, job)      # it may have been reserved for as soon as it was accepted
    unit.tx.forget_seat(job.key)
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
    step = plan_end(job, is_busy=busy, has_workers=job.is_plain_v1 and has_workers(unit, job))
    if step is EndStep.FINALISE:
        finalise(unit, job, reason, message, caused_by)
    elif step is EndStep.DRAIN:
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


def ask_for_end(unit: UnitOfWork, job: Job, reason: Reason, message: str) -> None:
    """Ask the initiator, another party, to end the job for all; one that speaks plain v1 gets no reason."""
    asked = StopRequest() if job.is_plain_v1 else StopRequest(reason=reason, message=message)
    how = job_status_for(reason).value
    unit.send(Command(CommandKind.ASK_STOP, job.job_id, job.initiator, job.run, argument=how, body=asked.as_body()))


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
        move = task_end_with_job(now, task, end)
        if move is not None:
            move_federated(unit, job.job_id, move, is_decided=False)


def clean_up(unit: UnitOfWork, job_id: str) -> None:
    """Remove the job's messages and the files that were sent for uploads, once all its seats here have ended."""
    if not all(row.is_final for row in unit.tx.jobs_here(job_id)):
        return
    spec = unit.spec(job_id)
    sent = _files_read(unit.context.modules, spec) if spec else ()
    unit.after_commit(RemoveMessages(job_id, tuple(map(file_at, sent))))


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
    engine = unit.tx.engine(job.claim.engine)
    assert engine is not None, "the row of an engine is never removed"
    note_resource(unit, job, "return", job.claim, engine)
    unit.free(unit.context.party_id, job.job_id)
    return True


def stop_tasks_here(
    unit: UnitOfWork, job: Job, reason: Reason, deadline_seconds: float | None = None, caused_by: str = ""
) -> bool:
    """Stop every task of this seat; return whether workers still run. An empty `caused_by` means the initiator."""
    busy = False
    for task in unit.tx.tasks(job.job_id):
        if not is_stopped_with_job(job, task):
            continue
        cause = caused_by or str(job.initiator)
        stop_party_task(unit, task, reason_for_shares(reason), deadline_seconds=deadline_seconds, caused_by=cause)
        found = unit.tx.task(task.key)
        busy = busy or (found is not None and found.party_status in _IN_PROCESS)
    return busy


def note_resource(unit: UnitOfWork, job: Job, operation: str, claim: Claim, engine: EngineState) -> None:
    unit.note(
        Event.RESOURCE_RESULT, job_id=job.job_id, operation=operation, cores=claim.cores, memory=claim.memory,
        outcome="successfully", remaining_cores=engine.remaining_cores, remaining_memory=engine.remaining_memory,
        **place_of(job),
    )  # fmt: skip
