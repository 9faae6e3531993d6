"""The stores of a simulation: told of every write before it happens, and read as a whole after a commit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from fate_flow.core.model.job import EngineState, Job, JobKey, Seat, Task, TaskKey, Worker
from fate_flow.core.model.resources import LOCAL
from fate_flow.core.model.spec import Party
from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.models import MODELS, JobRow, SeatRow, TaskRow, WorkerRow
from fate_flow.store.database.opening import open_database
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.rows import (
    JOB_COLUMNS,
    SEAT_COLUMNS,
    TASK_COLUMNS,
    WORKER_COLUMNS,
    job_of,
    seat_of,
    task_of,
    worker_of,
)
from fate_flow.store.memory.store import MemoryStore
from fate_flow.store.sql.store import SqlStore

OnWrite = Callable[[], None]


@dataclass
class Changes:
    """The rows that were written since this was asked last; None for one that is gone."""

    jobs: dict[JobKey, Job | None] = field(default_factory=dict)
    tasks: dict[TaskKey, Task | None] = field(default_factory=dict)
    seats: dict[tuple[str, Party], Seat | None] = field(default_factory=dict)
    workers: dict[str, Worker | None] = field(default_factory=dict)


class MemoryBooks:
    """A store in memory."""

    def __init__(self, on_write: OnWrite) -> None:
        self.store: Any = MemoryStore()
        self._rows = self.store._rows
        self._written: dict[str, set[Any]] = {name: _keys_written(getattr(self._rows, name)) for name in _WATCHED}
        journal = self._rows.journal
        keep = journal.append

        def append(undo: Callable[[], None]) -> None:
            on_write()
            keep(undo)

        journal.append = append

    def changes(self) -> Changes:
        jobs, tasks, seats, workers = (self._take(name) for name in _WATCHED)
        return Changes({key: row.job if row else None for key, row in jobs.items()}, tasks, seats, workers)

    def _take(self, name: str) -> dict[Any, Any]:
        keys = self._written[name]
        if not keys:
            return {}
        rows = getattr(self._rows, name).rows
        found = {key: rows.get(key) for key in keys}
        keys.clear()
        return found

    def engine(self, name: str = LOCAL) -> EngineState:
        return self._rows.engines.rows[name]

    def schedules(self) -> str:
        found = self._rows.schedulers.rows.get("dag")
        return found[0] if found else ""

    def outbox(self) -> int:
        return len(self._rows.outbox.rows)


class SqlBooks:
    """SQLite in memory."""

    def __init__(self, on_write: OnWrite) -> None:
        self.database = open_database("sqlite:///:memory:", Path(tempfile.gettempdir()))
        self.database.connect()
        _template().connection().backup(self.database.connection())
        self._seen: dict[str, dict[Any, Any]] = {name: {} for name in _WATCHED}
        self._written: set[str] = set()
        self.store: Any = _OneOfMany(self.database)
        execute = self.database.execute_sql

        def execute_sql(sql: str, params: Any = None, *args: Any) -> Any:
            if not sql.startswith("SELECT"):
                on_write()
                self._written.update(name for name, (table, *_) in _TABLES.items() if table in sql)
            return execute(sql, params, *args)

        self.database.execute_sql = execute_sql

    def changes(self) -> Changes:
        if not self._written:
            return Changes()
        found = {name: self._differences(name) for name in self._written}
        self._written.clear()
        return Changes(**found)

    def _differences(self, name: str) -> dict[Any, Any]:
        _, query, value_of, width = _TABLES[name]
        before = self._seen[name]
        with self.store.reading():
            now = {row[:width]: row for row in query.rows(self.database)}
        self._seen[name] = now
        found = {}
        for key, row in now.items():
            if before.get(key) != row:
                value = value_of(row)
                found[_key_of(value)] = value
        found.update({_key_of(value_of(before[key])): None for key in before.keys() - now.keys()})
        return found

    def engine(self, name: str = LOCAL) -> EngineState:
        with self.store.reading() as tx:
            found: EngineState = tx.engine(name)
        return found

    def schedules(self) -> str:
        found = self.database.execute_sql("SELECT f_owner FROM t_scheduler").fetchone()
        return str(found[0]) if found else ""

    def outbox(self) -> int:
        return int(self.database.execute_sql("SELECT COUNT(*) FROM t_outbox").fetchone()[0])


def open_books(kind: str, on_write: OnWrite) -> MemoryBooks | SqlBooks:
    return MemoryBooks(on_write) if kind == "memory" else SqlBooks(on_write)


class _OneOfMany(SqlStore):
    """The models of a process are bound to one database; here every party has its own, one after the other."""

    @contextmanager
    def transaction(self) -> Any:
        self._bind()
        with super().transaction() as tx:
            yield tx

    @contextmanager
    def reading(self) -> Any:
        self._bind()
        with super().reading() as tx:
            yield tx

    def _bind(self) -> None:
        if MODELS[0]._meta.database is not self.database:
            self.database.bind(MODELS, bind_refs=False, bind_backrefs=False)     # each one is named


@cache
def _template() -> Any:
    """An empty database of the present schema, to be copied: migrations take longer than a whole seed."""
    database = open_database("sqlite:///:memory:", Path(tempfile.gettempdir()))
    database.connect()
    upgrade(database)
    return database


def _keys_written(table: Any) -> set[Any]:
    """Filled with the keys of the rows that are put or dropped, whether or not it is undone."""
    written: set[Any] = set()
    for name in ("put", "drop"):
        setattr(table, name, _noting(getattr(table, name), written))
    return written


def _noting(act: Callable[..., Any], written: set[Any]) -> Callable[..., Any]:
    def noted(key: Any, *row: Any) -> Any:
        written.add(key)
        return act(key, *row)

    return noted


def _key_of(value: Job | Task | Seat | Worker) -> Any:
    if isinstance(value, Worker):
        return value.worker_id
    return (value.job_id, value.party) if isinstance(value, Seat) else value.key


_WATCHED = ("jobs", "tasks", "seats", "workers")
# By what is watched: the table, its rows, what they become, and how many columns their key has.
_TABLES: dict[str, tuple[str, Prepared, Callable[[Any], Any], int]] = {
    "jobs": ('"t_job"', Prepared(lambda: JobRow.select(*JOB_COLUMNS), 0), job_of, 3),
    "tasks": ('"t_task"', Prepared(lambda: TaskRow.select(*TASK_COLUMNS), 0), task_of, 5),
    "seats": ('"t_seat"', Prepared(lambda: SeatRow.select(*SEAT_COLUMNS), 0), seat_of, 3),
    "workers": ('"t_worker"', Prepared(lambda: WorkerRow.select(*WORKER_COLUMNS), 0), worker_of, 1),
}
