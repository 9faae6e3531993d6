"""The workers of one party task: their ranks, and what follows when one of them ends.

A *slot* is a place for a worker; a replaced worker keeps slot and rank. A party task is a gang unless it states how
many failed workers may be replaced. In a gang, one bad end breaks the party task, and the initiator begins a new
version at all parties. A spare worker has a slot and no rank; its end has no effect. In the next version it takes the
rank of a worker that ended badly, which becomes the spare. All other workers keep slot and rank in every version.

An *elastic* worker also has a slot and no rank. It has cores of its own, as long as no job waits for them. In a gang it
is like a spare worker; elsewhere it is replaced like the others, if there is capacity.

When all ranks are done and their outputs are to be kept, one more worker collects them: the *collector*, code of
ours in a slot that the program does not use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fate_flow.core.model.job import Report, Worker
from fate_flow.core.model.program import MOST_INTERRUPTED, ProgramSpec
from fate_flow.core.model.reasons import RULES, Reason
from fate_flow.core.model.retry import RetryEvent
from fate_flow.core.model.status import TASK_BROKEN, WorkerStatus
from fate_flow.core.text.phrases import counted

COLLECTOR = -1
"""The slot of the collector."""
KEPT_ATTEMPTS = 10
"""How many processes of a slot keep their output and working folder, including the present one."""

_NO_FAILURE = (RetryEvent.INTERRUPTION, RetryEvent.NO_CAPACITY)      # of the program
_NOBODYS_FAULT = (Reason.DONE, Reason.STOPPED, Reason.CORES_LENT)


@dataclass(frozen=True)
class ShareFailed:
    """The share fails with the end of this worker."""

    worker: Worker
    why_not_replaced: str = ""


@dataclass(frozen=True)
class Replace:
    """Start new processes in the slots of these workers."""

    workers: tuple[Worker, ...]


@dataclass(frozen=True)
class Dismiss:
    """All ranks are done: stop these workers, which are no longer needed."""

    workers: tuple[Worker, ...]


@dataclass(frozen=True)
class Done:
    """All ranks ended well, and nothing runs."""


@dataclass(frozen=True)
class Collect:
    """All ranks ended well: start the collector of their outputs."""


Step = ShareFailed | Replace | Dismiss | Collect | Done | None
"""None: nothing to do until a worker ends."""


def next_step(command: ProgramSpec, workers: Sequence[Worker]) -> Step:
    """Return what follows from the states of the workers of a version; the same for the same states."""
    present = newest(workers)
    ranked = [worker for worker in present if worker.rank is not None]
    broken = _failure(command, workers, ranked if command.is_gang else present)
    if broken is not None:
        return broken
    ended = tuple(worker for worker in ranked if worker.status is WorkerStatus.EXITED)
    again = tuple(one for one in ended if one.reason is not Reason.DONE or command.restarts_completed)
    if again:
        return Replace(again)
    if len(ended) < len(ranked):
        return None
    running = tuple(worker for worker in present if worker.status is not WorkerStatus.EXITED)
    if running:
        return Dismiss(running) if any(not worker.is_stopping for worker in running) else None
    return _collect(workers) if command.outputs else Done()


def _collect(workers: Iterable[Worker]) -> Step:
    collector = next((worker for worker in workers if worker.slot == COLLECTOR), None)
    if collector is None:
        return Collect()
    if collector.status is not WorkerStatus.EXITED:
        return None
    return Done() if collector.reason is Reason.DONE else ShareFailed(collector)


def _failure(command: ProgramSpec, workers: Sequence[Worker], that_count: Sequence[Worker]) -> ShareFailed | None:
    worker = max((one for one in that_count if ended_badly(one)), key=lambda one: one.end_time, default=None)
    if worker is None:
        return None
    if command.is_gang:
        return ShareFailed(worker)
    # The share cannot begin as it was to: its job goes back to the queue. One that is replaced waits once more instead,
    # because the others would lose what they have done.
    never = (one for one in that_count if _has_no_place(one) and not one.attempt and not one.is_elastic)
    if unplaced := next(never, None):
        return ShareFailed(unplaced)
    failed_workers = [one for one in workers if one.slot != COLLECTOR and ended_badly(one)]
    failed = failed_of(failed_workers)
    interrupted = len(failed_workers) - failed
    if failed > command.max_failed:
        return ShareFailed(worker, f"{counted(failed, 'worker')} failed, max_failed_workers is {command.max_failed}")
    if interrupted > MOST_INTERRUPTED:
        were = counted(interrupted, "worker was", "workers were")
        return ShareFailed(worker, f"{were} interrupted, {MOST_INTERRUPTED} are replaced")
    return None


def beyond_keeping(workers: Iterable[Worker], newest_one: Worker) -> tuple[Worker, ...]:
    """Return the workers of its slot whose output is no longer kept once this one has been ordered.

    Only the last few of them: the outputs of earlier ones were removed before."""
    youngest = newest_one.attempt - KEPT_ATTEMPTS
    every = (one for one in workers if one.slot == newest_one.slot and one.status is WorkerStatus.EXITED)
    return tuple(one for one in every if youngest - KEPT_ATTEMPTS < one.attempt <= youngest)


def ended_badly(worker: Worker) -> bool:
    """Return whether the worker ended badly by itself, not because it was stopped. An elastic one that found no place
    has given way, as one that lends its cores."""
    is_at_fault = worker.reason not in _NOBODYS_FAULT and not (worker.is_elastic and _has_no_place(worker))
    return worker.status is WorkerStatus.EXITED and is_at_fault


def _has_no_place(worker: Worker) -> bool:
    return worker.status is WorkerStatus.EXITED and worker.reason is Reason.NOT_PLACED


def failed_of(workers: Iterable[Worker]) -> int:
    """Return how many workers failed, without those that were interrupted or found no place: it is not their fault."""
    return sum(ended_badly(one) and not _is_interrupted(one) for one in workers)


def failures_in(report: Report) -> int:
    """Return the failed workers that a party's report states. A party that does not count them has one if its share
    failed by its own fault, which an interruption is not."""
    if report.failed_workers or report.status not in TASK_BROKEN:
        return report.failed_workers
    event = RULES[report.reason].retry_event if report.reason else RetryEvent.ERROR
    return int(event is not None and event not in _NO_FAILURE)


def _is_interrupted(worker: Worker) -> bool:
    return worker.reason is not None and RULES[worker.reason].retry_event in _NO_FAILURE


def newest(workers: Iterable[Worker]) -> list[Worker]:
    """Return the newest worker of each slot of the program, in the order of the slots."""
    holders: dict[int, Worker] = {}
    for worker in workers:
        if worker.slot == COLLECTOR:
            continue
        known = holders.get(worker.slot)
        if known is None or known.attempt < worker.attempt:
            holders[worker.slot] = worker
    return [holders[slot] for slot in sorted(holders)]


def ranks(command: ProgramSpec, before: Iterable[Worker] = ()) -> tuple[int | None, ...]:
    """Return the rank of each slot, None for a spare one; `before` are the workers of the previous version."""
    found: list[int | None] = [slot if slot < command.size else None for slot in range(command.replicas)]
    holders = {worker.slot: worker for worker in newest(before)}
    if not command.is_gang or sum(worker.rank is not None for worker in holders.values()) != command.size:
        return tuple(found)
    found = [holders[slot].rank if slot in holders else None for slot in range(command.replicas)]
    ended = {slot for slot, worker in holders.items() if ended_badly(worker)}
    spares = [slot for slot, rank in enumerate(found) if rank is None and slot not in ended]
    failed_workers = [slot for slot, rank in enumerate(found) if rank is not None and slot in ended]
    for lost, spare in zip(failed_workers, spares, strict=False):
        found[lost], found[spare] = None, found[lost]
    return tuple(found)


def describe(worker: Worker, command: ProgramSpec) -> str:
    """Return text that names the worker; empty if the party task has only one."""
    if worker.is_elastic:
        return f"elastic worker {worker.slot}: "
    return f"rank {worker.rank}: " if command.replicas > 1 and worker.rank is not None else ""


