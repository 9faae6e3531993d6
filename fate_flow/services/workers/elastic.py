"""Elastic workers (core/planning/elastic.py): started on capacity that no job waits for, and stopped when one does.

This is a local matter of this party: the claims of jobs, and what initiators know of them, do not change. The cores of
an elastic worker come free only in the transaction that stores its end.
"""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.job import Claim, JobKey, Task, TaskKey, Worker
from fate_flow.core.model.program import ProgramSpec
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.resources import request_of
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.planning.elastic import overdrawn, part_of_one, shortfall, to_lend, vacant
from fate_flow.core.text.phrases import counted
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.ending import dismiss
from fate_flow.services.workers.launching import A_MOMENT, forget_old, launch_later, new_worker

PENDING_LASTS = 8_000
"""How long a request stays pending without being repeated, in ms beyond four pauses (`retry_wait`): the longest time
that an initiator waits after conflicts."""


def oldest_pending(unit: UnitOfWork) -> int:
    """Return the steady time before which requests have expired, unless they were repeated since."""
    return max(0, unit.steady - PENDING_LASTS - 4 * unit.context.rules.retry_wait)


# ---------------------------------------------------------------------- starting them


def tend_elastic(unit: UnitOfWork) -> None:
    """Start as many as there is capacity for, in the shares that run here, oldest share first.

    If more is in use than the configuration has, stop elastic workers instead."""
    engine = unit.tx.engine()
    if engine is None:
        return
    if overdrawn(engine) != Claim():
        _lend(unit, to_lend(overdrawn(engine), unit.tx.elastic_workers())[0])
    elif _has_spare_capacity(unit):
        for key in dict.fromkeys(worker.task for worker in unit.tx.unfinished_workers()):
            with unit.isolated(f"elastic workers of {key}"):
                _begin(unit, key)


def begin_elastic(unit: UnitOfWork, key: TaskKey) -> None:
    """Do the same for one share that was just started. A share without elastic workers needs no database access."""
    if _program_of(unit, key) is not None and unit.tx.engine() is not None and _has_spare_capacity(unit):
        _begin(unit, key)


def _has_spare_capacity(unit: UnitOfWork) -> bool:
    """Return whether no job waits for capacity here, and the party takes reservations."""
    return unit.tx.intake_hold() is None and unit.tx.first_pending(oldest_pending(unit)) is None


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
    workers, left = unit.tx.workers_of_task(key), _may_still_hold(unit, key.job_id)
    part = part_of_one(request_of(key.party, spec.parameters[key.party], unit.context.engine_size.nodes), command)
    for slot in vacant(command, workers):
        before = max((one for one in workers if one.slot == slot), key=lambda one: one.attempt, default=None)
        worker = _next_in(unit, key, slot, before, part)
        if part.cores > left or not unit.tx.add_elastic_worker(worker):
            return
        left -= part.cores
        forget_old(unit, worker)
        if before is None or unit.steady - before.since >= A_MOMENT:       # else the poll launches it
            launch_later(unit, worker, task, spec)


def _goes_on(unit: UnitOfWork, task: Task) -> bool:
    job = unit.tx.job(JobKey(task.key.job_id, task.key.party))
    is_open = task.party_status in (TaskStatus.WAITING, TaskStatus.RUNNING)
    return is_open and job is not None and job.status is JobStatus.RUNNING


def _next_in(unit: UnitOfWork, key: TaskKey, slot: int, before: Worker | None, part: Claim) -> Worker:
    worker = new_worker(unit, key, slot, None, before.attempt + 1 if before is not None else 0)
    return replace(worker, is_elastic=True, cores=part.cores, memory=part.memory)


def _may_still_hold(unit: UnitOfWork, job_id: str) -> int:
    """Return how many more cores the job may hold here."""
    claimed = sum(seat.claim.cores for seat in unit.tx.jobs_here(job_id) if seat.holds)
    elastic = sum(worker.cores for worker in unit.tx.elastic_workers() if worker.task.job_id == job_id)
    return unit.context.engine_size.job_limit - claimed - elastic


# ---------------------------------------------------------------------- stopping them


def reclaim_capacity(unit: UnitOfWork, needed: Claim) -> bool:
    """Stop elastic workers so that `needed` comes free for a waiting job; return whether that is enough.

    If even all of them are not enough, none is stopped: the job waits for other jobs as well, and asks again."""
    engine = unit.tx.engine()
    if engine is None:
        return False
    chosen, is_enough = to_lend(shortfall(needed, engine), unit.tx.elastic_workers())
    if is_enough:
        _lend(unit, chosen)
    return is_enough


def _lend(unit: UnitOfWork, workers: tuple[Worker, ...]) -> None:
    for worker in workers:
        message = f"its {counted(worker.cores, 'core is', 'cores are')} needed"
        dismiss(unit, worker, Reason.CORES_LENT, message)
        text = f"elastic worker {worker.slot} of {worker.task} goes: {message}"
        unit.note(Event.JOB_NOTE, job_id=worker.task.job_id, text=text)
