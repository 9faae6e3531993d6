"""What clients see of the database: rows under FATE's names, read only.

Every method is one snapshot and takes no lock. Lists leave out the columns that hold whole documents, and no answer has
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
    """A read may be repeated as often as `Retry` has it."""

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
        """A page of the jobs that the client's filters mean, in full; none without a usable filter."""
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
        """One page of jobs without their documents, and how many there are in all."""
        fixed, shape = fixed_by({"role": list(query.roles)}), query if is_counted(query.statuses) else None
        listed = Listed(JobRow, matching(query), shape, fixed, DOCUMENTS, asks_for_status=bool(query.statuses))
        with self._reading() as tx:
            rows, count = read_page(tx, self._jobs, listed, page)
            return as_seen(with_wait_reasons(tx, rows)), count()

    @_read_again
    def document(self, job_id: str) -> Document | None:
        """The job as it was submitted."""
        with self._reading() as tx:
            return tx.document(job_id)

    @_read_again
    def history(self, job_id: str) -> tuple[HistoryEntry, ...] | None:
        """What was written down of a job, in order; None when it is not known here."""
        with self._reading() as tx:
            return tx.history(job_id) if tx.jobs_here(job_id) else None

    @_read_again
    def snapshot(self, job_id: str) -> JobSnapshot | None:
        """What is known here of a job, for whoever wants to know how it stands."""
        with self._reading() as tx:
            return snapshot_of(tx, job_id)

    @_read_again
    def queue(self, limit: int, offset: int) -> QueuePage:
        """So many jobs of the queue behind the first `offset`, in its order: found by index, however long it is."""
        with self._reading() as tx:
            return queue_page(tx, limit, offset)

    # ------------------------------------------------------------------ tasks

    @_read_again
    def tasks(self, filters: Mapping[str, Any], page: Page = OLDEST) -> list[Row]:
        """A page of the party tasks that the filters mean, the newest version of each; none without a usable filter."""
        where = conditions(TaskRow, filters)
        if where is None:
            return []
        with self._reading() as tx:
            listed = Listed(TaskRow, where & is_newest_version(), None, fixed_by(filters))
            return as_seen(read_page(tx, self._tasks, listed, page)[0])

    @_read_again
    def task_list(self, filters: Mapping[str, Any], page: Page) -> tuple[list[Row], int]:
        """One page of party tasks, all versions, and how many there are in all."""
        where, shape = conditions(TaskRow, filters), shape_of(TaskRow, filters, TASK_STAYS)
        listed = Listed(TaskRow, where, shape, fixed_by(filters), DOCUMENTS)
        with self._reading() as tx:
            rows, count = read_page(tx, self._tasks, listed, page)
            return as_seen(rows), count()

    # ------------------------------------------------------------------ resources

    @_read_again
    def jobs_that_hold(self) -> list[Row]:
        """What is reserved here, and for whom."""
        columns = (JobRow.f_job_id, JobRow.f_role, JobRow.f_party_id, JobRow.f_cores, JobRow.f_memory)
        # A job that has ended holds nothing, so the index on the status finds the rest.
        holds = JobRow.f_status.in_([status.value for status in JOB_UNFINISHED]) & (
            JobRow.f_resource_in_use == True  # noqa: E712
        )
        with self._reading():
            return list(JobRow.select(*columns).where(holds).order_by(JobRow.f_create_time).dicts())

    @_read_again
    def engine(self, name: str = "") -> Row:
        """The row of the computing engine, of this name if one is given; empty when there is none."""
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
        """The tables that the newest version of a party task has published; None for one that was deleted or written
        anew since."""
        with self._reading() as tx:
            return [(one, handed_on(tx, one)) for one in published(tx, job_id, task, party)]

    @_read_again
    def output_rows(self, filters: Mapping[str, Any]) -> list[Row]:
        """The rows about output tables that the filters mean; none without a usable filter."""
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
        """What was uploaded here, newest first: `{job_id, info, notes, schema}`."""
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
        """One snapshot. Raises StorageFailed when the database does not answer."""
        assert JobRow._meta.database is self._database, "a process has one database: the models are bound to it"
        with reading_refused(self._database):
            self._database.connect(reuse_if_open=True)
            with self._database.atomic():
                yield SqlTransaction(self._database, None)


def _initiator_first(rows: list[Row]) -> list[Row]:
    """The jobs in their order; of several seats of one job, the one that knows most comes first."""
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
