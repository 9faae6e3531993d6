"""Rows of other parties that each process looks at often and that change rarely."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fate_flow.services.context.recent import FRESH_SECONDS, Recent
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.sql.store import SqlStore

T = TypeVar("T")


def recent_rows(
    store: SqlStore, query: Callable[[Transaction], T], passed: Callable[[], float],
    fresh_seconds: float = FRESH_SECONDS,
) -> Recent[T]:  # fmt: skip
    """Return what a query finds, asked at most once in `fresh_seconds`. `passed` returns seconds from any moment on."""

    def fetch() -> T:
        had_no_connection = store.database.is_closed()
        try:
            with store.reading() as tx:
                return query(tx)
        finally:
            if had_no_connection:        # a thread that sends has no other use for one
                store.close_unless_kept()

    return Recent(fetch, passed, fresh_seconds)
