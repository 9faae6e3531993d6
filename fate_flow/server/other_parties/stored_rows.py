"""Rows of other parties that each process looks at often and that change rarely."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from fate_flow.core.model.errors import FlowError
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.sql.store import SqlStore

T = TypeVar("T")

_FRESH_SECONDS = 1.0         # a change counts after this time at the latest


class StoredRows(Generic[T]):
    """What a query returns, read at most once a second; may be shared by threads.

    `passed` returns seconds from any moment on."""

    def __init__(self, store: SqlStore, query: Callable[[Transaction], T], passed: Callable[[], float]) -> None:
        self._store = store
        self._query = query
        self._passed = passed
        self._lock = threading.Lock()
        self._known: tuple[T, float] | None = None

    def read(self) -> T:
        """Return the rows; the last known ones while the database is away. Raises StorageFailed if there are none."""
        with self._lock:
            if self._known is None or not 0 <= self._passed() - self._known[1] < _FRESH_SECONDS:
                try:
                    rows = self._fresh()
                except FlowError:
                    if self._known is None:
                        raise
                    rows = self._known[0]
                self._known = (rows, self._passed())
            return self._known[0]

    def _fresh(self) -> T:
        had_no_connection = self._store.database.is_closed()
        try:
            with self._store.reading() as tx:
                return self._query(tx)
        finally:
            if had_no_connection:        # a thread that sends has no other use for one
                self._store.close()
