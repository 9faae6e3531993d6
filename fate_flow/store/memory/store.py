"""The store in memory, for unit tests and the simulation; the counterpart of `sql/`.

Transactions of several threads run one after the other, as on SQLite. Uniqueness and the CHECKs of `sql/migrations`
also hold here, and bodies and documents are converted to JSON and back, so that values that a database would refuse
are refused here, too.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from fate_flow.store.memory.bindings import Bindings
from fate_flow.store.memory.models import Models
from fate_flow.store.memory.old_jobs import OldJobs
from fate_flow.store.memory.outbox import Notifications, Outbox
from fate_flow.store.memory.party_keys import KeysOfParties
from fate_flow.store.memory.peers import Peers
from fate_flow.store.memory.permissions import Permissions
from fate_flow.store.memory.queue import Queue
from fate_flow.store.memory.record import Record, Segments, Witnessed
from fate_flow.store.memory.results import Results
from fate_flow.store.memory.seats import Seats
from fate_flow.store.memory.submissions import Submissions
from fate_flow.store.memory.tables import Rows
from fate_flow.store.memory.tasks import Tasks
from fate_flow.store.memory.workers import Workers


class MemoryStore:
    """The rows of one party; they end with the process."""

    def __init__(self) -> None:
        self._rows = Rows()
        self._lock = threading.RLock()

    def transaction(self) -> AbstractContextManager[MemoryTransaction]:
        return _Writing(self._rows, self._lock)

    def reading(self) -> AbstractContextManager[MemoryTransaction]:
        return _Reading(self._rows, self._lock)

    snapshot = reading


class MemoryTransaction(
    Workers, Tasks, Seats, Queue, OldJobs, Bindings, Permissions, KeysOfParties, Outbox,
    Peers, Record, Segments, Witnessed, Submissions, Results, Models, Notifications,
):  # fmt: skip
    """One unit of work. `contract.Transaction` documents the methods."""


class _Reading:
    """A transaction that only reads, alone with the rows."""

    def __init__(self, rows: Rows, lock: threading.RLock) -> None:
        self._rows = rows
        self._lock = lock

    def __enter__(self) -> MemoryTransaction:
        self._lock.acquire()
        return MemoryTransaction(self._rows)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._lock.release()


class _Writing(_Reading):
    """A transaction: if it raises, its writes are undone."""

    def __enter__(self) -> MemoryTransaction:
        tx = super().__enter__()
        self._begin = self._rows.journal.begin()
        return tx

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._rows.journal.end(self._begin, kind is not None)
        finally:
            self._lock.release()
