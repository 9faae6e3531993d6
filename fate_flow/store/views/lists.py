"""Lists of rows, of which clients see one page: the selected rows, their order, and their number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

from peewee import fn

from fate_flow.core.model.status import JOB_END
from fate_flow.store.contract.changes import SUBMIT_FAILED
from fate_flow.store.database.models import JobRow, TaskRow
from fate_flow.store.database.prepared import can_pack, packed, read_unpacked, select_text
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.views.columns import Row, column_of, rows_from
from fate_flow.store.views.count_cache import CountCache
from fate_flow.store.views.filters import Filters, Span, has_text, not_by_index

MOST_ROWS = 1000


@dataclass(frozen=True)
class Page:
    """A part of a list, and its order."""

    order_by: str                    # create_time, start_time, end_time or elapsed
    is_descending: bool
    limit: int = MOST_ROWS
    offset: int = 0

    @property
    def rows(self) -> int:
        """The most rows that the page has."""
        return min(self.limit, MOST_ROWS)


BY_TIME = "create_time"
_CREATED, _ENDED = "f_create_time", "f_end_time"
NEWEST, OLDEST = Page(BY_TIME, True), Page(BY_TIME, False)


@dataclass(frozen=True)
class JobQuery:
    """Which jobs a list shows; empty fields select nothing."""

    job_id: str = ""                 # a part of the id
    description: str = ""            # a part of the notes
    party_id: str = ""
    partner: str = ""                # a party of the job
    roles: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()


def matching(query: JobQuery) -> Any:
    """Return the condition on jobs that the query means. Jobs that were never accepted are in no list."""
    where = JobRow.f_tag != SUBMIT_FAILED
    for column, part in (
        (JobRow.f_job_id, query.job_id),
        (JobRow.f_description, query.description),
        (JobRow.f_party_id, query.party_id),
        (JobRow.f_roles, query.partner),
    ):
        if part:
            where &= has_text(JobRow._meta.database, column, part)
    if query.roles:
        where &= JobRow.f_role.in_(query.roles)
    if query.statuses:
        status = not_by_index(JobRow.f_status) if is_counted(query.statuses) else JobRow.f_status
        where &= status.in_(query.statuses)
    return where


@dataclass(frozen=True)
class Listed:
    """A list of rows of a table, from which pages are read."""

    model: Any
    fields: tuple[str, ...]          # what its rows have (store/views/columns.py)
    where: Any                       # None: all rows
    shape: Hashable | None           # identifies `where`; None: it uses columns that may change in a settled row
    fixed: frozenset[str]            # columns with the same value in all rows
    asks_for_status: bool = False
    is_newest: bool = False          # only the newest version of each party task, of the rows that `where` selects

    def age(self, by: str) -> str:
        """Return the age column of the rows, for this order (store/views/count_cache.py)."""
        is_by_end = self.asks_for_status or by != _CREATED
        return _ENDED if is_by_end and self.model is JobRow else _CREATED

    def count(self) -> int:
        """Count the rows in the database, without the cache."""
        return int(self._selected(self.model.select()).count())

    def rows(self, page: Page, within: Any = None) -> list[Row]:
        """Return the rows of a page."""
        can = can_pack(self.model._meta.database, (column_of(self.model, name) for name in self.fields))
        found = read_unpacked(
            lambda is_packed: self._read(page, within, is_packed=is_packed), True if can else None, plain=False
        )
        return rows_from(found, self.model, self.fields)

    def _read(self, page: Page, within: Any, *, is_packed: bool) -> Sequence[tuple[Any, ...]]:
        database = self.model._meta.database
        of = (self.model, self.fields, self.fixed, self.is_newest, page.order_by, page.is_descending, is_packed)
        text, values = select_text(
            database, of, (self.where, within), (page.rows, page.offset),
            lambda: self._query(page, within, is_packed=is_packed),
        )  # fmt: skip
        found: Sequence[tuple[Any, ...]] = database.execute_sql(text, values).fetchall()
        return found

    def _query(self, page: Page, within: Any, *, is_packed: bool) -> Any:
        """Return the query for a page. Of skipped rows only the index is read, because rows may be large."""
        key = self.model._meta.primary_key.field_names
        chosen = self._selected(self.model.select(*(getattr(self.model, name) for name in key)), within)
        chosen = chosen.order_by(*self._order(self.model, page)).limit(page.rows).offset(page.offset)
        row = self.model.alias()
        columns = [getattr(row, f"f_{name}") for name in self.fields]
        same = [getattr(row, name) == getattr(chosen.c, name) for name in key]
        selected = [packed(columns)] if is_packed else columns
        return row.select(*selected).join(chosen, on=reduce(and_, same)).order_by(*self._order(row, page))

    def _selected(self, query: Any, within: Any = None) -> Any:
        for condition in (self.where, within, is_newest_version() if self.is_newest else None):
            query = query if condition is None else query.where(condition)
        return query

    def _order(self, row: Any, page: Page) -> list[Any]:
        """Return the order without columns that have one value: with them, MariaDB would sort all rows instead of using
        an index."""
        names = (f"f_{page.order_by}", *self.model._meta.primary_key.field_names)
        fields = [getattr(row, name) for name in names if name not in self.fixed]
        return [field.desc() if page.is_descending else field for field in fields]


JOB_SETTLES = frozenset({"role", "party_id", "status"})
TASK_STAYS = frozenset({"role", "party_id", "component_name"})
"""Columns that do not change any more, for a job after its end. The job id is left out: it selects few rows anyway."""

_ENDS = frozenset(status.value for status in JOB_END)


def is_counted(statuses: Collection[Any]) -> bool:
    """Return whether the count of the list is cached. Unfinished jobs are few, and are found by their status."""
    return not statuses or any(status in _ENDS for status in statuses)


def choices_of(filters: Filters, name: str) -> tuple[Any, ...]:
    """Return the values that a field may have after these filters; empty if no filter names values of it."""
    wanted = filters.get(name)
    if wanted is None or isinstance(wanted, Span):
        return ()
    return wanted if isinstance(wanted, tuple) else (wanted,)


def shape_of(filters: Filters, stays: frozenset[str]) -> Hashable | None:
    """Return a key that identifies the filters; None if they use columns that may change."""
    return frozenset(filters.items()) if filters.keys() <= stays else None


def fixed_by(filters: Filters) -> frozenset[str]:
    """Return the columns that have a single value after these filters."""
    return frozenset(f"f_{name}" for name in filters if len(choices_of(filters, name)) == 1)


def is_newest_version() -> Any:
    """Return the condition for the newest version of each party task."""
    other = TaskRow.alias()
    newest = other.select(fn.MAX(other.f_task_version)).where(
        (other.f_job_id == TaskRow.f_job_id)
        & (other.f_task_id == TaskRow.f_task_id)
        & (other.f_role == TaskRow.f_role)
        & (other.f_party_id == TaskRow.f_party_id)
    )
    return TaskRow.f_task_version == newest


def read_page(
    tx: SqlTransaction, count_cache: CountCache, listed: Listed, page: Page
) -> tuple[list[Row], Callable[[], int]]:
    """Return the rows of a page, and a function that gives the number of rows of the list."""
    if listed.shape is None:
        return listed.rows(page), listed.count
    by = f"f_{page.order_by}"
    counted = count_cache.count(listed.where, listed.shape, tx.forgotten(), by=by, age=listed.age(by))
    if counted.by != by:
        return listed.rows(page), lambda: counted.total
    rows: list[Row] = []
    for span in counted.spans(page.offset, page.rows, is_descending=page.is_descending):
        part = replace(page, offset=span.offset, limit=page.rows - len(rows))
        rows += listed.rows(part, count_cache.within(by, span.bucket))
    return rows, lambda: counted.total
