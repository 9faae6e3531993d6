"""Rows of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peewee import fn

from fate_flow.core.model.job import Job, JobKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, JobStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.store.contract.changes import (
    BUSY_JOBS,
    begun_again,
    job_moved,
    message_with,
    new_job,
    requeue_job,
    revised,
    stop_requested,
    tag_of_end,
)
from fate_flow.store.database.document_columns import document_columns, kept_document
from fate_flow.store.database.json_text import from_json, to_json
from fate_flow.store.database.models import JobRow, TaskRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import BY_AGE, forget_counts, insert_new, is_unfinished, job_is
from fate_flow.store.database.rows import JOB_COLUMNS, JOBS, date, job_columns, job_of, with_dates
from fate_flow.store.sql.unit import Pairs, SqlUnitOfWork
from fate_flow.store.values import Document


class Jobs(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_job(self, job: Job, document: Document) -> bool:
        return insert_new(self._database, JobRow, _job_values(job, document), job_is(job.key))

    def job(self, key: JobKey) -> Job | None:
        return next(iter(_JOB.made(self._database, job_of, key.job_id, key.party.role, key.party.party_id)), None)

    def job_here(self, job_id: str) -> Job | None:
        return next((job for job in self.jobs_here(job_id) if job.is_initiator), None)

    def jobs_here(self, job_id: str) -> tuple[Job, ...]:
        return _JOBS_HERE.made(self._database, job_of, job_id)

    def document(self, job_id: str, party: Party | None = None) -> Document | None:
        if party is None:
            row = _DOCUMENT.row(self._database, job_id)
        else:
            row = _DOCUMENT_OF_PARTY.row(self._database, job_id, party.role, party.party_id)
        if row is None:
            return None
        dsl, conf, on_party, name, description, tag, own_format, kept = row
        rest = kept_document(own_format, kept)
        return Document(
            from_json(dsl), from_json(conf), from_json(on_party), name or "", description or "", tag or "",
            own=rest.own, disclosure=rest.disclosure, is_compared=rest.is_compared,
        )  # fmt: skip

    def move_job(self, job: Job, move: MoveJob, at: int, caused_by: str = "") -> bool:
        values = with_dates(job_columns(job_moved(job, move, at, caused_by)))
        if move.new in JOB_END:
            values.update(f_tag=tag_of_end(job), f_elapsed=max(0, at - job.start_time) if job.start_time else None)
        return self._update(job.job_id, JobRow, values, _seen(job))

    def begin_again(self, job: Job, run: int, since: int, wait_reason: str, *, is_loss: bool = False) -> bool:
        values = {**job_columns(begun_again(job, run, since, wait_reason, is_loss=is_loss)), **_NOT_BEGUN}
        forget_counts()
        has_begun = self._write(job.job_id, JobRow.update(**values).where(_as_seen(job)))
        if has_begun and not is_loss:
            counted = (TaskRow.f_job_id == job.job_id) & (TaskRow.f_failed_workers > 0)
            TaskRow.update(f_failed_workers=0).where(counted).execute()
        return has_begun

    def requeue_job(self, job: Job, wait_reason: str, retry_at: int) -> bool:
        values = job_columns(requeue_job(job, wait_reason, retry_at))
        return self._write(job.job_id, JobRow.update(**values).where(_as_seen(job)))

    def revise(self, job: Job, new: Job, document: Document) -> bool:
        values = job_columns(revised(new)) | document_columns(document)
        if job.consent is None and new.consent is not None:
            values["f_approval"] = new.consent.approval.value
        where = _as_seen(job) & (JobRow.f_revision == job.revision)
        return self._write(job.job_id, JobRow.update(**values).where(where))

    def rerun_after_end(self, job: Job) -> bool:
        is_ending = (JobRow.f_status == JobStatus.STOPPING.value) & (JobRow.f_run == job.run)
        return self._write(job.job_id, JobRow.update(f_rerun_signal=True).where(job_is(job.key) & is_ending))

    def forgo_return(self, key: JobKey) -> bool:
        is_ending = JobRow.f_status == JobStatus.STOPPING.value
        return self._write(key.job_id, JobRow.update(f_cancel_signal=True).where(job_is(key) & is_ending))

    def request_stop(
        self, key: JobKey, reason: Reason, message: str, at: int, by_user: bool, caused_by: str
    ) -> bool:
        values = job_columns(stop_requested(reason, message, by_user, caused_by))
        if by_user:
            values["f_cancel_time"] = at
        open_ = JobRow.f_status.not_in([status.value for status in JOB_END]) & JobRow.f_reason.is_null()
        return self._write(key.job_id, JobRow.update(**values).where(job_is(key) & open_))

    def request_force_stop(self, key: JobKey) -> bool:
        open_ = JobRow.f_status.not_in([status.value for status in JOB_END])
        return self._write(key.job_id, JobRow.update({JobRow.f_stop_now: True}).where(job_is(key) & open_))

    def force_stop_sent(self, key: JobKey, stop_by: int) -> bool:
        values = {JobRow.f_stop_now: False, JobRow.f_stop_by: stop_by}
        return self._write(key.job_id, JobRow.update(values).where(job_is(key) & (JobRow.f_stop_now == True)))  # noqa: E712

    def name_missing(self, key: JobKey, parties: tuple[str, ...]) -> bool:
        values = {**job_columns({"missing": parties}), "f_partial": bool(parties)}
        return self._write(key.job_id, JobRow.update(**values).where(job_is(key)))

    def set_timers(self, key: JobKey, timers: Mapping[str, int]) -> bool:
        values = job_columns({"timers": timers})
        return self._write(key.job_id, JobRow.update(**values).where(job_is(key)))

    def restart_job(self, key: JobKey) -> bool:
        values = {JobRow.f_restarting: True, JobRow.f_restarts: JobRow.f_restarts + 1}
        return self._write(key.job_id, JobRow.update(values).where(job_is(key)))

    def restarted(self, key: JobKey) -> bool:
        return self._write(key.job_id, JobRow.update(f_restarting=False).where(job_is(key)))

    def describe(self, key: JobKey, text: str) -> bool:
        forget_counts()        # the row of the scheduler first, as in its own transactions
        return self._write(key.job_id, JobRow.update(f_description=text).where(job_is(key)))

    def add_message(self, key: JobKey, text: str) -> bool:
        job = self.job(key)
        if job is None or text in job.message:
            return False
        message = message_with(job, text)
        return self._write(key.job_id, JobRow.update({JobRow.f_message: message}).where(job_is(key)))

    def set_progress(self, key: JobKey, percent: int) -> bool:
        where = job_is(key) & (JobRow.f_progress < percent)
        return self._write(key.job_id, JobRow.update({JobRow.f_progress: percent}).where(where))

    def name_unconfirmed(self, key: JobKey, party: Party) -> bool:
        job = self.job(key)
        if job is None or str(party) in job.unconfirmed:
            return False
        values = job_columns({"unconfirmed": tuple(sorted((*job.unconfirmed, str(party))))})
        return self._write(key.job_id, JobRow.update(**values).where(job_is(key)))

    def open_seats(self) -> tuple[JobKey, ...]:
        return tuple(JobKey(row[0], Party(row[1], row[2])) for row in _OPEN_SEATS.rows(self._database))

    def unfinished_jobs(self) -> tuple[Job, ...]:
        rows = _BUSY_JOBS.rows(self._database) + _HOLDING_JOBS.rows(self._database)
        return tuple(job_of(row) for row in rows)

    def last_create_time(self) -> int:
        row = _LAST_CREATED.row(self._database)
        return int(row[0] or 0) if row else 0


_NOT_BEGUN: dict[str, Any] = {
    "f_start_time": None,
    "f_start_date": None,
    "f_end_time": None,
    "f_end_date": None,
    "f_elapsed": None,
    "f_cancel_time": None,
    "f_unconfirmed_parties": None,
    "f_missing_parties": None,
    "f_partial": False,
    "f_blocked_cores": 0,
}
_JOB = Prepared(
    lambda job_id, role, party_id: JobRow.select(*JOB_COLUMNS).where(job_is(JobKey(job_id, Party(role, party_id)))), 3
)
_JOBS_HERE = Prepared(
    lambda job_id: JobRow.select(*JOB_COLUMNS).where(JobRow.f_job_id == job_id).order_by(*BY_AGE), 1
)


def _document_where(where: Any) -> Any:
    """Select the document of a row of the job; the initiator's, if this party has it."""
    columns = (
        JobRow.f_dsl, JobRow.f_runtime_conf, JobRow.f_runtime_conf_on_party, JobRow.f_name, JobRow.f_description,
        JobRow.f_tag, JobRow.f_format, JobRow.f_document,
    )  # fmt: skip
    order = (JobRow.f_is_initiator.desc(), JobRow.f_role, JobRow.f_party_id)
    return JobRow.select(*columns).where(where).order_by(*order).limit(1)


_LAST_CREATED = Prepared(lambda: JobRow.select(fn.MAX(JobRow.f_create_time)), 0)
_DOCUMENT = Prepared(lambda job_id: _document_where(JobRow.f_job_id == job_id), 1)
_DOCUMENT_OF_PARTY = Prepared(
    lambda job_id, role, party_id: _document_where(job_is(JobKey(job_id, Party(role, party_id)))), 3
)


def _as_seen(job: Job) -> Any:
    """Return the condition that the row has not moved since it was read."""
    return job_is(job.key) & (JobRow.f_status == job.status.value) & (JobRow.f_run == job.run)


def _seen(job: Job) -> Pairs:
    """Return the same as columns with their values."""
    party = job.party
    return (
        ("f_job_id", job.job_id), ("f_role", party.role), ("f_party_id", party.party_id),
        ("f_status", job.status.value), ("f_run", job.run),
    )  # fmt: skip


_BUSY_JOBS = Prepared(
    lambda: (
        JobRow.select(*JOB_COLUMNS)
        .where(JobRow.f_status.in_([status.value for status in BUSY_JOBS]))
        .order_by(*BY_AGE)
    ),
    0,
)
_OPEN_SEATS = Prepared(
    lambda: (
        JobRow.select(JobRow.f_job_id, JobRow.f_role, JobRow.f_party_id).where(is_unfinished()).order_by(*BY_AGE)
    ),
    0,
)
_HOLDING_JOBS = Prepared(
    lambda: (
        JobRow.select(*JOB_COLUMNS)
        .where(
            (JobRow.f_status == JobStatus.WAITING.value)
            & (
                (JobRow.f_resource_in_use == True)  # noqa: E712
                | (JobRow.f_ready_signal == True)  # noqa: E712
                | (JobRow.f_rerun_signal == True)  # noqa: E712
            )
        )
        .order_by(*BY_AGE)
    ),
    0,
)


def _job_values(job: Job, document: Document) -> dict[str, Any]:
    return JOBS.row_of(new_job(job)) | {
        "f_create_date": date(job.create_time),
        "f_name": document.name,
        "f_description": document.description,
        "f_tag": document.tag,
        "f_dsl": to_json(document.dsl),
        **document_columns(document),
    }
