"""What a worker needs of its engine, and the GPUs that it gets.

This server gives out the GPUs of an engine that names them (`PartyEngine.devices`): a worker has its devices from the
transaction that stores it until the one that stores its end. So nothing has to be given back: the free devices are
those that no unfinished worker has, whatever was killed or started again in between.
"""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.job import Worker
from fate_flow.core.model.resources import Need
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.planning.elastic import need_of
from fate_flow.core.text.phrases import counted
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.placement import queue_of_task, request_of_task_at


def need_at(unit: UnitOfWork, spec: JobSpec, worker: Worker, time_limit_seconds: int = 0) -> Need:
    """Return what this worker alone needs. `time_limit_seconds`: 0: it may run for as long as its job."""
    task, party = spec.tasks[worker.task.name], worker.task.party
    queue = queue_of_task(unit.context, spec, task, party, worker.engine)
    request = request_of_task_at(unit.context, spec, task, party, worker.engine)
    need = need_of(request, task.programs.get(party), worker, time_limit_seconds, queue)
    parameters = spec.parameters_of(task, party)
    return replace(
        need, labels=tuple(parameters.labels), longest_pending_seconds=parameters.longest_pending_seconds
    )


def with_devices(unit: UnitOfWork, spec: JobSpec, worker: Worker) -> Worker:
    """Return a worker, which is to be stored in this transaction, with as many free devices as it needs."""
    pool, gpus = unit.context.engines.devices_of(worker.engine), need_at(unit, spec, worker).gpus
    if not pool or not gpus:
        return worker
    unit.tx.lock_engine(worker.engine)
    unfinished = unit.tx.unfinished_workers()
    used = {device for one in unfinished if one.engine == worker.engine for device in one.devices}
    return replace(worker, devices=tuple(one for one in pool if one not in used)[:gpus])


def missing_devices(unit: UnitOfWork, worker: Worker, need: Need) -> str:
    """Return text if the worker has fewer devices than it needs, which happens after some were taken out of the
    configuration; empty if it has enough, or its engine gives them."""
    if len(worker.devices) >= need.gpus or not unit.context.engines.devices_of(worker.engine):
        return ""
    free, asked = len(worker.devices), counted(need.gpus, "GPU")
    return f"engine {worker.engine} has {free} of {asked} free for this worker: others still use what it had"
