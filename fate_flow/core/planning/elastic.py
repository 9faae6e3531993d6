"""The elastic workers of a party: no reservation covers them, and they run while no job waits for their cores.

Each holds cores, memory and GPUs of its own, from the order of its launch until it has exited, beside the claim of its
job. They start on capacity that no waiting job has asked for, and are the first to end when a job asks. An elastic
worker gets as much as each worker that shares the reservation of the task, so a job does not state it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fate_flow.core.model.job import Claim, EngineState, Worker
from fate_flow.core.model.program import ProgramSpec
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.resources import Need, Request
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.planning.replicas import COLLECTOR, newest


def elastic_slots(command: ProgramSpec, ranks: Sequence[int | None]) -> frozenset[int]:
    """Return the slots of elastic workers: the last ones among the slots without a rank."""
    without = [slot for slot, rank in enumerate(ranks) if rank is None]
    return frozenset(without[len(without) - command.elastic :])


def part_of_one(request: Request, command: ProgramSpec) -> Claim:
    """Return what one elastic worker holds, and what each of the others has of the reservation, rounded up."""
    workers = command.min_replicas
    return Claim(
        -(-request.task_cores // workers), -(-request.task_memory // workers), gpus=-(-request.task_gpus // workers)
    )


def held_by(worker: Worker) -> Claim:
    """Return what an elastic worker holds until it has exited; nothing for any other worker."""
    return Claim(worker.cores, worker.memory, gpus=worker.gpus)


def need_of(
    request: Request, command: ProgramSpec | None, worker: Worker, time_limit_seconds: int = 0, queue: str = ""
) -> Need:
    """Return what one worker of a party task needs: its part of what is reserved for the task, or what it holds itself
    if it is elastic. `command`: the program of the task, if it has one; `time_limit_seconds`: 0: none; `queue`: in the
    words of the engine."""
    if command is None or worker.slot == COLLECTOR:       # it is alone when it runs
        gpus = 0 if worker.slot == COLLECTOR else request.task_gpus
        return Need(request.task_cores, request.task_memory, gpus, time_limit_seconds, queue)
    part = held_by(worker) if worker.is_elastic else part_of_one(request, command)
    return Need(part.cores, part.memory, part.gpus, time_limit_seconds, queue)


def vacant(command: ProgramSpec, workers: Sequence[Worker]) -> tuple[int, ...]:
    """Return the elastic slots, in order, in which a process may start if there is capacity.

    `workers`: all workers of a version that has begun, elastic or not."""
    holders = {worker.slot: worker for worker in newest(workers)}
    if not command.elastic or all(_is_done(worker) for worker in holders.values() if worker.rank is not None):
        return ()
    fixed = {worker.slot for worker in workers if not worker.is_elastic}
    slots = (slot for slot in range(command.replicas) if slot not in fixed)
    return tuple(slot for slot in slots if slot not in holders or _may_follow(command, holders[slot]))


def _is_done(worker: Worker) -> bool:
    return worker.status is WorkerStatus.EXITED and worker.reason is Reason.DONE


def _may_follow(command: ProgramSpec, last: Worker) -> bool:
    """Return whether another process may follow in the slot of this elastic worker."""
    if last.status is not WorkerStatus.EXITED:
        return False
    if last.reason in (Reason.CORES_LENT, Reason.NOT_PLACED):
        return True
    return not command.is_gang and (last.reason is not Reason.DONE or command.restarts_completed)


@dataclass(frozen=True)
class ElasticCount:
    """Counts of the elastic workers of a share."""

    most: int            # replicas above the minimum
    running: int         # launch ordered, and not stopped
    lent: int            # ended for another job, without capacity to start again since


def count_elastic(command: ProgramSpec, workers: Iterable[Worker]) -> ElasticCount:
    """Count the elastic workers among `workers`, those of the newest version."""
    held = [worker for worker in newest(workers) if worker.is_elastic]
    running = sum(worker.status is not WorkerStatus.EXITED and not worker.is_stopping for worker in held)
    return ElasticCount(command.elastic, running, sum(worker.reason is Reason.CORES_LENT for worker in held))


def shortfall(needed: Claim, engine: EngineState) -> Claim:
    """Return how much more must come free until the need is covered; 0 of what is not needed."""
    cores = max(0, needed.cores - engine.remaining_cores) if needed.cores else 0
    memory = max(0, needed.memory - engine.remaining_memory) if needed.memory else 0
    gpus = max(0, needed.gpus - engine.remaining_gpus) if needed.gpus else 0
    return Claim(cores, memory, gpus=gpus)


def overdrawn(engine: EngineState) -> Claim:
    """Return by how much the use exceeds the capacity, which happens if the configuration was reduced."""
    return Claim(
        max(0, -engine.remaining_cores), max(0, -engine.remaining_memory), gpus=max(0, -engine.remaining_gpus)
    )


def to_lend(blocked_by: Claim, workers: Iterable[Worker]) -> tuple[tuple[Worker, ...], bool]:
    """Return the elastic workers to stop so that `blocked_by` comes free, and whether they are enough.

    The last ordered goes first, among several the one in the highest slot. Workers that are stopping already count."""
    left = (blocked_by.cores, blocked_by.memory, blocked_by.gpus)
    chosen = []
    for worker in sorted(workers, key=lambda one: (one.is_stopping, one.since, one.slot), reverse=True):
        held = (worker.cores, worker.memory, worker.gpus)
        if worker.is_stopping or any(missing > 0 and one for missing, one in zip(left, held, strict=True)):
            left = (left[0] - held[0], left[1] - held[1], left[2] - held[2])
            chosen += [] if worker.is_stopping else [worker]
    return tuple(chosen), max(left) <= 0
