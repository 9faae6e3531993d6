"""The elastic workers of a party: its reservations are not for them, and they run while nobody waits for their cores.

Each holds cores and memory of its own, from its order until it has exited; the claim of its job is not touched by them.
They begin where there is capacity that no waiting job has asked for, and are the first to go when one does. What one
holds is what each worker has that shares the reservation of its task, so nothing is said of it in the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fate_flow.core.model.job import Claim, EngineState, Worker
from fate_flow.core.model.program import ProgramSpec
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.resources import Request
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.planning.replicas import newest


def elastic_slots(command: ProgramSpec, ranks: Sequence[int | None]) -> frozenset[int]:
    """Of the slots without a rank those that the reservation is not for: the last ones."""
    without = [slot for slot, rank in enumerate(ranks) if rank is None]
    return frozenset(without[len(without) - command.elastic :])


def part_of_one(request: Request, command: ProgramSpec) -> Claim:
    """What an elastic worker holds; a part of a core is a core."""
    return Claim(-(-request.task_cores // command.min_replicas), -(-request.task_memory // command.min_replicas))


def vacant(command: ProgramSpec, workers: Sequence[Worker]) -> tuple[int, ...]:
    """The elastic slots in which a process may begin when there is capacity for it, in their order.

    `workers`: those of a version that has begun, the ones that are not elastic among them."""
    holders = {worker.slot: worker for worker in newest(workers)}
    if not command.elastic or all(_is_done(worker) for worker in holders.values() if worker.rank is not None):
        return ()
    fixed = {worker.slot for worker in workers if not worker.is_elastic}
    slots = (slot for slot in range(command.replicas) if slot not in fixed)
    return tuple(slot for slot in slots if slot not in holders or _may_follow(command, holders[slot]))


def _is_done(worker: Worker) -> bool:
    return worker.status is WorkerStatus.EXITED and worker.reason is Reason.DONE


def _may_follow(command: ProgramSpec, last: Worker) -> bool:
    """Whether the slot of an elastic worker goes on in another process."""
    if last.status is not WorkerStatus.EXITED:
        return False
    if last.reason is Reason.CORES_LENT:
        return True
    return not command.is_gang and (last.reason is not Reason.DONE or command.restarts_completed)


@dataclass(frozen=True)
class ElasticCount:
    """How the elastic workers of a share stand."""

    most: int            # replicas above the minimum
    running: int         # ordered and not told to go
    lent: int            # their cores went to another job, and there has been no capacity for them since


def count_elastic(command: ProgramSpec, workers: Iterable[Worker]) -> ElasticCount:
    """`workers`: those of the newest version."""
    held = [worker for worker in newest(workers) if worker.is_elastic]
    running = sum(worker.status is not WorkerStatus.EXITED and not worker.is_stopping for worker in held)
    return ElasticCount(command.elastic, running, sum(worker.reason is Reason.CORES_LENT for worker in held))


def shortfall(needed: Claim, engine: EngineState) -> Claim:
    """How much more has to come free before there is as much as is needed; what is not needed is not lacking."""
    cores = max(0, needed.cores - engine.remaining_cores) if needed.cores else 0
    memory = max(0, needed.memory - engine.remaining_memory) if needed.memory else 0
    return Claim(cores, memory)


def overdrawn(engine: EngineState) -> Claim:
    """What is in use beyond what there is, since the configuration has less than it had."""
    return Claim(max(0, -engine.remaining_cores), max(0, -engine.remaining_memory))


def to_lend(blocked_by: Claim, workers: Iterable[Worker]) -> tuple[tuple[Worker, ...], bool]:
    """Which elastic workers have to go so that as much comes back as is lacking, and whether that is enough.

    Who came last goes first, of several the one in the highest slot; what is going already counts."""
    cores, memory = blocked_by.cores, blocked_by.memory
    chosen = []
    for worker in sorted(workers, key=lambda one: (one.is_stopping, one.since, one.slot), reverse=True):
        if worker.is_stopping or (cores > 0 and worker.cores) or (memory > 0 and worker.memory):
            cores, memory = cores - worker.cores, memory - worker.memory
            chosen += [] if worker.is_stopping else [worker]
    return tuple(chosen), cores <= 0 and memory <= 0
