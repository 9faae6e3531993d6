"""The queries of clients: rows with FATE's names, read only.

Every method reads one snapshot and takes no lock. Lists leave out the columns with whole documents, and no answer has
more than `MOST_ROWS` rows (store/views/lists.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from peewee import Database

from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_UNFINISHED
from fate_flow.store.contract.retry import Retry
from fate_flow.store.contract.transaction import handed_on, published
from fate_flow.store.database.models import EngineRow, JobRow, MetricRow, OutputRow, StorageTableRow, TaskRow
from fate_flow.store.database.refusals import reading_refused
from fate_flow.store.sql.resources import COMPUTING
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.values import READ, Document, Metric, OutputTable, TableMeta
from fate_flow.store.views.columns import DOCUMENTS, Row, as_seen, decoded
from fate_flow.store.views.count_cache import CountCache
from fate_flow.store.views.filters import NO_INDEX, conditions
from fate_flow.store.views.lists import (
    JOB_SETTLES,
    MOST_ROWS,
    NEWEST,
    OLDEST,
    TASK_STAYS,
    JobQuery,
    Listed,
    Page,
    choices_of,
    fixed_by,
    is_counted,
    is_newest_version,
    matching,
    read_page,
    shape_of,
)
from fate_flow.store.views.snapshots import JobSnapshot, QueuePage, queue_page, snapshot_of
from fate_flow.store.views.wait_reasons import with_wait_reasons

P = ParamSpec("P")
T = TypeVar("T")


def _read_again(query: Callable[Concatenate[Views, P], T]) -> Callable[Concatenate[Views, P], T]:
    """Let `Retry` repeat a read."""

    @wraps(query)
    def asked(views: Views, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return views._retry(lambda: query(views, *args, **kwargs), is_repeatable=True)

    return asked


class Views:
    """The queries of clients."""

    def __init__(self, database: Database, retry: Retry | None = None) -> None:
        self._database = database
        self._retry = retry or Retry()
        self._jobs, self._tasks = CountCache(JobRow), CountCache(TaskRow, changes=TaskRow.f_end_time.is_null())

    # ------------------------------------------------------------------ jobs

    @_read_again
    def jobs(self, filters: Mapping[str, Any], page: Page = NEWEST) -> list[Row]:
        """Return a page of the jobs that the filters select, with all columns; empty without a usable filter."""
        with self._reading() as tx:
            statuses = choices_of(filters.get("status"))
            shape = shape_of(JobRow, filters, JOB_SETTLES) if is_counted(statuses) else None
            where = conditions(JobRow, filters, without_index=NO_INDEX if shape else frozenset())
            if where is None:
                return []
            listed = Listed(JobRow, where, shape, fixed_by(filters), asks_for_status=bool(statuses))
            rows, _ = read_page(tx, self._jobs, listed, page)
            return _initiator_first(as_seen(with_wait_reasons(tx, rows)))

    @_read_again
    def job_list(self, query: JobQuery, page: Page) -> tuple[list[Row], int]:
        """Return a page of jobs without their documents, and the number of all jobs in the list."""
        fixed, shape = fixed_by({"role": list(query.roles)}), query if is_counted(query.statuses) else None
        listed = Listed(JobRow, matching(query), shape, fixed, DOCUMENTS, asks_for_status=bool(query.statuses))
        with self._reading() as tx:
            rows, count = read_page(tx, self._jobs, listed, page)
            return as_seen(with_wait_reasons(tx, rows)), count()

    @_read_again
    def document(self, job_id: str) -> Document | None:
        """Return the submitted document of a job."""
        with self._reading() as tx:
            return tx.document(job_id)

    @_read_again
    def history(self, job_id: str) -> tuple[HistoryEntry, ...] | None:
        """Return the history of a job, in order; None if the job is unknown here."""
        with self._reading() as tx:
            return tx.history(job_id) if tx.jobs_here(job_id) else None

    @_read_again
    def snapshot(self, job_id: str) -> JobSnapshot | None:
        """Return what is known here of a job, to explain its state; None if the job is unknown."""
        with self._reading() as tx:
            return snapshot_of(tx, job_id)

    @_read_again
    def queue(self, limit: int, offset: int) -> QueuePage:
        """Return, in order, `limit` jobs of the queue behind the first `offset`."""
        with self._reading() as tx:
            return queue_page(tx, limit, offset)

    # ------------------------------------------------------------------ tasks

    @_read_again
    def tasks(self, filters: Mapping[str, Any], page: Page = OLDEST) -> list[Row]:
        """Return a page of the party tasks that the filters select, in their newest version; empty without a usable
        filter."""
        where = conditions(TaskRow, filters)
        if where is None:
            return []
        with self._reading() as tx:
            listed = Listed(TaskRow, where & is_newest_version(), None, fixed_by(filters))
            return as_seen(read_page(tx, self._tasks, listed, page)[0])

    @_read_again
    def task_list(self, filters: Mapping[str, Any], page: Page) -> tuple[list[Row], int]:
        """Return a page of party tasks, in all versions, and the number of all in the list."""
        where, shape = conditions(TaskRow, filters), shape_of(TaskRow, filters, TASK_STAYS)
        listed = Listed(TaskRow, where, shape, fixed_by(filters), DOCUMENTS)
        with self._reading() as tx:
            rows, count = read_page(tx, self._tasks, listed, page)
            return as_seen(rows), count()

    # ------------------------------------------------------------------ resources

    @_read_again
    def jobs_that_hold(self) -> list[Row]:
        """Return the jobs with a reservation here."""
        columns = (JobRow.f_job_id, JobRow.f_role, JobRow.f_party_id, JobRow.f_cores, JobRow.f_memory)
        # Ended jobs hold nothing, so the condition on the status only lets the database use its index.
        holds = JobRow.f_status.in_([status.value for status in JOB_UNFINISHED]) & (
            JobRow.f_resource_in_use == True  # noqa: E712
        )
        with self._reading():
            return list(JobRow.select(*columns).where(holds).order_by(JobRow.f_create_time).dicts())

    @_read_again
    def engine(self, name: str = "") -> Row:
        """Return the row of the computing engine, with this name if one is given; empty if there is none."""
        where = EngineRow.f_engine_type == COMPUTING
        if name:
            where &= EngineRow.f_engine_name == name
        with self._reading():
            row = EngineRow.select().where(where).dicts().first()
        return decoded(row) if row else {}

    # ------------------------------------------------------------------ results

    @_read_again
    def table(self, namespace: str, name: str) -> TableMeta | None:
        with self._reading() as tx:
            return tx.table(namespace, name)

    @_read_again
    def outputs(self, job_id: str, task: str, party: Party) -> list[tuple[OutputTable, TableMeta | None]]:
        """Return the tables that the newest version of a party task has published; None for a table that was deleted or
        rewritten since."""
        with self._reading() as tx:
            return [(one, handed_on(tx, one)) for one in published(tx, job_id, task, party)]

    @_read_again
    def output_rows(self, filters: Mapping[str, Any]) -> list[Row]:
        """Return the rows about output tables that the filters select; empty without a usable filter."""
        with self._reading():
            where = conditions(OutputRow, filters)
            if where is None:
                return []
            where &= OutputRow.f_data_name != READ
            query = OutputRow.select().where(where).order_by(OutputRow.f_job_id, OutputRow.f_task_id)
            return list(query.limit(MOST_ROWS).dicts())

    @_read_again
    def metrics(self, job_id: str, task: str, party: Party) -> tuple[Metric, ...]:
        with self._reading() as tx:
            return tx.metrics(job_id, task, party)

    @_read_again
    def summary(self, job_id: str, task: str, party: Party) -> Mapping[str, Any] | None:
        with self._reading() as tx:
            return tx.summary(job_id, task, party)

    @_read_again
    def uploads(self, limit: int, job_id: str = "") -> list[Row]:
        """Return the uploads here, newest first: `{job_id, info, notes, schema}`."""
        where = MetricRow.f_metric_namespace == "upload"
        if job_id:
            where &= MetricRow.f_job_id == job_id
        with self._reading():
            query = MetricRow.select(MetricRow.f_job_id, MetricRow.f_meta).where(where)
            found = list(query.order_by(MetricRow.f_id.desc()).limit(min(limit, MOST_ROWS)).tuples())
            return [_upload(job_id, json.loads(meta)) for job_id, meta in found]

    # ------------------------------------------------------------------ reading

    @contextmanager
    def _reading(self) -> Iterator[SqlTransaction]:
        """Open a snapshot. Raises StorageFailed if the database does not answer."""
        assert JobRow._meta.database is self._database, "a process has one database: the models are bound to it"
        with reading_refused(self._database):
            self._database.connect(reuse_if_open=True)
            with self._database.atomic():
                yield SqlTransaction(self._database, None)


def _initiator_first(rows: list[Row]) -> list[Row]:
    """Return the rows in the order of their jobs; of several seats of a job, the initiator's first."""
    order: dict[str, int] = {}
    for row in rows:
        order.setdefault(row["f_job_id"], len(order))
    return sorted(rows, key=lambda row: (order[row["f_job_id"]], not row["f_is_initiator"]))


def _upload(job_id: str, meta: Mapping[str, Any]) -> Row:
    info = {key: meta.get(key) for key in ("table_name", "namespace", "partition", "upload_count", "replaced_rows")}
    notes = JobRow.select(JobRow.f_description).where(JobRow.f_job_id == job_id).scalar()
    is_its_table = (
        (StorageTableRow.f_namespace == info["namespace"])
        & (StorageTableRow.f_name == info["table_name"])
        & (StorageTableRow.f_job_id == job_id)
    )
    schema = StorageTableRow.select(StorageTableRow.f_schema).where(is_its_table).scalar()
    return {"job_id": job_id, "info": info, "notes": notes or "", "schema": json.loads(schema) if schema else {}}
