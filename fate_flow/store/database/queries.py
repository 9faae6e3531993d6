"""Conditions and statements that several modules of the SQL store use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import peewee
from peewee import Database

from fate_flow.core.model.job import JobKey, TaskKey
from fate_flow.core.model.status import JobStatus
from fate_flow.store.contract.changes import OPEN_JOBS, UNFINISHED_WORKERS
from fate_flow.store.database.models import JobRow, SchedulerRow, TaskRow, WorkerRow
from fate_flow.store.database.prepared import insert, sql_text

SCHEDULER = "dag"


def hit(query: Any) -> bool:
    database = query._database or query.model._meta.database
    statement, params = sql_text(query, database.is_sqlite)
    return bool(database.execute_sql(statement, params).rowcount)


def insert_new(database: Database, model: type[peewee.Model], values: Mapping[str, Any], there: Any) -> bool:
    """Insert a row; False if it exists already."""
    try:
        insert(database, model, values)
    except peewee.IntegrityError:
        if model.select().where(there).exists():
            return False
        raise
    return True


def job_is(key: JobKey) -> Any:
    return (
        (JobRow.f_job_id == key.job_id)
        & (JobRow.f_role == key.party.role)
        & (JobRow.f_party_id == key.party.party_id)
    )


BY_AGE = (JobRow.f_create_time, JobRow.f_job_id, JobRow.f_role, JobRow.f_party_id)
IN_QUEUE = (JobRow.f_queue_key, JobRow.f_create_time, JobRow.f_job_id)
"""The order of `Job.order`."""


def job_ids_where(where: Any) -> tuple[str, ...]:
    return tuple(row[1] for row in sorted(JobRow.select(*BY_AGE).where(where).tuples()))


def is_unfinished() -> Any:
    return JobRow.f_status.in_([status.value for status in OPEN_JOBS])


def is_going_on() -> Any:
    return WorkerRow.f_status.in_([status.value for status in UNFINISHED_WORKERS])


def forget_counts() -> None:
    """Make the cached counts of old jobs invalid (store/views/count_cache.py)."""
    SchedulerRow.update(f_forgotten=SchedulerRow.f_forgotten + 1).where(SchedulerRow.f_name == SCHEDULER).execute()


def waiting_here() -> Any:
    """Return the condition for the queue of this initiator."""
    return (JobRow.f_is_initiator == True) & (JobRow.f_status == JobStatus.WAITING.value)  # noqa: E712


def task_is(key: TaskKey) -> Any:
    return (
        (TaskRow.f_job_id == key.job_id)
        & (TaskRow.f_task_id == key.task_id)
        & (TaskRow.f_task_version == key.version)
        & (TaskRow.f_role == key.party.role)
        & (TaskRow.f_party_id == key.party.party_id)
    )
