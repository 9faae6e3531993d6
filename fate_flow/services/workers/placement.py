"""On which engine of this party a job reserves, and its workers run."""

from __future__ import annotations

from collections.abc import Iterable

from fate_flow.core.access.authority import PARTY_0
from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.job import Job
from fate_flow.core.model.resources import Request, request_of
from fate_flow.core.model.spec import JobParameters, JobSpec, Party, TaskSpec
from fate_flow.core.quotas.queues import Placement
from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import UnitOfWork

COMMON_PARAMETERS = "job_runtime_conf.job_parameters.common"


def placement(context: Context, spec: JobSpec, seat: Party) -> Placement:
    """Return where this seat of a job goes. Raises OperationFailed for a queue that this party does not have for the
    initiator, and if no engine is open to its jobs."""
    if why := why_not_placed(context, spec, seat):
        raise OperationFailed(why)
    return known_placement(context, spec, seat)


def known_placement(context: Context, spec: JobSpec, seat: Party) -> Placement:
    """Return where this seat goes; with a queue that this party does not have, as if the job named none.

    Without a queue, it goes to the default engine, or to the first other one that is open to it, if the default is not,
    or lacks the GPUs or the nodes that tasks of the job ask for."""
    parameters, initiator = spec.parameters[seat], _initiator(context, spec)
    found = context.queues.place(parameters.queue, initiator) or Placement()
    if found.engine:
        return found
    open_ones = _open_to(context, initiator)
    labels = labels_at(spec, seat)
    asks_for_gpus = parameters.task_gpus or any(one.task_gpus for one in _own_parameters(spec, seat))
    fitting = (
        name for name in open_ones
        if labels <= context.engines.labels_of(name) and (not asks_for_gpus or context.engines.size_of(name).gpus)
    )  # fmt: skip
    chosen = next(fitting, next(iter(open_ones), ""))
    return Placement("" if chosen == context.engines.default else chosen, found.queue)


def labels_at(spec: JobSpec, seat: Party) -> frozenset[str]:
    """Return the labels that tasks of this seat ask for, all of which the engine of the job has to know."""
    if not spec.has_own_resources(seat):
        of_job = spec.parameters[seat].labels
        return frozenset(of_job if of_job and spec.run_at(seat) else ())
    return frozenset(label for one in _own_parameters(spec, seat) for label in one.labels)


def _own_parameters(spec: JobSpec, seat: Party) -> tuple[JobParameters, ...]:
    """Return the parameters of each task that runs at this seat; none if no task states resources of its own. This is
    asked for at each start of a worker, and a job may have thousands of tasks."""
    if not spec.has_own_resources(seat):
        return ()
    return tuple(spec.parameters_of(task, seat) for task in spec.run_at(seat))


def _open_to(context: Context, initiator: str) -> list[str]:
    """Return the engines to which jobs of this initiator may go without a queue, the default first."""
    queues, default = context.queues, context.engines.default
    return [
        name for name in context.engines
        if (queues.may_use(name, initiator) if name == default else queues.may_reach(name, initiator))
    ]  # fmt: skip


def why_not_placed(context: Context, spec: JobSpec, seat: Party) -> str:
    """Return why no engine of this party is open to the job, or none in the queue that it names; empty if one is. Only
    this party's own users learn which queues there are."""
    word, initiator = spec.parameters[seat].queue, _initiator(context, spec)
    found = context.queues.place(word, initiator)
    if found is not None and (found.engine or _open_to(context, initiator)):
        return _why_no_node(context, spec, seat)
    if found is not None:
        return f"{seat} has no engine for jobs of party {initiator}"
    place = spec.paths.of(f"{COMMON_PARAMETERS}.queue")
    if initiator != context.party_id:
        return f"{place}: {seat} has no queue {shown(word)} for jobs of party {initiator}"
    known = ", ".join(context.queues.known_to(initiator)) or "none"
    return f"{place}: {seat} has no queue {shown(word)}; known here: {known} (queues in the configuration)"


def _why_no_node(context: Context, spec: JobSpec, seat: Party) -> str:
    """Return why the engine of the job has no node for a label of its tasks; empty if it has one for each. Only this
    party's own users learn which labels there are."""
    engine = known_placement(context, spec, seat).engine or context.engines.default
    known, own = context.engines.labels_of(engine), context.party_id
    if labels_at(spec, seat) <= known:
        return ""
    for task in spec.run_at(seat):
        for label in spec.parameters_of(task, seat).labels:
            if label not in known:
                key = "labels" if task.resources_at(seat).labels is None else f"task_conf.{task.name}.labels"
                why = f"{spec.paths.of(f'{COMMON_PARAMETERS}.{key}')}: {seat} has no node with label {shown(label)}"
                if _initiator(context, spec) != own:
                    return f"{why} for jobs of party {_initiator(context, spec)}"
                names = ", ".join(sorted(known)) or "none"
                return f"{why} on engine {engine}; known there: {names} (engines.{engine}.labels)"
    return ""


def _initiator(context: Context, spec: JobSpec) -> str:
    initiator = spec.initiator.party_id
    return context.party_id if initiator == PARTY_0 else initiator


def nodes_for(context: Context, spec: JobSpec, seat: Party) -> int:
    """Return how many nodes the engine of this seat has; of a seat of another party, how many the default has here."""
    if seat.party_id not in (context.party_id, PARTY_0):
        return context.engines.default_size.nodes
    return context.engines.nodes_of(known_placement(context, spec, seat).engine or context.engines.default)


def request_at(context: Context, spec: JobSpec, seat: Party) -> Request:
    """Return what a seat of a job reserves; of a seat of another party, what it would reserve here."""
    own = _own_parameters(spec, seat)
    return request_of(seat, spec.parameters[seat], nodes_for(context, spec, seat), own)


def request_of_task_at(context: Context, spec: JobSpec, task: TaskSpec, seat: Party, engine: str) -> Request:
    """Return what one task takes for this seat on the engine."""
    return request_of(seat, spec.parameters_of(task, seat), context.engines.nodes_of(engine))


def why_task_not_placed(context: Context, spec: JobSpec, task: TaskSpec, seat: Party) -> str:
    """Return why the queue that a task names is refused: this party does not have it for the initiator, or it leads to
    another engine than that on which the job reserves. Empty if it is not, or if the task names none."""
    word = spec.parameters_of(task, seat).queue
    if word == spec.parameters[seat].queue:
        return ""
    initiator, default = _initiator(context, spec), context.engines.default
    place = spec.paths.of(f"{COMMON_PARAMETERS}.task_conf.{task.name}.queue")
    found, of_job = context.queues.place(word, initiator), known_placement(context, spec, seat)
    if found is None:
        return f"{place}: {seat} has no queue {shown(word)} for jobs of party {initiator}"
    if (found.engine or default) != (of_job.engine or default):
        return (
            f"{place}: queue {shown(word)} of {seat} is on another engine than that on which the job reserves there: "
            "all tasks of a job run on one engine of a party"
        )
    return ""


def queue_of_task(context: Context, spec: JobSpec, task: TaskSpec, seat: Party, engine: str) -> str:
    """Return the queue of the workers of a task in the words of the engine; empty: the one that it has for this."""
    word, place = spec.parameters_of(task, seat).queue, known_placement(context, spec, seat)
    if word != spec.parameters[seat].queue:
        place = context.queues.place(word, _initiator(context, spec)) or place
    return place.queue if (place.engine or context.engines.default) == engine else ""


def engine_for(unit: UnitOfWork, job: Job) -> str:
    """Return the engine on which this seat reserves, whether or not the configuration still has it."""
    return job.asked.engine or unit.context.engines.default


def on_same_engine(unit: UnitOfWork, job: Job, seats: Iterable[Job]) -> list[Job]:
    """Return those seats that reserve on the engine of this one."""
    engine = engine_for(unit, job)
    return [seat for seat in seats if engine_for(unit, seat) == engine]


def most_free_cores(unit: UnitOfWork) -> int:
    """Return how many cores a job can reserve here at most: those of the engine with the most free ones."""
    states = (unit.tx.engine(name) for name in unit.context.engines)
    return max((one.free_cores for one in states if one is not None), default=0)
