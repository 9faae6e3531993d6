"""Ended jobs and their removal, in memory; the counterpart of `sql/old_jobs.py`."""

from __future__ import annotations

from fate_flow.core.model.job import JobKey
from fate_flow.core.model.status import JOB_END, JobStatus
from fate_flow.store.contract.changes import OPEN_JOBS, SUBMIT_FAILED, UNFINISHED_WORKERS
from fate_flow.store.memory.jobs import Jobs
from fate_flow.store.memory.tables import BY_JOB, BY_STATUS, ids_by_age


class OldJobs(Jobs):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def job_ids(self, first: str, last: str, limit: int) -> tuple[str, ...]:
        return tuple(sorted({key.job_id for key in self._jobs.rows if first <= key.job_id <= last}))[:limit]

    def forget_job(self, job_id: str) -> None:
        rows = self._rows
        for table in (self._jobs, rows.seats, self._tasks, rows.workers, rows.history, rows.failed_workers):
            table.drop_group(BY_JOB, job_id)

    def forget_seat(self, key: JobKey) -> None:
        self._jobs.drop(key)
        for task in self._tasks.of(BY_JOB, key.job_id):
            if task.key.party == key.party:
                self._tasks.drop(task.key)
                self._rows.failed_workers.drop(task.key)
        for worker in self._rows.workers.of(BY_JOB, key.job_id):
            if worker.task.party == key.party:
                self._rows.workers.drop(worker.worker_id)
        gone = (key.party,) if self.jobs_here(key.job_id) else (key.party, None)
        for entry in self._rows.history.of(BY_JOB, key.job_id):
            if entry.party in gone:
                self._rows.history.drop(entry.number)

    def is_open(self, job_id: str) -> bool:
        rows = (row.job.status in OPEN_JOBS or row.job.holds for row in self._of_job(job_id))
        workers = (one.status in UNFINISHED_WORKERS for one in self._rows.workers.of(BY_JOB, job_id))
        commands = (one.job_id == job_id for one in self._rows.outbox.rows.values())
        return any(rows) or any(workers) or any(commands)

    def ended_jobs(self, before: int, after: tuple[int, str], limit: int) -> tuple[tuple[int, str], ...]:
        ended = sorted((row.job.end_time, row.job.job_id) for row in self._in(JOB_END))
        return tuple(one for one in ended if after < one and one[0] < before)[:limit]

    def jobs_past_ttl(self, now: int, least: int, after: str, limit: int) -> tuple[str, ...]:
        found = {
            row.job.job_id for row in self._in(JOB_END)
            if row.job.ttl_seconds is not None and row.job.end_time + max(row.job.ttl_seconds, least) * 1_000 < now
        }  # fmt: skip
        return tuple(sorted(job_id for job_id in found if job_id > after)[:limit])

    def end_of_newest(self, count: int) -> int:
        ends = sorted((row.job.end_time for row in self._in(JOB_END)), reverse=True)
        return ends[count - 1] if len(ends) >= count else 0

    def forget_ended(self, job_id: str) -> bool:
        if self.is_open(job_id):
            return False
        self.forget_job(job_id)
        rows = self._rows
        for table in (rows.outputs, rows.metrics, rows.summaries, rows.submissions):
            table.drop_group(BY_JOB, job_id)
        return True

    def jobs_to_forget(self) -> tuple[str, ...]:
        failed = self._jobs.of(BY_STATUS, JobStatus.FAILED)
        return ids_by_age(row for row in failed if row.job.is_initiator and row.document.tag == SUBMIT_FAILED)
