"""Elastic workers (core/planning/elastic.py): started on capacity that no job waits for, and stopped when one does.

This is a local matter of this party: the claims of jobs, and what initiators know of them, do not change. The cores of
an elastic worker come free only in the transaction that stores its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fate_flow.core.model.job import Claim, EngineState, Job, JobKey, Task, TaskKey, Worker
from fate_flow.core.model.program import ProgramSpec
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.planning.elastic import held_by, overdrawn, part_of_one, shortfall, to_lend, vacant
from fate_flow.core.quotas.holding import Held, HoldLimit, Left
from fate_flow.core.text.phrases import counted
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.ending import dismiss
from fate_flow.services.workers.holding import left_for
from fate_flow.services.workers.launching import A_MOMENT, forget_old, launch_later, new_worker
from fate_flow.services.workers.needs import with_devices
from fate_flow.services.workers.placement import asks_of, request_of_task_at

PENDING_LASTS = 8_000
"""How long a request stays pending without being repeated, in ms beyond four pauses (`retry_wait`): the longest time
that an initiator waits after conflicts."""


def oldest_pending(unit: UnitOfWork) -> int:
    """Return the steady time before which requests have expired, unless they were repeated since."""
    return max(0, unit.steady - PENDING_LASTS - 4 * unit.context.rules.retry_wait)


def head_of_pending(unit: UnitOfWork, engine: str) -> Job | None:
    """Return the oldest pending request on this engine whose initiator may hold what it asks for; None if there is
    none.

    Capacity is kept for this one alone: a request beyond the limit of its initiator could not use it."""
    left: dict[str, Left] = {}
    for seat in _pending_on(unit, engine):
        initiator = seat.initiator.party_id
        if initiator not in left:
            left[initiator] = left_for(unit, initiator)
        if left[initiator].admits(seat.asked):
            return seat
    return None


def _pending_on(unit: UnitOfWork, engine: str) -> Iterator[Job]:
    """Yield the pending requests on an engine, the oldest first. Often there is none, so all are read only if the first
    one is not enough."""
    oldest = oldest_pending(unit)
    head = unit.tx.first_pending(oldest)
    if head is None:
        return
    if asks_of(unit, head, engine):
        yield head
    for seat in unit.tx.pending_requests(oldest):
        if seat.key != head.key and asks_of(unit, seat, engine):
            yield seat


# ---------------------------------------------------------------------- starting them


def tend_elastic(unit: UnitOfWork) -> None:
    """Start as many as there is capacity for, in the shares that run here, oldest share first.

    If more of an engine is in use than the configuration has, stop its elastic workers instead."""
    within = {name for name in unit.context.engines if _is_within(unit, unit.tx.engine(name))}
    spare = {name for name in within if _has_spare_capacity(unit, name)}
    if spare:
        shares = (worker.task for worker in unit.tx.unfinished_workers() if worker.engine in spare)
        for key in dict.fromkeys(shares):
            with unit.isolated(f"elastic workers of {key}"):
                _begin(unit, key)


def _is_within(unit: UnitOfWork, engine: EngineState | None) -> bool:
    """Return whether no more of this engine is in use than it has; stop its elastic workers if more is."""
    if engine is None:
        return False
    if overdrawn(engine) == Claim():
        return True
    _lend(unit, to_lend(overdrawn(engine), _elastic_on(unit, engine))[0])
    return False


def _elastic_on(unit: UnitOfWork, engine: EngineState) -> list[Worker]:
    return [worker for worker in unit.tx.elastic_workers() if worker.engine == engine.name]


def begin_elastic(unit: UnitOfWork, key: TaskKey) -> None:
    """Do the same for one share that was just started. A share without elastic workers needs no database access."""
    if _program_of(unit, key) is None:
        return
    workers = unit.tx.workers_of_task(key)
    if workers and _has_spare_capacity(unit, workers[0].engine):
        _begin(unit, key)


def _has_spare_capacity(unit: UnitOfWork, engine: str) -> bool:
    """Return whether no job waits for capacity of this engine, and the party takes reservations."""
    return unit.tx.intake_hold() is None and next(_pending_on(unit, engine), None) is None


def _program_of(unit: UnitOfWork, key: TaskKey) -> tuple[JobSpec, ProgramSpec] | None:
    """Return the job and the program of a share that may have elastic workers; None for any other share."""
    spec = unit.spec(key.job_id)
    command = spec.tasks[key.name].programs.get(key.party) if spec is not None else None
    return (spec, command) if spec is not None and command is not None and command.elastic else None


def _begin(unit: UnitOfWork, key: TaskKey) -> None:
    found = _program_of(unit, key)
    task = unit.tx.task(key) if found is not None else None
    if found is None or task is None or not _goes_on(unit, task):
        return
    spec, command = found
    workers = unit.tx.workers_of_task(key)
    engine = workers[0].engine
    if engine not in unit.context.engines:
        return
    left = _left_for_job(unit, key.job_id, engine)
    part = part_of_one(request_of_task_at(unit.context, spec, spec.tasks[key.name], key.party, engine), command)
    for slot in vacant(command, workers):
        before = max((one for one in workers if one.slot == slot), key=lambda one: one.attempt, default=None)
        worker = with_devices(unit, spec, _next_in(unit, key, engine, slot, before, part))
        if not left.admits(part) or not _is_added(unit, worker):
            return
        left = left.after(part)
        forget_old(unit, worker)
        if before is None or unit.steady - before.since >= A_MOMENT:       # else the poll launches it
            launch_later(unit, worker, task, spec)


def _is_added(unit: UnitOfWork, worker: Worker) -> bool:
    """Add the worker; return whether there was capacity for it."""
    try:
        with unit.part():
            if not unit.tx.add_elastic_worker(worker):
                return False
            # On MySQL, another process may have reserved for the same initiator since; by now the engine is locked.
            held = held_by(worker)
            if not _left_for_job(unit, worker.task.job_id, worker.engine).before(held).admits(held):
                raise _HoldsTooMuch
    except _HoldsTooMuch:
        return False
    return True


class _HoldsTooMuch(Exception):
    """The jobs of the initiator would hold more than they may."""


def _goes_on(unit: UnitOfWork, task: Task) -> bool:
    job = unit.tx.job(JobKey(task.key.job_id, task.key.party))
    is_open = task.party_status in (TaskStatus.WAITING, TaskStatus.RUNNING)
    return is_open and job is not None and job.status is JobStatus.RUNNING


def _next_in(
    unit: UnitOfWork, key: TaskKey, engine: str, slot: int, before: Worker | None, part: Claim
) -> Worker:  # fmt: skip
    worker = new_worker(unit, key, engine, slot, None, before.attempt + 1 if before is not None else 0)
    return replace(worker, is_elastic=True, cores=part.cores, memory=part.memory, gpus=part.gpus)


def _left_for_job(unit: UnitOfWork, job_id: str, engine: str) -> Left:
    """Return how much more of this engine the job may hold."""
    seats, workers = unit.tx.jobs_here(job_id), unit.tx.elastic_workers()
    claimed = sum(seat.claim.by_engine().get(engine, Claim()).cores for seat in seats if seat.holds)
    elastic = sum(one.cores for one in workers if one.task.job_id == job_id and one.engine == engine)
    most = unit.context.engines.size_of(engine).job_limit
    of_job = HoldLimit(Held.CORES, most, most - claimed - elastic, is_granted=False)
    return Left((of_job, *(left_for(unit, seats[0].initiator.party_id).limits if seats else ())))


# ---------------------------------------------------------------------- stopping them


def reclaim_capacity(unit: UnitOfWork, needs: Sequence[tuple[EngineState, Claim]]) -> bool:
    """Stop elastic workers so that what a waiting job needs of each of these engines comes free; return whether that is
    enough.

    If even all of them are not enough on one engine, none is stopped: the job waits for other jobs as well, and asks
    again."""
    chosen, enough = zip(
        *(to_lend(shortfall(needed, engine), _elastic_on(unit, engine)) for engine, needed in needs), strict=True
    )
    if all(enough):
        for workers in chosen:
            _lend(unit, workers)
    return all(enough)


def reclaim_from(unit: UnitOfWork, initiator: str, missing: Claim) -> bool:
    """Stop elastic workers of the jobs of one initiator, so that another job of it may hold so much more; return
    whether that is enough. If all of them are not enough, none is stopped."""
    theirs = [one for one in unit.tx.elastic_workers() if _initiator_of(unit, one) == initiator]
    chosen, is_enough = to_lend(missing, theirs)
    if is_enough:
        _lend(unit, chosen)
    return is_enough


def _initiator_of(unit: UnitOfWork, worker: Worker) -> str:
    seats = unit.tx.jobs_here(worker.task.job_id)
    return seats[0].initiator.party_id if seats else ""


def _lend(unit: UnitOfWork, workers: tuple[Worker, ...]) -> None:
    for worker in workers:
        message = f"its {counted(worker.cores, 'core is', 'cores are')} needed"
        dismiss(unit, worker, Reason.CORES_LENT, message)
        text = f"elastic worker {worker.slot} of {worker.task} goes: {message}"
        unit.note(Event.JOB_NOTE, job_id=worker.task.job_id, text=text)
