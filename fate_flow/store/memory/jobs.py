"""Rows of jobs, in memory; the counterpart of `sql/jobs.py`."""

from __future__ import annotations

from collections.abc import Mapping

from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import Job, JobKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, JobStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.store.contract.changes import (
    BUSY_JOBS,
    OPEN_JOBS,
    begun_again,
    job_moved,
    message_with,
    new_job,
    requeue_job,
    revised,
    stop_requested,
    tag_of_end,
)
from fate_flow.store.memory.tables import BY_JOB, BY_STATUS, JobRow, as_json, by_age
from fate_flow.store.memory.unit import MemoryUnitOfWork
from fate_flow.store.values import Document


class Jobs(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_job(self, job: Job, document: Document) -> bool:
        if job.key in self._jobs.rows:
            return False
        kept = Document(
            as_json(document.dsl), as_json(document.runtime_conf), as_json(document.on_party), document.name,
            document.description, document.tag, own=_copied(document.own), disclosure=document.disclosure,
            is_compared=document.is_compared,
        )  # fmt: skip
        self._put(JobRow(new_job(job), kept))
        return True

    def job(self, key: JobKey) -> Job | None:
        row = self._jobs.rows.get(key)
        return row.job if row else None

    def job_here(self, job_id: str) -> Job | None:
        return next((row.job for row in self._of_job(job_id) if row.job.is_initiator), None)

    def jobs_here(self, job_id: str) -> tuple[Job, ...]:
        return by_age(self._of_job(job_id))

    def document(self, job_id: str, party: Party | None = None) -> Document | None:
        found = [row for row in self._of_job(job_id) if party is None or row.job.key.party == party]
        rows = sorted(found, key=_initiator_first)
        return rows[0].document if rows else None

    def revise(self, job: Job, new: Job, document: Document) -> bool:
        row = self._as_seen(job)
        if row is None or row.job.revision != job.revision:
            return False
        found = changed(row.job, **revised(new), consent=row.job.consent or new.consent)
        conf, on_party = as_json(document.runtime_conf), as_json(document.on_party)
        own, disclosure = _copied(document.own), document.disclosure
        new_document = changed(
            row.document, runtime_conf=conf, on_party=on_party, own=own, disclosure=disclosure,
            is_compared=document.is_compared,
        )  # fmt: skip
        self._put(changed(row, job=found, document=new_document))
        return True

    def _as_seen(self, job: Job) -> JobRow | None:
        """Return the row; None if it has moved since it was read."""
        row = self._jobs.rows.get(job.key)
        return row if row is not None and (row.job.status, row.job.run) == (job.status, job.run) else None

    def move_job(self, job: Job, move: MoveJob, at: int, caused_by: str = "") -> bool:
        change = job_moved(job, move, at, caused_by)
        row = self._as_seen(job)
        if row is None:
            return False
        row = changed(row, job=changed(row.job, **change))
        if move.new in JOB_END:
            row = changed(row, document=changed(row.document, tag=tag_of_end(job)), has_ended=True)
        self._put(row)
        return True

    def begin_again(self, job: Job, run: int, since: int, wait_reason: str, *, is_loss: bool = False) -> bool:
        change = begun_again(job, run, since, wait_reason, is_loss=is_loss)
        row = self._as_seen(job)
        if row is None:
            return False
        self._put(changed(row, job=changed(row.job, **change), blocked_cores=0, has_ended=False))
        if not is_loss:
            self._rows.failed_workers.drop_group(BY_JOB, job.job_id)
        return True

    def requeue_job(self, job: Job, wait_reason: str, retry_at: int) -> bool:
        change = requeue_job(job, wait_reason, retry_at)
        row = self._as_seen(job)
        if row is None:
            return False
        self._change(row, **change)
        return True

    def rerun_after_end(self, job: Job) -> bool:
        row = self._jobs.rows.get(job.key)
        if row is None or row.job.status is not JobStatus.STOPPING or row.job.run != job.run:
            return False
        self._change(row, rerun_signal=True)
        return True

    def forgo_return(self, key: JobKey) -> bool:
        row = self._jobs.rows.get(key)
        is_ending = row is not None and row.job.status is JobStatus.STOPPING
        return is_ending and self._change_job(key, cancel_requested=True)

    def request_stop(
        self, key: JobKey, reason: Reason, message: str, at: int, by_user: bool, caused_by: str  # noqa: ARG002
    ) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.job.status in JOB_END or row.job.reason is not None:
            return False
        self._change(row, **stop_requested(reason, message, by_user, caused_by))
        return True

    def request_force_stop(self, key: JobKey) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.job.status in JOB_END:
            return False
        self._change(row, is_force_stop=True)
        return True

    def force_stop_sent(self, key: JobKey, stop_by: int) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or not row.job.is_force_stop:
            return False
        self._change(row, is_force_stop=False, stop_by=stop_by)
        return True

    def name_missing(self, key: JobKey, parties: tuple[str, ...]) -> bool:
        return self._change_job(key, missing=parties)

    def set_timers(self, key: JobKey, timers: Mapping[str, int]) -> bool:
        return self._change_job(key, timers=dict(timers))

    def restart_job(self, key: JobKey) -> bool:
        row = self._jobs.rows.get(key)
        return row is not None and self._change_job(key, is_restarting=True, restarts=row.job.restarts + 1)

    def restarted(self, key: JobKey) -> bool:
        return self._change_job(key, is_restarting=False)

    def describe(self, key: JobKey, text: str) -> bool:
        row = self._jobs.rows.get(key)
        if row is not None:
            self._put(changed(row, document=changed(row.document, description=text)))
        return row is not None

    def add_message(self, key: JobKey, text: str) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or text in row.job.message:
            return False
        self._change(row, message=message_with(row.job, text))
        return True

    def set_progress(self, key: JobKey, percent: int) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.job.progress >= percent:
            return False
        self._change(row, progress=percent)
        return True

    def name_unconfirmed(self, key: JobKey, party: Party) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or str(party) in row.job.unconfirmed:
            return False
        self._change(row, unconfirmed=tuple(sorted((*row.job.unconfirmed, str(party)))))
        return True

    def open_seats(self) -> tuple[JobKey, ...]:
        return tuple(job.key for job in by_age(self._in(OPEN_JOBS)))

    def unfinished_jobs(self) -> tuple[Job, ...]:
        busy = [row for status in BUSY_JOBS for row in self._jobs.of(BY_STATUS, status)]
        waiting = self._jobs.of(BY_STATUS, JobStatus.WAITING)
        signalled = (row for row in waiting if row.job.holds or row.has_signal or row.job.rerun_signal)
        return by_age(busy) + by_age(signalled)

    def last_create_time(self) -> int:
        return max((row.job.create_time for row in self._jobs.rows.values()), default=0)


def _initiator_first(row: JobRow) -> tuple[bool, Party]:
    return (not row.job.is_initiator, row.job.party)


def _copied(document: JobDocument | None) -> JobDocument | None:
    if document is None:
        return None
    return JobDocument(document.format, as_json(document.body), as_json(document.defaults))
