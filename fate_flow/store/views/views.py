"""The queries of the API: values, and rows with the fields that the caller names; read only.

Every method reads one snapshot and takes no lock. No answer has more than `MOST_ROWS` rows (store/views/lists.py).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from peewee import Database

from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.model.job import Claim, JobKey
from fate_flow.core.model.resources import name_in_fate
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_UNFINISHED
from fate_flow.store.contract.transaction import handed_on, published
from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.database.engine_rows import EngineRow
from fate_flow.store.database.models import JobRow, StorageTableRow, TaskRow
from fate_flow.store.database.queries import job_is
from fate_flow.store.database.result_rows import MetricRow, OutputRow
from fate_flow.store.database.rows import parts_of
from fate_flow.store.segment_files import SegmentFiles
from fate_flow.store.sql.resources import COMPUTING
from fate_flow.store.sql.results import metric_of
from fate_flow.store.values import READ, Document, Metric, MetricPiece, OutputTable, TableMeta
from fate_flow.store.views.board_tables import MadeModel, models_made_from
from fate_flow.store.views.board_views import BoardViews
from fate_flow.store.views.columns import Row, column_of, read_rows
from fate_flow.store.views.count_cache import CountCache
from fate_flow.store.views.filters import NO_INDEX, Filters, conditions
from fate_flow.store.views.job_names import JobHead, heads_of
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
    matching,
    read_page,
    shape_of,
)
from fate_flow.store.views.metrics import in_fate_2, joined
from fate_flow.store.views.read_only import ReadOnly, read_again
from fate_flow.store.views.server_state import ServerState, server_state
from fate_flow.store.views.snapshots import JobSnapshot, QueuePage, queue_page, snapshot_of
from fate_flow.store.views.wait_reasons import WAIT_FIELDS, with_wait_reasons


class Views(ReadOnly):
    """The queries of the API. A caller names the `fields` that the rows of a list have (store/views/columns.py)."""

    def __init__(
        self, database: Database, retry: Retry | None = None, segment_files: SegmentFiles | None = None
    ) -> None:
        super().__init__(database, retry, segment_files)
        self.board = BoardViews(database, retry, segment_files)
        self._jobs, self._tasks = CountCache(JobRow), CountCache(TaskRow, changes=TaskRow.f_end_time.is_null())

    # ------------------------------------------------------------------ jobs

    @read_again
    def jobs(self, fields: Collection[str], filters: Filters, page: Page = NEWEST) -> list[Row]:
        """Return a page of the jobs that the filters select, with `WAIT_FIELDS` too; empty without a filter."""
        statuses = choices_of(filters, "status")
        shape = shape_of(filters, JOB_SETTLES) if is_counted(statuses) else None
        where = conditions(JobRow, filters, without_index=frozenset() if shape is None else NO_INDEX)
        if where is None:
            return []
        read = _with_wait_fields(fields)
        listed = Listed(JobRow, read, where, shape, fixed_by(filters), asks_for_status=bool(statuses))
        with self._reading() as tx:
            rows, _ = read_page(tx, self._jobs, listed, page)
            return _initiator_first(with_wait_reasons(tx, rows))

    @read_again
    def job_list(self, fields: Collection[str], query: JobQuery, page: Page) -> tuple[list[Row], int]:
        """Return a page of jobs, with `WAIT_FIELDS` too, and the number of all jobs in the list."""
        fixed = fixed_by({"role": query.roles} if query.roles else {})
        shape = query if is_counted(query.statuses) else None
        read, asks_for_status = _with_wait_fields(fields), bool(query.statuses)
        listed = Listed(JobRow, read, matching(query), shape, fixed, asks_for_status=asks_for_status)
        with self._reading() as tx:
            rows, count = read_page(tx, self._jobs, listed, page)
            return with_wait_reasons(tx, rows), count()

    @read_again
    def job(self, fields: Collection[str], key: JobKey) -> Row | None:
        """Return a job as it is stored; None if it is unknown here."""
        return self._first(JobRow, tuple(fields), job_is(key))

    @read_again
    def job_heads(self, job_ids: Iterable[str]) -> Mapping[str, JobHead]:
        """Return the name, the status and the time of creation of these jobs, by id; unknown ones are left out."""
        ids = set(job_ids)
        if not ids:
            return {}
        with self._reading():
            return heads_of(ids)

    @read_again
    def document(self, job_id: str) -> Document | None:
        """Return the submitted document of a job."""
        with self._one_query() as tx:
            return tx.document(job_id)

    @read_again
    def history(self, job_id: str) -> tuple[HistoryEntry, ...] | None:
        """Return the history of a job, in order; None if the job is unknown here."""
        with self._reading() as tx:
            return tx.history(job_id) if tx.jobs_here(job_id) else None

    @read_again
    def models_made_from(self, namespace: str, name: str) -> tuple[MadeModel, ...]:
        """Return the models that the newest jobs have made from a table, newest first."""
        with self._reading():
            return models_made_from(namespace, name)

    @read_again
    def snapshot(self, job_id: str) -> JobSnapshot | None:
        """Return what is known here of a job, to explain its state; None if the job is unknown."""
        with self._reading() as tx:
            return snapshot_of(tx, job_id)

    @read_again
    def queue(self, limit: int, offset: int, *, for_board: bool = False) -> QueuePage:
        """Return, in order, `limit` jobs of the queue behind the first `offset`; `for_board`: as `queue_page` says."""
        with self._reading() as tx:
            return queue_page(tx, limit, offset, for_board=for_board)

    # ------------------------------------------------------------------ tasks

    @read_again
    def tasks(self, fields: Collection[str], filters: Filters, page: Page = OLDEST) -> list[Row]:
        """Return a page of the party tasks that the filters select, in their newest version; empty without a filter."""
        where = conditions(TaskRow, filters)
        if where is None:
            return []
        listed = Listed(TaskRow, tuple(fields), where, None, fixed_by(filters), is_newest=True)
        with self._reading() as tx:
            return read_page(tx, self._tasks, listed, page)[0]

    @read_again
    def task_list(self, fields: Collection[str], filters: Filters, page: Page) -> tuple[list[Row], int]:
        """Return a page of party tasks, in all versions, and the number of all in the list."""
        where, shape = conditions(TaskRow, filters), shape_of(filters, TASK_STAYS)
        listed = Listed(TaskRow, tuple(fields), where, shape, fixed_by(filters))
        with self._reading() as tx:
            rows, count = read_page(tx, self._tasks, listed, page)
            return rows, count()

    # ------------------------------------------------------------------ resources

    @read_again
    def jobs_that_hold(self, fields: Collection[str]) -> list[Row]:
        """Return what jobs hold here: a row for each engine of which they hold something, the oldest job first.

        The fields have to include cores, memory, gpus and engine_name, which are of this engine."""
        # Ended jobs hold nothing, so the condition on the status only lets the database use its index.
        holds = JobRow.f_status.in_([status.value for status in JOB_UNFINISHED]) & (
            JobRow.f_resource_in_use == True  # noqa: E712
        )
        names = tuple(fields)
        with self._one_query():
            read = (*names, "elsewhere")
            rows = read_rows(_select(JobRow, read).where(holds).order_by(JobRow.f_create_time), JobRow, read)
        return [one for row in rows for one in _at_engines(row)]

    @read_again
    def engine(self, fields: Collection[str], name: str = "") -> Row | None:
        """Return the computing engine, with this name if one is given; None if there is none."""
        where = EngineRow.f_engine_type == COMPUTING
        if name:
            where &= EngineRow.f_engine_name == name
        return self._first(EngineRow, tuple(fields), where)

    @read_again
    def server_state(self) -> ServerState:
        """Return the state of this server in numbers."""
        with self._reading() as tx:
            return server_state(tx)

    # ------------------------------------------------------------------ results

    @read_again
    def table(self, namespace: str, name: str) -> TableMeta | None:
        with self._one_query() as tx:
            return tx.table(namespace, name)

    @read_again
    def outputs(self, job_id: str, task: str, party: Party) -> list[tuple[OutputTable, TableMeta | None]]:
        """Return the tables that the newest version of a party task has published; None for a table that was deleted or
        rewritten since."""
        with self._reading() as tx:
            return [(one, handed_on(tx, one)) for one in published(tx, job_id, task, party)]

    @read_again
    def output_rows(self, fields: Collection[str], filters: Filters) -> list[Row]:
        """Return the rows about output tables that the filters select; empty without a filter."""
        where = conditions(OutputRow, filters)
        if where is None:
            return []
        names = tuple(fields)
        query = _select(OutputRow, names).where(where & (OutputRow.f_data_name != READ))
        with self._one_query():
            ordered = query.order_by(OutputRow.f_job_id, OutputRow.f_task_id)
            return read_rows(ordered.limit(MOST_ROWS), OutputRow, names)

    @read_again
    def metrics(self, job_id: str, task: str, party: Party) -> tuple[Metric, ...]:
        """Return the metrics of the newest version of a party task that has any; each once, as far as it has come."""
        with self._reading() as tx:
            return joined(tx.metrics(job_id, task, party))

    def metrics_in_fate_2(self, job_id: str, task: str, party: Party) -> list[dict[str, Any]]:
        """Return the same as FATE 2's list `{name, type, groups, step_axis, data}`."""
        return in_fate_2(self.metrics(job_id, task, party))

    @read_again
    def metric_pieces(self, job_id: str, after: int, limit: int = MOST_ROWS) -> tuple[MetricPiece, ...]:
        """Return what was saved here of the metrics of a job behind the piece with the number `after`, in order."""
        where = (MetricRow.f_job_id == job_id) & (MetricRow.f_id > after)
        with self._one_query():
            rows = MetricRow.select().where(where).order_by(MetricRow.f_id).limit(min(limit, MOST_ROWS))
            return tuple(MetricPiece(row.f_id, metric_of(row)) for row in rows)

    @read_again
    def summary(self, job_id: str, task: str, party: Party) -> Mapping[str, Any] | None:
        with self._one_query() as tx:
            return tx.summary(job_id, task, party)

    @read_again
    def uploads(self, limit: int, job_id: str = "") -> list[Row]:
        """Return the uploads here, newest first: `{job_id, info, notes, schema}`."""
        where = MetricRow.f_metric_namespace == "upload"
        if job_id:
            where &= MetricRow.f_job_id == job_id
        with self._one_query():
            query = MetricRow.select(MetricRow.f_job_id, MetricRow.f_meta).where(where)
            found = list(query.order_by(MetricRow.f_id.desc()).limit(min(limit, MOST_ROWS)).tuples())
            return [_upload(job_id, json.loads(meta)) for job_id, meta in found]

    # ------------------------------------------------------------------ reading

    def _first(self, model: Any, names: tuple[str, ...], where: Any) -> Row | None:
        with self._one_query():
            return next(iter(read_rows(_select(model, names).where(where).limit(1), model, names)), None)


def _select(model: Any, names: tuple[str, ...]) -> Any:
    return model.select(*(column_of(model, name) for name in names))


def _at_engines(row: Row) -> list[Row]:
    """Return what a job holds, of a row with `elsewhere`: a row for each engine, its own first."""
    parts = tuple(replace(one, engine=name_in_fate(one.engine)) for one in parts_of(row.pop("elsewhere")))
    held = Claim(row["cores"], row["memory"], engine=row["engine_name"], gpus=row["gpus"], elsewhere=parts).by_engine()
    found = [(name, one) for name, one in held.items() if one != Claim()] or list(held.items())
    return [
        {**row, "engine_name": name, "cores": one.cores, "memory": one.memory, "gpus": one.gpus} for name, one in found
    ]


def _with_wait_fields(fields: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*fields, *WAIT_FIELDS)))


def _initiator_first(rows: list[Row]) -> list[Row]:
    """Return the rows in the order of their jobs; of several seats of a job, the initiator's first."""
    order: dict[str, int] = {}
    for row in rows:
        order.setdefault(row["job_id"], len(order))
    return sorted(rows, key=lambda row: (order[row["job_id"]], not row["is_initiator"]))


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
