"""The database of one party, through peewee."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from peewee import Database

from fate_flow.store.database.models import MODELS, JobRow
from fate_flow.store.database.refusals import REFUSALS, drop_if_lost, first_refusal, reading_refused, refusal_of
from fate_flow.store.segment_files import SegmentFiles
from fate_flow.store.sql.bindings import Bindings
from fate_flow.store.sql.models import Models
from fate_flow.store.sql.old_jobs import OldJobs
from fate_flow.store.sql.outbox import Notifications, Outbox
from fate_flow.store.sql.party_keys import KeysOfParties
from fate_flow.store.sql.peers import Peers
from fate_flow.store.sql.permissions import Permissions
from fate_flow.store.sql.queue import Queue
from fate_flow.store.sql.record import Record, Witnessed
from fate_flow.store.sql.results import Results
from fate_flow.store.sql.seats import Seats
from fate_flow.store.sql.submissions import Submissions
from fate_flow.store.sql.tasks import Tasks
from fate_flow.store.sql.unit import LogStatusWrite
from fate_flow.store.sql.workers import Workers


class SqlStore:
    """The database of one party."""

    def __init__(
        self, database: Database, log_write: LogStatusWrite | None = None,
        recorded: Callable[[], None] = lambda: None, segment_files: SegmentFiles | None = None,
    ) -> None:  # fmt: skip
        """`recorded` is called after each commit that has added entries to the record. `segment_files`: where its
        segments lie; None: whoever opens the store does not read the record."""
        self.database = database
        self._log_write, self._recorded, self.segment_files = log_write, recorded, segment_files
        self._threads = threading.local()
        database.bind(MODELS)

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        """Run a transaction: commit at the end, roll back on an exception. Raises StorageFailed on a database error."""
        self._check_is_bound()
        unit = SqlTransaction(self.database, self._log_write, self.segment_files)
        before = sys.exception()
        failed: BaseException | None = None
        commits = False
        try:
            with self._atomic():
                try:
                    yield unit
                    unit.check_is_whole()
                except BaseException as error:
                    failed = error
                    raise
                commits = True
        except REFUSALS as error:
            drop_if_lost(self.database, error)
            if failed is not None and not isinstance(failed, REFUSALS):
                raise failed from None      # the connection is gone, so the server rolls back
            raise refusal_of(failed or first_refusal(error, before), commits) from error
        if unit.has_recorded:
            self._recorded()

    @contextmanager
    def reading(self) -> Iterator[SqlTransaction]:
        """Read without a lock; each read sees the data committed at that moment. Raises StorageFailed."""
        self._check_is_bound()
        with reading_refused(self.database):
            self.database.connect(reuse_if_open=True)
            yield SqlTransaction(self.database, self._log_write, self.segment_files)

    @contextmanager
    def snapshot(self) -> Iterator[SqlTransaction]:
        """Read without a lock; all reads see what was committed when the first one began. Raises StorageFailed.

        SQLite cannot shorten its journal meanwhile, so nothing waits for anybody inside."""
        with self.reading() as tx, self.database.snapshot():
            yield tx

    def _check_is_bound(self) -> None:
        assert JobRow._meta.database is self.database, "a process has one database: the models are bound to it"

    def _atomic(self) -> Any:
        # IMMEDIATE takes SQLite's write lock at the start. Otherwise a transaction that reads first and writes later
        # could fail with "locked" after it has already decided.
        self.database.connect(reuse_if_open=True)
        return self.database.atomic("IMMEDIATE") if self.database.is_sqlite else self.database.atomic()

    @contextmanager
    def kept_connection(self) -> Iterator[None]:
        """Let `close_unless_kept` leave this thread's connection open until the end of the block, which closes it."""
        self._threads.keeps = True
        try:
            yield
        finally:
            self._threads.keeps = False
            self.close()

    @contextmanager
    def without_sync(self) -> Iterator[None]:
        """Let commits of this thread inside the block not wait for the disk. A machine that loses its power may lose
        them, the newest first, but none that another commit, which has waited, has followed. On SQLite alone."""
        if not self.database.is_sqlite:
            yield
            return
        self.database.connect(reuse_if_open=True)
        self.database.connection().execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self.database.connect(reuse_if_open=True)        # it may have been closed: a new one waits
            self.database.connection().execute("PRAGMA synchronous = FULL")

    def close_unless_kept(self) -> None:
        """Close the connection of a thread that reads rarely."""
        if not getattr(self._threads, "keeps", False):
            self.close()

    def close(self) -> None:
        """Close this thread's connection."""
        if not self.database.is_closed():
            self.database.close()


class SqlTransaction(
    Workers, Tasks, Seats, Queue, OldJobs, Bindings, Permissions, KeysOfParties, Outbox,
    Peers, Record, Witnessed, Submissions, Results, Models, Notifications,
):  # fmt: skip
    """One unit of work. `contract.Transaction` documents the methods."""
