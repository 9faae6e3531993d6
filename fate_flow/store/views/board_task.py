"""The queries of the board about one task: its attempts, the workers of one of them, and what it has made here.

An attempt of a task is a version; each has its own rows of everything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peewee import JOIN, fn

from fate_flow.core.model.job import Job, Task, TaskKey, Worker
from fate_flow.core.planning.replicas import COLLECTOR
from fate_flow.store.database.models import StorageTableRow, TaskRow, WorkerRow
from fate_flow.store.database.result_rows import MetricRow, OutputRow, SummaryRow
from fate_flow.store.database.rows import TASK_COLUMNS, WORKER_COLUMNS, task_of, worker_of
from fate_flow.store.sql.results import metric_of
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.values import READ, Metric, StoredModel
from fate_flow.store.views.board import Moment, this_moment
from fate_flow.store.views.job_names import names_of

MOST_SHARES = 200
WORKERS_PAGE = 100


@dataclass(frozen=True)
class MadeTable:
    """An output table of a party task. `is_there`: it was neither deleted nor rewritten by another job since."""

    data_name: str
    namespace: str
    name: str
    count: int
    columns: int
    is_there: bool


@dataclass(frozen=True)
class TaskShares:
    """The attempts of a task, in the rows that this party has of all parties, newest first."""

    jobs: tuple[Job, ...]                # the rows of the job here
    shares: tuple[Task, ...]             # the newest `MOST_SHARES` of these attempts
    count: int                           # of all shares of these attempts
    until: int | None                    # the version of the last of these attempts; None: of all
    job_names: Mapping[str, str]         # of the job, by its id
    now: Moment

    @property
    def reviews(self) -> int:
        """How many jobs wait for an approval of this party."""
        return self.now.reviews

    @property
    def next(self) -> int | None:
        """The version with which the attempts go on that are not among these; None if there is none."""
        if len(self.shares) == self.count:
            return None
        last = self.shares[-1].key.version
        if last < self.shares[0].key.version:
            return last                  # some shares of it may be missing
        return last - 1 if last > 0 else None

    @property
    def newest(self) -> tuple[Task, ...]:
        """The shares of the newest version of the task, if they are among these."""
        if self.until is not None:
            return ()
        return tuple(one for one in self.shares if one.key.version == self.shares[0].key.version)


@dataclass(frozen=True)
class WorkerPlace:
    """The place of a worker among those of an attempt: by slot, and of a slot the newest process first."""

    slot: int
    attempt: int
    worker_id: str


@dataclass(frozen=True)
class ShareDetails:
    """What one attempt has left at this party."""

    workers: tuple[Worker, ...]          # a page of them
    next: WorkerPlace | None             # from where the workers go on; None: these were the last ones
    worker_count: int
    failed: int                          # workers that ended otherwise than by being done
    tables: tuple[MadeTable, ...]
    files: Mapping[str, Any]             # by output
    models: tuple[StoredModel, ...]
    metric_count: int                    # pieces of metrics


def task_shares(tx: SqlTransaction, job_id: str, name: str, until: int | None) -> TaskShares | None:
    """Return the attempts of a task, those up to the version `until` if it is given; None if the job is unknown
    here."""
    jobs = tx.jobs_here(job_id)
    if not jobs:
        return None
    is_it = (TaskRow.f_job_id == job_id) & (TaskRow.f_task_id == f"{job_id}_{name}")
    if until is not None:
        is_it &= TaskRow.f_task_version <= until
    every = fn.COUNT(TaskRow.f_job_id).over()           # also of those behind the limit
    newest = TaskRow.select(*TASK_COLUMNS, every).where(is_it).order_by(
        TaskRow.f_task_version.desc(), TaskRow.f_role, TaskRow.f_party_id
    )
    found = list(newest.limit(MOST_SHARES).tuples())
    shares, count = tuple(task_of(row[:-1]) for row in found), int(found[0][-1]) if found else 0
    by_initiator = tuple(sorted(jobs, key=lambda job: not job.is_initiator))
    return TaskShares(by_initiator, shares, count, until, names_of([job_id]), this_moment())


def share_details(tx: SqlTransaction, key: TaskKey, behind: WorkerPlace | None) -> ShareDetails:
    """Return what one attempt of a task has left at this party, with the workers behind this place."""
    row = WorkerRow
    is_worker = _of(row, key) & (row.f_slot != COLLECTOR)
    ended_badly = row.f_reason.is_null(False) & (row.f_reason != "done")
    summary = SummaryRow.select(SummaryRow.f_summary).where(_of(SummaryRow, key)).limit(1)
    metrics = MetricRow.select(fn.COUNT(MetricRow.f_id)).where(_of(MetricRow, key))
    counted = row.select(fn.COUNT(row.f_worker_id), fn.SUM(ended_badly), summary, metrics).where(is_worker)
    worker_count, failed, written, metric_count = counted.tuples().first()
    where = is_worker
    if behind is not None:
        earlier = (row.f_attempt < behind.attempt) | (
            (row.f_attempt == behind.attempt) & (row.f_worker_id > behind.worker_id)
        )
        where &= (row.f_slot > behind.slot) | ((row.f_slot == behind.slot) & earlier)
    in_order = row.select(*WORKER_COLUMNS).where(where).order_by(row.f_slot, row.f_attempt.desc(), row.f_worker_id)
    found = [worker_of(one) for one in in_order.limit(WORKERS_PAGE + 1).tuples()]
    workers = tuple(found[:WORKERS_PAGE])
    last = WorkerPlace(workers[-1].slot, workers[-1].attempt, workers[-1].worker_id) if workers else None
    files = (json.loads(written) or {}).get("files") if written else None
    return ShareDetails(
        workers, last if len(found) > WORKERS_PAGE else None, int(worker_count), int(failed or 0), _tables(key),
        files if isinstance(files, dict) else {}, models_of_share(tx, key), int(metric_count),
    )  # fmt: skip


def models_of_share(tx: SqlTransaction, key: TaskKey) -> tuple[StoredModel, ...]:
    """Return the models in the store of this party that one attempt has made."""
    return tuple(
        one for one in tx.models_of_job(key.job_id)
        if (one.party, one.reference.task, one.task_version) == (key.party, key.name, key.version)
    )


def metrics_of_share(key: TaskKey) -> tuple[Metric, ...]:
    """Return the metrics of one attempt, in pieces, as they were saved."""
    return tuple(metric_of(row) for row in MetricRow.select().where(_of(MetricRow, key)).order_by(MetricRow.f_id))


def newest_piece(key: TaskKey) -> int:
    """Return the number of the last piece of a metric of an attempt; 0: it has none."""
    return int(MetricRow.select(fn.MAX(MetricRow.f_id)).where(_of(MetricRow, key)).scalar() or 0)


def _tables(key: TaskKey) -> tuple[MadeTable, ...]:
    table = StorageTableRow
    is_it = (OutputRow.f_table_namespace == table.f_namespace) & (OutputRow.f_table_name == table.f_name)
    query = (
        OutputRow.select(
            OutputRow.f_data_name, OutputRow.f_table_namespace, OutputRow.f_table_name, OutputRow.f_written_by,
            table.f_count, table.f_schema, table.f_job_id,
        )
        .join(table, JOIN.LEFT_OUTER, on=is_it)
        .where(_of(OutputRow, key) & (OutputRow.f_data_name != READ))
        .order_by(OutputRow.f_data_name)
    )  # fmt: skip
    found = []
    for data_name, namespace, name, written_by, count, schema, job_id in query.tuples():
        is_there = schema is not None and written_by in ("", job_id)
        columns = 1 + len(json.loads(schema).get("header", ())) if is_there else 0
        found.append(MadeTable(data_name, namespace, name, (count or 0) if is_there else 0, columns, is_there))
    return tuple(found)


def _of(model: Any, key: TaskKey) -> Any:
    return (
        (model.f_job_id == key.job_id)
        & (model.f_component_name == key.name)
        & (model.f_task_version == key.version)
        & (model.f_role == key.party.role)
        & (model.f_party_id == key.party.party_id)
    )
