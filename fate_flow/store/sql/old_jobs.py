"""Ended jobs, and their removal."""

from __future__ import annotations

from fate_flow.core.model.job import JobKey
from fate_flow.core.model.status import JOB_END, JobStatus
from fate_flow.store.contract.changes import SUBMIT_FAILED
from fate_flow.store.database.models import (
    HistoryRow,
    JobRow,
    OutboxRow,
    SeatRow,
    SubmissionRow,
    TaskRow,
    WorkerRow,
)
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import BY_AGE, forget_counts, hit, is_going_on, is_unfinished
from fate_flow.store.database.result_rows import MetricRow, OutputRow, SummaryRow
from fate_flow.store.sql.jobs import Jobs
from fate_flow.store.sql.unit import TakenBack


class OldJobs(Jobs):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def job_ids(self, first: str, last: str, limit: int) -> tuple[str, ...]:
        between = (JobRow.f_job_id >= first) & (JobRow.f_job_id <= last)
        query = JobRow.select(JobRow.f_job_id).where(between).distinct().order_by(JobRow.f_job_id).limit(limit)
        return tuple(row[0] for row in query.tuples())

    def forget_job(self, job_id: str) -> None:
        for model in (JobRow, SeatRow, TaskRow, WorkerRow, HistoryRow):
            model.delete().where(model.f_job_id == job_id).execute()

    def forget_seat(self, key: JobKey) -> None:
        for model in (JobRow, TaskRow, WorkerRow, HistoryRow):
            is_here = (
                (model.f_job_id == key.job_id)
                & (model.f_role == key.party.role)
                & (model.f_party_id == key.party.party_id)
            )
            model.delete().where(is_here).execute()
        if not self.jobs_here(key.job_id):
            of_no_seat = (HistoryRow.f_job_id == key.job_id) & (HistoryRow.f_role == "")
            HistoryRow.delete().where(of_no_seat).execute()

    def ended_jobs(self, before: int, after: tuple[int, str], limit: int) -> tuple[tuple[int, str], ...]:
        at, job_id = after
        behind = (JobRow.f_end_time > at) | (JobRow.f_job_id > job_id)
        query = JobRow.select(JobRow.f_end_time, JobRow.f_job_id).where(
            (JobRow.f_end_time >= at) & (JobRow.f_end_time < before) & behind
        )
        return tuple(query.order_by(JobRow.f_end_time, JobRow.f_job_id).limit(limit).tuples())

    def jobs_past_ttl(self, now: int, least: int, after: str, limit: int) -> tuple[str, ...]:
        is_over = (JobRow.f_end_time + JobRow.f_ttl * 1_000 < now) & (JobRow.f_end_time < now - least * 1_000)
        where = (JobRow.f_ttl >= 0) & (JobRow.f_end_time > 0) & is_over & (JobRow.f_job_id > after)
        query = JobRow.select(JobRow.f_job_id).where(where).distinct().order_by(JobRow.f_job_id).limit(limit)
        return tuple(job_id for (job_id,) in query.tuples())

    def end_of_newest(self, count: int) -> int:
        query = JobRow.select(JobRow.f_end_time).where(JobRow.f_end_time > 0)
        return int(query.order_by(JobRow.f_end_time.desc()).limit(1).offset(count - 1).scalar() or 0)

    def forget_ended(self, job_id: str) -> bool:
        if self.is_open(job_id):
            return False
        try:
            with self.savepoint():
                self._forget_ended(job_id)
        except TakenBack:
            return False
        return True

    def _forget_ended(self, job_id: str) -> None:
        is_its, ends = JobRow.f_job_id == job_id, [status.value for status in JOB_END]
        hit(JobRow.delete().where(is_its & JobRow.f_status.in_(ends) & (JobRow.f_claim == "")))
        if JobRow.select(JobRow.f_job_id).where(is_its).tuples().first():
            raise TakenBack     # the job was rerun since it was checked (possible on MySQL only)
        for model in (SeatRow, TaskRow, WorkerRow, HistoryRow, OutputRow, MetricRow, SummaryRow, SubmissionRow):
            model.delete().where(model.f_job_id == job_id).execute()
        forget_counts()

    def jobs_to_forget(self) -> tuple[str, ...]:
        return tuple(row[0] for row in _REFUSED_SUBMITS.rows(self._database))

    def is_open(self, job_id: str) -> bool:
        is_open = is_unfinished() | (JobRow.f_claim != "")
        rows = JobRow.select(JobRow.f_job_id).where((JobRow.f_job_id == job_id) & is_open)
        workers = WorkerRow.select(WorkerRow.f_job_id).where((WorkerRow.f_job_id == job_id) & is_going_on())
        commands = OutboxRow.select(OutboxRow.f_job_id).where(OutboxRow.f_job_id == job_id)
        return any(query.tuples().first() for query in (rows, workers, commands))


_REFUSED_SUBMITS = Prepared(
    lambda: (
        JobRow.select(JobRow.f_job_id)
        .where(
            (JobRow.f_tag == SUBMIT_FAILED)
            & (JobRow.f_status == JobStatus.FAILED.value)
            & (JobRow.f_is_initiator == True)  # noqa: E712
        )
        .order_by(*BY_AGE)
    ),
    0,
)
