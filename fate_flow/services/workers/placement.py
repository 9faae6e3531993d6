"""On which engine of this party a job reserves, and its workers run."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.access.authority import PARTY_0
from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.job import Claim, Job
from fate_flow.core.model.resources import Request, request_of
from fate_flow.core.model.spec import AS_THE_JOB, JobParameters, JobSpec, Party, TaskSpec
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
    or lacks the GPUs or the nodes that tasks of the job ask for. If no engine has all that its tasks ask for, it goes
    where it would without them, and tasks that lack something there go elsewhere (`placement_of_task`)."""
    parameters, initiator = spec.parameters[seat], _initiator(context, spec)
    found = context.queues.place(parameters.queue, initiator) or Placement()
    if found.engine:
        return found
    open_ones = _open_to(context, initiator)
    # a task that states a queue goes there, whatever else it asks for
    asking = [one for one in _own_parameters(spec, seat) if not one.queue] if _own_tasks(spec, seat) else [parameters]
    labels = frozenset(label for one in asking for label in one.labels)
    labels = labels if labels and spec.run_at(seat) else frozenset()
    fitting = (name for name in open_ones if _has(context, name, labels, any(one.task_gpus for one in asking)))
    return Placement(_default_as_empty(context, next(fitting, next(iter(open_ones), ""))), found.queue)


def placement_of_task(context: Context, spec: JobSpec, task: TaskSpec, seat: Party) -> Placement | None:
    """Return where the workers of a task go: where its job does, unless the task states a queue of another engine, or
    states none and asks for GPUs or nodes that the engine of the job lacks; None if this party does not have the
    queue."""
    return _placement_beside(context, spec, task, seat, known_placement(context, spec, seat))


def _placement_beside(
    context: Context, spec: JobSpec, task: TaskSpec, seat: Party, of_job: Placement
) -> Placement | None:  # fmt: skip
    own = spec.parameters_of(task, seat)
    if task.resources_at(seat) == AS_THE_JOB or (own.queue and own.queue == spec.parameters[seat].queue):
        return of_job
    initiator = _initiator(context, spec)
    found = context.queues.place(own.queue, initiator)
    if found is None or found.engine:      # without a word: the queue that the party has for jobs of this initiator
        return found
    here, asked = of_job.engine or context.engines.default, (frozenset(own.labels), bool(own.task_gpus))
    open_ones = _open_to(context, initiator)
    if here in open_ones and _has(context, here, *asked):
        return of_job if not spec.parameters[seat].queue else Placement(of_job.engine)
    fitting = (name for name in open_ones if _has(context, name, *asked))
    return Placement(_default_as_empty(context, next(fitting, here)))


def _has(context: Context, engine: str, labels: frozenset[str], asks_for_gpus: bool) -> bool:
    """Return whether the engine has nodes with all these labels, and GPUs if some are asked for."""
    has_gpus = context.engines.size_of(engine).gpus > 0
    return labels <= context.engines.labels_of(engine) and (has_gpus or not asks_for_gpus)


def _default_as_empty(context: Context, engine: str) -> str:
    return "" if engine == context.engines.default else engine


def _engine_beside(context: Context, spec: JobSpec, task: TaskSpec, seat: Party, of_job: Placement) -> str:
    found = _placement_beside(context, spec, task, seat, of_job) or of_job
    return found.engine or context.engines.default


def _own_parameters(spec: JobSpec, seat: Party) -> tuple[JobParameters, ...]:
    """Return the parameters of each of `_own_tasks`."""
    return tuple(spec.parameters_of(task, seat) for task in _own_tasks(spec, seat))


def _own_tasks(spec: JobSpec, seat: Party) -> tuple[TaskSpec, ...]:
    """Return the tasks that run at this seat; none if no task states resources of its own. This is asked for at each
    start of a worker, and a job may have thousands of tasks."""
    return spec.run_at(seat) if spec.has_own_resources(seat) else ()


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
    """Return why the engine of a task has no node for a label of it; empty if each has one. Only this party's own users
    learn which labels there are."""
    of_job = known_placement(context, spec, seat)
    here = context.engines.labels_of(of_job.engine or context.engines.default)
    if not spec.has_own_resources(seat) and here.issuperset(spec.parameters[seat].labels):
        return ""
    for task in spec.run_at(seat):
        engine = _engine_beside(context, spec, task, seat, of_job)
        known = context.engines.labels_of(engine)
        for label in spec.parameters_of(task, seat).labels:
            if label not in known:
                key = "labels" if task.resources_at(seat).labels is None else f"task_conf.{task.name}.labels"
                why = f"{spec.paths.of(f'{COMMON_PARAMETERS}.{key}')}: {seat} has no node with label {shown(label)}"
                if _initiator(context, spec) != context.party_id:
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
    """Return what a seat of a job reserves, on all engines together; of a seat of another party, what it would reserve
    here."""
    of_job, *others = requests_at(context, spec, seat).values()
    return replace(
        of_job, cores=of_job.cores + sum(one.cores for one in others),
        memory=of_job.memory + sum(one.memory for one in others), gpus=of_job.gpus + sum(one.gpus for one in others),
    )  # fmt: skip


def requests_at(context: Context, spec: JobSpec, seat: Party) -> dict[str, Request]:
    """Return what a seat of a job reserves on each engine where tasks of it run: that of the job first."""
    place, parameters = known_placement(context, spec, seat), spec.parameters[seat]
    of_job = place.engine or context.engines.default
    there: dict[str, list[JobParameters]] = {of_job: []}
    for task in _own_tasks(spec, seat):
        engine = _engine_beside(context, spec, task, seat, place)
        there.setdefault(engine, []).append(spec.parameters_of(task, seat))
    if len(there) == 1:
        return {of_job: request_of(seat, parameters, nodes_for(context, spec, seat), there[of_job])}
    return {
        engine: request_of(seat, parameters, context.engines.nodes_of(engine), own, is_exact=True)
        for engine, own in there.items()
    }  # fmt: skip


def request_of_task_at(context: Context, spec: JobSpec, task: TaskSpec, seat: Party, engine: str) -> Request:
    """Return what one task takes for this seat on the engine."""
    return request_of(seat, spec.parameters_of(task, seat), context.engines.nodes_of(engine))


def why_task_not_placed(context: Context, spec: JobSpec, task: TaskSpec, seat: Party) -> str:
    """Return why the queue that a task names is refused: this party does not have it for the initiator. Empty if it is
    not, or if the task names none."""
    if placement_of_task(context, spec, task, seat) is not None:
        return ""
    word, initiator = spec.parameters_of(task, seat).queue, _initiator(context, spec)
    place = spec.paths.of(f"{COMMON_PARAMETERS}.task_conf.{task.name}.queue")
    return f"{place}: {seat} has no queue {shown(word)} for jobs of party {initiator}"


def queue_of_task(context: Context, spec: JobSpec, task: TaskSpec, seat: Party, engine: str) -> str:
    """Return the queue of the workers of a task in the words of the engine; empty: the one that it has for this."""
    place = placement_of_task(context, spec, task, seat) or known_placement(context, spec, seat)
    return place.queue if (place.engine or context.engines.default) == engine else ""


def engine_beside(context: Context, spec: JobSpec, task: TaskSpec, seat: Party) -> str:
    """Return the engine of a task that does not go to that of its job; empty if it does."""
    found, of_job = placement_of_task(context, spec, task, seat), known_placement(context, spec, seat)
    if found is None or found.engine == of_job.engine:
        return ""
    return found.engine or context.engines.default


def engine_for(unit: UnitOfWork, job: Job) -> str:
    """Return the engine on which this seat reserves, whether or not the configuration still has it."""
    return job.asked.engine or unit.context.engines.default


def asked_by_engine(unit: UnitOfWork, job: Job) -> dict[str, Claim]:
    """Return what this seat asks of each engine: of that of the job first. An engine of which it asks nothing is left
    out, unless there is no other."""
    asked = job.asked.by_engine(unit.context.engines.default)
    return {engine: claim for engine, claim in asked.items() if claim != Claim()} or asked


def asks_of(unit: UnitOfWork, job: Job, engine: str) -> bool:
    """Return whether this seat reserves on the engine."""
    return engine in asked_by_engine(unit, job)


def most_free_cores(unit: UnitOfWork) -> int:
    """Return how many cores a job can reserve here at most: those of the engine with the most free ones."""
    states = (unit.tx.engine(name) for name in unit.context.engines)
    return max((one.free_cores for one in states if one is not None), default=0)
