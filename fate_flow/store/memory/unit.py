"""The base class of the transactions in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import JobKey
from fate_flow.core.model.status import JOB_END, JobStatus
from fate_flow.store.memory.tables import BY_JOB, BY_STATUS, JobRow, Journal, Rows, refuse


class Savepoint:
    """A part of a transaction: if it raises, its writes are undone.

    It is a class, because a generator as a context manager takes three times as long, for every command of a party."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._begin = 0

    def __enter__(self) -> None:
        self._begin = self._journal.begin()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._journal.end(self._begin, kind is not None)


class MemoryUnitOfWork:
    """One unit of work on the tables of a party."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._jobs = rows.jobs
        self._tasks = rows.tasks

    def savepoint(self) -> Savepoint:
        return Savepoint(self._rows.journal)

    def _put(self, row: JobRow) -> None:
        is_final = row.job.status in JOB_END
        refuse("ck_job_reason", is_final and row.job.reason is None)
        refuse("ck_job_ended", is_final != row.has_ended)
        refuse("ck_job_final", is_final and row.job.holds)
        self._jobs.put(row.job.key, row)

    def _change_job(self, key: JobKey, **change: Any) -> bool:
        row = self._jobs.rows.get(key)
        if row is not None:
            self._change(row, **change)
        return row is not None

    def _change(self, row: JobRow, **change: Any) -> None:
        self._put(changed(row, job=changed(row.job, **change)))

    def _in(self, statuses: Iterable[JobStatus]) -> list[JobRow]:
        return [row for status in statuses for row in self._jobs.of(BY_STATUS, status)]

    def _of_job(self, job_id: str) -> Sequence[JobRow]:
        return self._jobs.of(BY_JOB, job_id)
