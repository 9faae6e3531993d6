"""Building the launch order for a worker: inputs, parameters, its program and its place among the others."""

from __future__ import annotations

from functools import partial

from fate_flow.core.access.authority import party_id_of
from fate_flow.core.model.job import Task, Worker
from fate_flow.core.model.program_scope import Place, Program, environment, peers
from fate_flow.core.model.spec import JobSpec, Party, TaskSpec
from fate_flow.core.planning.replicas import COLLECTOR, newest
from fate_flow.core.streams.addresses import StreamEnds, ends_of, environment_of
from fate_flow.services.artifacts.inputs import Upstream
from fate_flow.services.context.named_document import named_document
from fate_flow.services.context.ports import LaunchOrder
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.models.lookup import stored_input
from fate_flow.services.workers.allowed import granted_programs, least_intersection
from fate_flow.services.workers.ending import stop_seconds
from fate_flow.services.workers.needs import missing_devices, need_at
from fate_flow.services.workers.outputs import reported_by, why_not_reported
from fate_flow.store.contract.transaction import Transaction


def launch_order(unit: UnitOfWork, spec: JobSpec, worker: Worker, task: Task) -> LaunchOrder | str:
    """Return the order with all that the worker needs, or text about what is missing."""
    key = task.key
    task_spec = spec.tasks[key.name]
    is_own = party_id_of(spec.initiator, unit.context.party_id) == unit.context.party_id
    inputs = Upstream(
        unit.context.kinds, unit.tx, spec, unit.context.modules,
        partial(reported_by, unit, key.job_id, key.party), partial(why_not_reported, unit, key.job_id, key.party),
        partial(stored_input, unit, spec, key),
    ).inputs_of(key, is_own)  # fmt: skip
    if isinstance(inputs, str):
        return inputs
    parameters = spec.parameters_of(task_spec, key.party)
    timeout_seconds = unit.context.ceilings.timeout_of(task_spec.timeout_at(key.party))
    need = need_at(unit, spec, worker, timeout_seconds)
    if why := missing_devices(unit, worker, need):
        return why
    streams = ends_of(task_spec.ports, key, task.incarnation, task.without)
    batch_size = _batch_size(unit, worker)
    return LaunchOrder(
        worker=worker,
        initiator=spec.initiator.party_id,
        module=task_spec.module,
        incarnation=task.incarnation,
        parties=tuple((party.role, party.party_id) for party in _running(task_spec, task.without)),
        parameters=inputs.parameters,
        inputs=inputs.artifacts,
        task_cores=parameters.task_cores,
        partitions=parameters.computing_partitions,
        timeout_seconds=timeout_seconds,
        stop_seconds=stop_seconds(unit, key),
        speaks_as=task.worker_id or worker.worker_id,
        least_intersection=least_intersection(unit, spec),
        stage=task_spec.stage,
        program=_program(unit, spec, worker, task, parameters.task_cores, streams),
        collects=_collected(unit.tx, worker),
        document=named_document(unit, key.job_id),
        streams=streams,
        need=need,
        trace=unit.trace(key.job_id),
        gathers=_gathers(unit, task_spec, worker, task),
        gang_size=batch_size if _is_of_gang(task_spec, worker) else 1,
        batch_size=batch_size,
    )


def _gathers(unit: UnitOfWork, task_spec: TaskSpec, worker: Worker, task: Task) -> bool:
    """Return whether a worker begins together with others. A plain v1 coordinator never says that all are there."""
    key = task.key
    if not _is_of_gang(task_spec, worker):
        return False
    if len(_running(task_spec, task.without)) == 1 and len(unit.tx.workers_of_task(key)) == 1:
        return False
    return not any(job.is_plain_v1 for job in unit.tx.jobs_here(key.job_id) if job.party == key.party)


def _batch_size(unit: UnitOfWork, worker: Worker) -> int:
    """Return how many workers come here with the start of the task, this one among them; 1 if it comes later."""
    if not _is_of_start(worker):
        return 1
    return sum(_is_of_start(one) for one in unit.tx.workers_of_task(worker.task))


def _is_of_gang(task_spec: TaskSpec, worker: Worker) -> bool:
    command = task_spec.programs.get(worker.task.party)
    return not worker.attempt and worker.slot != COLLECTOR and (command is None or command.is_gang)


def _is_of_start(worker: Worker) -> bool:
    return not worker.attempt and worker.slot != COLLECTOR and not worker.is_elastic


def _collected(tx: Transaction, worker: Worker) -> tuple[Worker, ...]:
    if worker.slot != COLLECTOR:
        return ()
    ranked = {one.rank: one for one in newest(tx.workers_of_task(worker.task)) if one.rank is not None}
    return tuple(ranked[rank] for rank in sorted(ranked))


def _program(
    unit: UnitOfWork, spec: JobSpec, worker: Worker, task: Task, cores: int, streams: StreamEnds
) -> Program | None:
    """Return the user's own program with its place among the others; None for the component's own code."""
    of_task = spec.tasks[worker.task.name]
    command = of_task.programs.get(worker.task.party)
    if command is None or worker.slot == COLLECTOR:
        return None
    own_cores = worker.cores if worker.is_elastic else None
    place = Place(worker.task, task.incarnation, worker.slot, worker.rank, worker.attempt, cores, own_cores)
    known = tuple(peers(of_task, task.without))
    initiator = spec.initiator.party_id
    env = {**environment(of_task, place), **environment_of(streams)}
    return Program(command, env, known, initiator, granted_programs(unit, initiator))


def _running(task: TaskSpec, without: tuple[str, ...]) -> tuple[Party, ...]:
    return tuple(party for party in task.parties if party not in task.passed_at and str(party) not in without)
