"""The base class of the transactions on a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from peewee import Database, Model

from fate_flow.core.model.errors import StorageUnavailable
from fate_flow.store.database.prepared import sql_text, update_text
from fate_flow.store.database.refusals import REFUSALS, refusal_of

LogStatusWrite = Callable[[str, str, Sequence[Any]], None]
"""Called with job id, statement and parameters just before a status or field of a job or task is written."""


Pairs = Sequence[tuple[str, Any]]
"""Columns with the values that a row has to have in them."""


class TakenBack(Exception):
    """Raised in a savepoint to undo its writes, and caught where the savepoint was opened."""


class SqlUnitOfWork:
    """One unit of work."""

    def __init__(self, database: Database, log_write: LogStatusWrite | None) -> None:
        self._database = database
        self._log_write = log_write
        self._is_broken = False
        self._depth = 0                  # of savepoints
        self.has_recorded = False        # whether the record gets new entries

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Open a savepoint. All savepoints are opened here, because an error inside may end the whole transaction.

        Their names come back, so that SQLite parses the statements once. With a new name for each, they also pushed the
        long statements out of what a connection keeps parsed."""
        self._depth += 1
        name = f"part_{self._depth}"
        try:
            self._database.execute_sql(f"SAVEPOINT {name}")
            yield
            self._database.execute_sql(f"RELEASE SAVEPOINT {name}")
        except BaseException as error:
            self._undo(name)
            if isinstance(error, REFUSALS):
                raise refusal_of(error) from error
            raise
        finally:
            self._depth -= 1

    def _undo(self, name: str) -> None:
        try:
            self._database.execute_sql(f"ROLLBACK TO SAVEPOINT {name}")
        except REFUSALS:
            # The savepoint is gone, and with it the transaction, as after a deadlock, a full disk or a lost connection.
            # The earlier writes are lost, so later ones must not be committed. Without a transaction, each statement
            # would be committed at once. Therefore begin one, which is rolled back at the end.
            self._is_broken = True
            with suppress(*REFUSALS):
                self._database.begin()

    def check_is_whole(self) -> None:
        """Raise StorageUnavailable if the database ended the transaction, and its error was caught at a savepoint."""
        if self._is_broken:
            raise StorageUnavailable("the database dropped the transaction")

    def _write(self, job_id: str, query: Any) -> bool:
        return self._run(job_id, *sql_text(query, self._database.is_sqlite))

    def _update(self, job_id: str, model: type[Model], changes: Mapping[str, Any], where: Pairs) -> bool:
        """Write these columns where each column of `where` has its value."""
        return self._run(job_id, *update_text(self._database, model, changes, where))

    def _run(self, job_id: str, statement: str, params: Sequence[Any]) -> bool:
        if self._log_write is not None:
            self._log_write(job_id, statement, params)
        return bool(self._database.execute_sql(statement, params).rowcount)
