"""The base class of the transactions in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import JobKey
from fate_flow.core.model.status import JOB_END, JobStatus
from fate_flow.store.memory.tables import BY_JOB, BY_STATUS, JobRow, Rows, refuse


class MemoryUnitOfWork:
    """One unit of work on the tables of a party."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._jobs = rows.jobs
        self._tasks = rows.tasks

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        with self._rows.journal.undone_on_error():
            yield

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
