"""What all queries of the API and the board share: each reads one snapshot, takes no lock, and may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from peewee import Database

from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.database.models import JobRow
from fate_flow.store.database.refusals import reading_refused
from fate_flow.store.segment_files import SegmentFiles
from fate_flow.store.sql.store import SqlTransaction

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V", bound="ReadOnly")


def read_again(query: Callable[Concatenate[V, P], T]) -> Callable[Concatenate[V, P], T]:
    """Let `Retry` repeat a read."""

    @wraps(query)
    def asked(views: V, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return views._retry(lambda: query(views, *args, **kwargs), is_repeatable=True)

    return asked


class ReadOnly:
    def __init__(
        self, database: Database, retry: Retry | None = None, segment_files: SegmentFiles | None = None
    ) -> None:
        """`segment_files`: where the segments of the record lie; None: nobody reads the record."""
        self._database, self._segment_files = database, segment_files
        self._retry = retry or Retry()

    @contextmanager
    def _reading(self) -> Iterator[SqlTransaction]:
        """Open a snapshot. Raises StorageFailed if the database does not answer."""
        with self._one_query() as tx, self._database.snapshot():
            yield tx

    @contextmanager
    def _one_query(self) -> Iterator[SqlTransaction]:
        """Open a context for one query: it is a snapshot by itself, without statements around it. Raises as above."""
        assert JobRow._meta.database is self._database, "a process has one database: the models are bound to it"
        with reading_refused(self._database):
            self._database.connect(reuse_if_open=True)
            yield SqlTransaction(self._database, None, self._segment_files)
