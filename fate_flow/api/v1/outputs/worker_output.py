"""What the workers of a task have printed at this party: pieces of files, by byte offset."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fate_flow.components.base.regular_file import NoRegularFile, open_regular
from fate_flow.core.model.errors import NotFound
from fate_flow.core.model.job import TaskKey, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.planning.replicas import COLLECTOR, KEPT_ATTEMPTS
from fate_flow.core.wire.v1.queries import (
    MOST_LISTED,
    WORKERS,
    ListedWorker,
    ListedWorkers,
    TaskLogQuery,
    listed_data,
)
from fate_flow.services.context.ports import Context, why_absent
from fate_flow.store.contract.transaction import Transaction


@dataclass(frozen=True)
class Printed:
    """One of the two files of a worker, and the workers among which it was found."""

    path: Path
    worker: Worker
    attempts: tuple[Worker, ...]         # all processes in the same slot, oldest first
    every: tuple[Worker, ...]            # of all versions of the task here


class WorkerOutput:
    """Reads what workers have printed here."""

    def __init__(self, context: Context) -> None:
        self._context, self._engines = context, context.engines

    def find(self, query: TaskLogQuery, *, alone: bool = False) -> Printed:
        """Return the file that a query means. `alone`: if the query names version and worker, only the processes of
        that worker are read, and `every` has only those. Raise NotFound."""
        job_id, name, party = query.job_id, query.component, query.party
        is_named = alone and query.version is not None and query.worker is not None
        every = self._context.read(lambda tx: _of_slot(tx, query) if is_named else _workers(tx, job_id, name, party))
        attempts = _attempts(_of_version(every, query), query)
        worker = _chosen(attempts, query)
        slot, printed = worker.slot, self._engines.of(worker).printed(worker)
        if worker.engine not in self._engines:
            why = why_absent(worker.engine, self._context.read(lambda tx: tx.engine(worker.engine)))
            raise NotFound(f"the output of worker {slot} of {name} on {party} cannot be read: {why}")
        if printed is None:
            raise NotFound(
                f"attempt {worker.attempt} of worker {slot} of {name} on {party} has not begun, or its folder was "
                f"removed (retention, or {KEPT_ATTEMPTS} newer attempts)"
            )
        return Printed(printed[query.stream], worker, tuple(attempts), tuple(every))

    def read(self, query: TaskLogQuery) -> Mapping[str, Any]:
        """Return a piece of the file that a query means, with its worker, as `task/log` answers. Raise NotFound."""
        return self._read(self.find(query), query)

    def read_with_usage(self, query: TaskLogQuery) -> Mapping[str, Any]:
        """Return the same with what the worker has used, which is for this party alone. Raise NotFound."""
        found = self.find(query)
        used = self._engines.of(found.worker).used(found.worker)
        last = used.last if used is not None else None
        usage = None if used is None or last is None else {
            "seconds": last.seconds, "processor_seconds": last.processor_seconds, "peak_mb": used.peak_mb,
            "has_ended": used.end is not None, "samples": [astuple(one) for one in used.samples],
        }  # fmt: skip
        return {**self._read(found, query), "usage": usage}

    def _read(self, found: Printed, query: TaskLogQuery) -> Mapping[str, Any]:
        worker, party = found.worker, query.party
        offset = -1 if query.offset is None else query.offset
        text, next_offset, total = piece_of(found.path, query.size, offset)
        behind = query.workers_from
        listed = {} if behind is None else {WORKERS: listed_data(_listed(found.every, worker.task.version, behind))}
        return {
            **listed,
            "job_id": query.job_id, "component_name": query.component, "role": party.role, "party_id": party.party_id,
            "task_version": worker.task.version, "worker": worker.slot, "rank": worker.rank, "attempt": worker.attempt,
            "status": worker.status.value, "reason": worker.reason.value if worker.reason else None,
            "message": worker.message, "exit_status": worker.exit_status, "caused_by": worker.caused_by or None,
            "stream": query.stream, "bytes": total, "text": text,
            "attempts": [self._attempt(one) for one in found.attempts[-KEPT_ATTEMPTS:]],
            "next_offset": next_offset, "versions": _versions(found.every),
        }  # fmt: skip

    def _attempt(self, worker: Worker) -> dict[str, Any]:
        return {
            "attempt": worker.attempt, "status": worker.status.value,
            "reason": worker.reason.value if worker.reason else None, "message": worker.message,
            "exit_status": worker.exit_status, "is_kept": self._engines.of(worker).printed(worker) is not None,
        }  # fmt: skip


def _workers(tx: Transaction, job_id: str, name: str, party: Party) -> list[Worker]:
    """Return the workers of all versions. Raise NotFound."""
    found = [one for one in tx.workers_of(job_id) if one.task.name == name and one.task.party == party]
    if not found:
        raise NotFound(f"{name} of job {job_id} has no worker on {party}")
    return [one for one in found if one.slot != COLLECTOR]


def _of_slot(tx: Transaction, query: TaskLogQuery) -> list[Worker]:
    """Return the processes of one worker of a version. Raise NotFound."""
    key = TaskKey(query.job_id, query.component, query.version or 0, query.party)
    found = [one for one in tx.workers_of_task(key, query.worker) if one.slot != COLLECTOR]
    if not found:
        raise NotFound(f"worker: attempt {key.version + 1} of {key.name} on {key.party} has no worker {query.worker}")
    return found


def _listed(workers: Iterable[Worker], version: int, first: int) -> ListedWorkers:
    """Return the newest process of each worker of a version, from a number on."""
    newest = dict[int, Worker]()
    for one in workers:
        if one.task.version == version and (one.slot not in newest or newest[one.slot].attempt < one.attempt):
            newest[one.slot] = one
    slots = sorted(slot for slot in newest if slot >= first)
    shown, rest = slots[:MOST_LISTED], slots[MOST_LISTED:]
    return ListedWorkers(tuple(_as_listed(newest[slot]) for slot in shown), len(newest), rest[0] if rest else None)


def _as_listed(one: Worker) -> ListedWorker:
    return ListedWorker(
        one.slot, one.rank, one.attempt, one.status, one.reason.value if one.reason else "", one.message,
        one.exit_status, one.start_time, one.end_time,
    )  # fmt: skip


def _versions(workers: Iterable[Worker]) -> list[dict[str, Any]]:
    """Return each version with workers here, and the reason of its first worker that failed."""
    found: dict[int, str | None] = {}
    for worker in sorted(workers, key=lambda one: (one.task.version, one.end_time)):
        ended_badly = worker.reason is not None and worker.reason is not Reason.DONE
        reason = worker.reason.value if ended_badly and worker.reason else None
        found[worker.task.version] = found.get(worker.task.version) or reason
    return [{"task_version": version, "reason": reason} for version, reason in found.items()]


def _of_version(workers: list[Worker], query: TaskLogQuery) -> list[Worker]:
    """Return the workers of one version, by default the newest. Raise NotFound."""
    newest = max((one.task.version for one in workers), default=0)
    version = newest if query.version is None else query.version
    chosen = [one for one in workers if one.task.version == version]
    if not chosen:
        whose = f"{query.component} of job {query.job_id}"
        raise NotFound(f"task_version: {whose} has no worker of version {version} on {query.party}")
    return chosen


def _attempts(workers: list[Worker], query: TaskLogQuery) -> list[Worker]:
    """Return all processes of the requested worker, oldest first. Raise NotFound."""
    slots = sorted({worker.slot for worker in workers})
    slot = slots[0] if query.worker is None else query.worker
    if slot not in slots:
        whose = f"{query.component} on {query.party}"
        raise NotFound(f"worker: {whose} has no worker {slot}; it has {slots[0]} to {slots[-1]}")
    return sorted((one for one in workers if one.slot == slot), key=lambda one: one.attempt)


def _chosen(attempts: list[Worker], query: TaskLogQuery) -> Worker:
    """Return the requested attempt, by default the newest. Raise NotFound."""
    newest = attempts[-1]
    wanted = newest.attempt if query.attempt is None else query.attempt
    found = next((one for one in attempts if one.attempt == wanted), None)
    if found is None:
        has = f"it has {attempts[0].attempt} to {newest.attempt}"
        whose = f"{query.component} on {query.party}"
        raise NotFound(f"attempt: worker {newest.slot} of {whose} has no attempt {wanted}; {has}")
    return found


def piece_of(path: Path, size: int, offset: int) -> tuple[str, int, int]:
    """Return a piece of a file as text, the offset of the next piece, and the size of the file in bytes.

    The piece begins at the offset; if the offset is negative, it is the end of the file. A missing file has no text,
    nor has what a program put in its place. An incomplete character at the end belongs to the next piece."""
    file = opened(path)
    if file is None:
        return "", max(0, offset), 0
    with file:
        total = file.seek(0, 2)
        start = min(total, offset) if offset >= 0 else max(0, total - size)
        file.seek(start)
        piece = file.read(size)
    if offset >= 0:
        decoder = getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(piece)
        return text, start + len(piece) - len(decoder.getstate()[0]), total
    return piece.decode("utf-8", "replace"), start + len(piece), total


def bytes_of(path: Path, size: int, offset: int) -> tuple[bytes, int]:
    """Return the bytes of a piece of a file from the offset on, and the size of the file; see `piece_of`."""
    file = opened(path)
    if file is None:
        return b"", 0
    with file:
        total = file.seek(0, 2)
        if offset >= total:
            return b"", total
        file.seek(offset)
        return file.read(size), total


def opened(path: Path) -> BinaryIO | None:
    """Open a file of a worker; None if it is missing, or if a program has put something else in its place."""
    try:
        return open_regular(path)
    except NoRegularFile:
        return None
