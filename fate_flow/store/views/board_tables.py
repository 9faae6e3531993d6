"""The queries of the board about tables of this party: which there are, who may use one, where it is from and where it
went, as far as that is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.access.permission import ALL, Kind
from fate_flow.store.database.access_models import PermissionRow
from fate_flow.store.database.models import JobRow, StorageTableRow
from fate_flow.store.database.result_rows import OutputRow
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.values import READ, OutputTable, TableMeta
from fate_flow.store.views import board
from fate_flow.store.views.board import MOST_SEARCHED, PAGE, count_reviews, number_of
from fate_flow.store.views.columns import read_by

MOST_USES = 100


@dataclass(frozen=True)
class ListedTable:
    namespace: str
    name: str
    count: int
    columns: int
    job_id: str                  # that has written it; empty if none has
    create_time: int
    is_disabled: bool

    @property
    def place(self) -> str:
        """From where the list goes on behind this table."""
        return json.dumps([self.create_time, self.namespace, self.name])


@dataclass(frozen=True)
class TablesPage:
    rows: tuple[ListedTable, ...]
    next: str                    # from where the list goes on; empty: that was all
    count: int                   # of all tables of the list
    is_counted: bool             # False: there are more
    reviews: int


@dataclass(frozen=True)
class Use:
    """A task that has read a table, handed it on, or made it."""

    job_id: str
    task: str
    version: int
    role: str
    party_id: str
    data_name: str               # READ if it has only read it


@dataclass(frozen=True)
class TableDetails:
    table: TableMeta
    granted: tuple[str, ...]     # ids of the parties that may use it
    granted_all: tuple[str, ...] # of those that may use every table
    uses: tuple[Use, ...]        # the newest `MOST_USES` in the newest `MOST_SEARCHED` jobs
    sources: tuple[OutputTable, ...]     # that the task which has made it has read
    maker: OutputTable | None
    reviews: int


def tables_page(origin: str, namespace: str, behind: tuple[int, str, str] | None) -> TablesPage:
    """Return the tables of an origin, newest first."""
    row = StorageTableRow.alias("listed")
    source = read_by(row, "listed", "ix_table_namespace" if namespace else "ix_table_age")
    where = row.f_origin == origin
    if namespace:
        where &= row.f_namespace == namespace
    # MariaDB sorts all tables of a namespace if the order names what is the same for all of them.
    order = (row.f_create_time.desc(), *([] if namespace else [row.f_namespace.desc()]), row.f_name.desc())
    listed = row.select(row.f_name).from_(source).where(where).order_by(*order[: 0 if namespace else 1])
    count, is_counted = number_of(listed, board.MOST_COUNTED)
    if behind is not None:
        at, of, name = behind
        inside = (row.f_namespace < of) | ((row.f_namespace == of) & (row.f_name < name))
        where &= (row.f_create_time <= at) & ((row.f_create_time < at) | inside)
    query = row.select(
        row.f_namespace, row.f_name, row.f_count, row.f_schema, row.f_job_id, row.f_create_time, row.f_disable
    ).from_(source).where(where)  # fmt: skip
    rows = [
        ListedTable(of, name, count or 0, 1 + len(json.loads(schema).get("header", ())), job_id, at or 0, bool(off))
        for of, name, count, schema, job_id, at, off in query.order_by(*order).limit(PAGE + 1).tuples()
    ]  # fmt: skip
    following = rows[PAGE - 1].place if len(rows) > PAGE else ""
    return TablesPage(tuple(rows[:PAGE]), following, count, is_counted, count_reviews())


def table_details(tx: SqlTransaction, namespace: str, name: str) -> TableDetails | None:
    table = tx.table(namespace, name)
    if table is None:
        return None
    row = PermissionRow
    is_it = ((row.f_namespace == namespace) & (row.f_name == name)) | (row.f_name == ALL)
    grants = list(
        row.select(row.f_party_id, row.f_name).where((row.f_kind == Kind.DATASET.value) & is_it)
        .order_by(row.f_party_id).tuples()
    )  # fmt: skip
    maker, sources = _made_from(tx, table) if table.job_id else (None, ())
    return TableDetails(
        table, tuple(party for party, of in grants if of != ALL), tuple(party for party, of in grants if of == ALL),
        _uses(namespace, name), sources, maker, count_reviews(),
    )  # fmt: skip


def _uses(namespace: str, name: str) -> tuple[Use, ...]:
    """Look at the outputs of the newest jobs: no index leads from a table to the tasks that have read it."""
    oldest = JobRow.select(JobRow.f_job_id).order_by(
        JobRow.f_create_time.desc(), JobRow.f_job_id.desc(), JobRow.f_role.desc(), JobRow.f_party_id.desc()
    ).offset(MOST_SEARCHED - 1).limit(1).scalar()  # fmt: skip
    row = OutputRow
    where = (row.f_table_namespace == namespace) & (row.f_table_name == name)
    if oldest:
        where &= row.f_job_id >= oldest
    columns = row.f_job_id, row.f_component_name, row.f_task_version, row.f_role, row.f_party_id, row.f_data_name
    newest = row.select(*columns).where(where).order_by(row.f_job_id.desc(), row.f_task_id, row.f_task_version.desc())
    return tuple(Use(*one) for one in newest.limit(MOST_USES).tuples())


def _made_from(tx: SqlTransaction, table: TableMeta) -> tuple[OutputTable | None, tuple[OutputTable, ...]]:
    """Return the output that a table is, and the tables that its task has read: those that its parameters named, and
    those that other tasks of its job had made for it."""
    results = tx.results_of(table.job_id)
    maker = next((
        one for one in results
        if (one.namespace, one.name) == (table.namespace, table.name) and one.data_name != READ
    ), None)  # fmt: skip
    if maker is None:
        return None, ()
    document = tx.document(table.job_id)
    inputs = _inputs(document.dsl if document is not None else {}, maker.task.name)
    found = [one for one in results if one.data_name == READ and one.task == maker.task]
    found += [
        one for one in results
        if one.task.party == maker.task.party and (one.task.name, one.data_name) in inputs
    ]  # fmt: skip
    return maker, tuple({(one.namespace, one.name): one for one in found}.values())


def _inputs(dsl: Mapping[str, Any], task: str) -> set[tuple[str, str]]:
    """Return task and output of each data input."""
    given = ((dsl.get("components") or {}).get(task) or {}).get("input") or {}
    data = given.get("data") if isinstance(given, Mapping) else None
    named = [one for listed in data.values() for one in (listed if isinstance(listed, list) else [listed])] if (
        isinstance(data, Mapping)) else []  # fmt: skip
    return {(maker, output) for maker, _, output in (str(one).partition(".") for one in named)}
