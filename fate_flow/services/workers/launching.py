"""Launching the workers of a share, and continuing the share when one of them has ended.

A share continues with another worker, whose launch may fail again; therefore both are in one module.
"""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.metrics.spans import Step, StepName, span_of_worker
from fate_flow.core.model.job import Answer, Job, Task, TaskKey, Worker
from fate_flow.core.model.modules import provider_info
from fate_flow.core.model.program import ProgramSpec
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import TaskStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveTask
from fate_flow.core.planning.elastic import elastic_slots
from fate_flow.core.planning.participant.share_steps import ShareStep, plan_share
from fate_flow.core.planning.replicas import (
    COLLECTOR,
    Collect,
    Dismiss,
    Done,
    Replace,
    ShareFailed,
    beyond_keeping,
    describe,
    next_step,
    ranks,
)
from fate_flow.core.wire.v1.reports import report_of
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.effects import ForgetWorker, LaunchWorker
from fate_flow.services.context.tracing import did
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.allowed import count_uses, why_not_now
from fate_flow.services.workers.ending import dismiss, finish_party_task, living_workers, stop_party_task
from fate_flow.services.workers.failed_workers import count_here
from fate_flow.services.workers.launch_orders import launch_order
from fate_flow.services.workers.moves import exit_worker, move_federated, move_party_task, place_fields, read_again
from fate_flow.services.workers.needs import with_devices
from fate_flow.services.workers.outputs import publish_outputs, why_unknown
from fate_flow.services.workers.placement import engine_beside
from fate_flow.services.workers.recorded_workers import record_order
from fate_flow.services.workers.reports import tell_initiator

A_MOMENT = 1_000
"""Milliseconds. The successor of a worker that lived for less starts with the next poll, not at once."""


def start_worker(unit: UnitOfWork, job: Job, task: Task, without: tuple[str, ...] = ()) -> Answer:
    """Order the workers of this party task, or pass it if the job says that it does not run here.

    `without`: the missing parties. Returns the answer to the initiator's command."""
    spec = unit.spec(job.job_id)
    if spec is None:
        return Answer(100, f"job {job.job_id} has no document")
    if task.key.party in spec.tasks[task.key.name].passed_at:
        move_party_task(unit, task, TaskStatus.PASS, Reason.NOT_NEEDED)
        return Answer(data=report_of(read_again(unit, task)))
    if why := why_not_now(unit, spec, task.key):
        finish_party_task(unit, task, Reason.NOT_ALLOWED, why)
        return Answer(data=report_of(read_again(unit, task)))
    engine = _engine_for(unit, spec, job, task)
    if why := (
        unit.why_no_engine(engine) or _why_nothing_held(job, engine) or _publish_upstream(unit, spec, task.key)
    ):
        finish_party_task(unit, task, Reason.LAUNCH_FAILED, why)
        return Answer(data=report_of(read_again(unit, task)))
    if why := count_uses(unit, spec, task.key):
        finish_party_task(unit, task, Reason.NOT_ALLOWED, why)
        return Answer(data=report_of(read_again(unit, task)))
    workers = [_order(unit, task.key, engine, slot, rank) for slot, rank in _fixed(unit, spec, task.key)]
    provider = provider_info(unit.context.modules, task.module)
    unit.tx.set_worker(task.key, workers[0].worker_id, without, provider)
    unit.note(Event.EXECUTOR_ASKED, **place_fields(task.key))
    for worker in workers:
        now = read_again(unit, task)
        if now.party_status is not TaskStatus.WAITING:
            break                     # if an input is missing for one worker, it is missing for all
        _launch(unit, worker, now, spec)
    return Answer(data=report_of(read_again(unit, task)))


def _engine_for(unit: UnitOfWork, spec: JobSpec, job: Job, task: Task) -> str:
    """Return the engine for the workers of a share. The engine of the job is the one on which it has reserved."""
    return engine_beside(unit.context, spec, spec.tasks[task.key.name], task.key.party) or job.claim.engine


def _why_nothing_held(job: Job, engine: str) -> str:
    if engine in job.claim.by_engine():
        return ""
    return f"the job has reserved nothing on engine {engine}, where the configuration has this task now"


def _fixed(unit: UnitOfWork, spec: JobSpec, key: TaskKey) -> list[tuple[int, int | None]]:
    """Return slot and rank of each worker that the reservation covers; a party task starts with these."""
    command = spec.tasks[key.name].programs.get(key.party)
    if command is None:
        return [(0, 0)]
    before = unit.tx.workers_of_task(replace(key, version=key.version - 1)) if key.version else ()
    found = ranks(command, before)
    elastic = elastic_slots(command, found)
    return [(slot, rank) for slot, rank in enumerate(found) if slot not in elastic]


def _order(
    unit: UnitOfWork, key: TaskKey, engine: str, slot: int, rank: int | None, attempt: int = 0
) -> Worker:  # fmt: skip
    worker, spec = new_worker(unit, key, engine, slot, rank, attempt), unit.spec(key.job_id)
    if spec is not None:
        worker = with_devices(unit, spec, worker)
    unit.tx.add_worker(worker)
    return worker


def new_worker(
    unit: UnitOfWork, key: TaskKey, engine: str, slot: int, rank: int | None, attempt: int
) -> Worker:  # fmt: skip
    """Return a new worker, which is to be stored and launched. All workers of a share are on one engine.

    Raises LookupError if the configuration does not have this engine."""
    worker_id = unit.context.fresh_id()
    handle = unit.context.engines.named(engine).handle_for(key, worker_id)
    return Worker(
        worker_id, key, WorkerStatus.CREATED, engine, handle, unit.now,
        since=unit.steady, slot=slot, rank=rank, attempt=attempt,
    )  # fmt: skip


def launch_later(unit: UnitOfWork, worker: Worker, task: Task, spec: JobSpec) -> None:
    """Launch one more worker of a share that has begun; if the share is no longer allowed here, stop it."""
    if why := why_not_now(unit, spec, task.key):
        exit_worker(unit, worker, task, Reason.NOT_ALLOWED, why)
        stop_party_task(unit, read_again(unit, task), Reason.NOT_ALLOWED, why)
    else:
        _launch(unit, worker, task, spec)


def _launch(unit: UnitOfWork, worker: Worker, task: Task, spec: JobSpec) -> None:
    order = launch_order(unit, spec, worker, task)
    if isinstance(order, str):
        _fail_launch(unit, worker, task, order)
        return
    record_order(unit, order)
    key, span = task.key, span_of_worker(worker.worker_id)
    did(unit, Step(StepName.WORKER_STARTED, key.job_id, key.party, key.name, key.version, span=span))
    unit.after_commit(LaunchWorker(order))


def _fail_launch(unit: UnitOfWork, worker: Worker, task: Task, message: str) -> None:
    exit_worker(unit, worker, task, Reason.LAUNCH_FAILED, message)
    continue_share(unit, task, Reason.LAUNCH_FAILED, message)


def _publish_upstream(unit: UnitOfWork, spec: JobSpec, key: TaskKey) -> str:
    """Publish the outputs that this task reads. The upstream tasks have succeeded at all parties, otherwise this task
    would not start; the command that says so may come later. Returns why some are unknown; empty if none is."""
    upstream = spec.tasks[key.name].producers
    for task in unit.tx.tasks(key.job_id) if upstream else ():
        if task.key.party != key.party or task.key.name not in upstream:
            continue
        if task.party_status is not TaskStatus.SUCCESS or task.status is TaskStatus.SUCCESS:
            continue
        is_published = task.is_final and any(
            kind.is_published(unit.tx, task.key) for kind in unit.context.kinds.values()
        )
        if is_published:
            continue
        if task.is_final:        # of an earlier run that ended before that command came
            why = publish_outputs(unit, task)
        elif not (why := why_unknown(unit, task)):
            done = MoveTask(
                task.key.name, task.key.version, task.status, TaskStatus.SUCCESS, Reason.DONE,
                caused_by=str(spec.initiator),
            )  # fmt: skip
            move_federated(unit, key.job_id, done)
        if why:
            return why
    return ""


def continue_share(unit: UnitOfWork, task: Task, reason: Reason, message: str, exit_code: int | None = None) -> None:
    """Continue or end this party's share after a worker has ended."""
    task = read_again(unit, task)
    spec = unit.spec(task.key.job_id)
    command = spec.tasks[task.key.name].programs.get(task.key.party) if spec is not None else None
    if spec is not None:
        count_here(unit, spec, task)
    has_living = task.party_status is TaskStatus.STOPPING and bool(living_workers(unit, task))
    match plan_share(task, is_program=command is not None, has_living=has_living):
        case ShareStep.END:
            finish_party_task(unit, task, reason, message, exit_code)
        case ShareStep.END_STOPPED:
            finish_party_task(unit, task, task.reason or reason, task.message)
        case ShareStep.GO_ON if spec is not None and command is not None:
            _next_step(unit, task, spec, command, message, exit_code)


def _next_step(
    unit: UnitOfWork, task: Task, spec: JobSpec, command: ProgramSpec, message: str, exit_code: int | None
) -> None:
    workers = unit.tx.workers_of_task(task.key)
    step, engine = next_step(command, workers), workers[0].engine
    if isinstance(step, Replace | Collect) and (why := unit.why_no_engine(engine)):
        stop_party_task(unit, task, Reason.LAUNCH_FAILED, why)
        return
    match step:
        case ShareFailed(failed_worker, why):
            text = f"{describe(failed_worker, command)}{message}" + (f" ({why})" if why else "")
            stop_party_task(unit, task, failed_worker.reason or Reason.WORKER_KILLED, text, exit_code=exit_code)
        case Replace(failed):
            for worker in failed:
                _replace(unit, task, spec, worker)
            if spec.max_failed_workers is not None:
                tell_initiator(unit, task)
        case Dismiss(spares):
            for worker in spares:
                dismiss(unit, worker, Reason.STOPPED, "all ranks are done without it")
        case Collect():
            launch_later(unit, _order(unit, task.key, engine, COLLECTOR, None), task, spec)
        case Done():
            finish_party_task(unit, task, Reason.DONE, "")


def _replace(unit: UnitOfWork, task: Task, spec: JobSpec, old: Worker) -> None:
    """Start another process in the slot: at once, or with the next poll if the last one lived only for a moment, so
    that a program that cannot run does not keep the server busy."""
    new = _order(unit, task.key, old.engine, old.slot, old.rank, old.attempt + 1)
    forget_old(unit, new)
    if unit.steady - old.since >= A_MOMENT:
        launch_later(unit, new, task, spec)


def forget_old(unit: UnitOfWork, new: Worker) -> None:
    """Remove the files of the oldest processes of a slot, so that a slot with many processes does not fill the disk."""
    for worker in beyond_keeping(unit.tx.workers_of_task(new.task), new):
        unit.after_commit(ForgetWorker(worker))
