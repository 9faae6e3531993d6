"""The board's list of jobs, which `flow job list` shows, too: pages by the key of their last row, and their number; and
what failed last.

No request looks at more than a bounded number of jobs, so a list costs the same whatever has ended here before. The
number of all jobs that fit is known up to `MOST_COUNTED`; beyond it, `count_piece` counts on, a piece for each request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from peewee import SQL, Case, fn

from fate_flow.core.model.status import JobStatus
from fate_flow.store.contract.changes import SUBMIT_FAILED
from fate_flow.store.database.models import JobRow, SubmissionRow, TaskRow
from fate_flow.store.views import board
from fate_flow.store.views.board import JOB_FIELDS, PAGE, number_of
from fate_flow.store.views.columns import Row, read_by, read_rows
from fate_flow.store.views.filters import has_text

COUNTED_AT_ONCE = 200_000
"""Jobs that one request counts where an index has all that the filters ask for; else `MOST_SEARCHED`."""


@dataclass(frozen=True)
class JobSearch:
    """Which jobs a list has; empty: all."""

    status: str = ""
    text: str = ""               # a part of the name or the notes, or the beginning of the id
    party: str = ""              # the id of a party that takes part
    person: str = ""             # the name of who has submitted, approved, rejected or held it here
    component: str = ""          # the name of a task, or the module that it runs
    after: int = 0               # created at this time or later, in milliseconds
    before: int = 0              # created before it

    @property
    def reads_rows(self) -> bool:
        """Whether the rows of jobs have to be read to know which of them fit: no index has what is asked for."""
        return bool(self.text or self.party or self.person or self.component)


@dataclass(frozen=True)
class Place:
    """The key of a row in a list by age."""

    create_time: int
    job_id: str
    role: str
    party_id: str


@dataclass(frozen=True)
class JobsPage:
    rows: list[Row]
    next: Place | None           # from where the next page goes on; None: that was all
    looked_at: int               # as many jobs as one request may read, and the search ended there; 0: it did not
    count: int                   # of all jobs that fit, on all pages
    is_counted: bool             # False: there are more than `count`, or there may be

    @property
    def is_cut(self) -> bool:
        """Whether older jobs may fit that the search has not looked at."""
        return self.looked_at > 0


@dataclass(frozen=True)
class CountedPiece:
    """How many jobs fit of those that one request has looked at."""

    count: int
    looked_at: int
    next: Place | None           # where the counting goes on; None: that was all


@dataclass(frozen=True)
class FailedJobs:
    """The jobs that failed last, and how many there are."""

    rows: list[Row]
    count: int
    is_counted: bool             # False: older ones were not looked at, so there may be more


def jobs_page(
    search: JobSearch, before: Place | None, limit: int = PAGE, fields: Sequence[str] = JOB_FIELDS
) -> JobsPage:
    """Return a page of jobs with these fields, newest first, that are older than the place."""
    where = _where(search)
    if not search.reads_rows:
        rows = _newest(_behind(where, before), limit + 1, fields)
        count, is_counted = number_of(_keys(where), board.MOST_COUNTED)
        following = _place_of(rows[limit - 1]) if len(rows) > limit else None
        return JobsPage(rows[:limit], following, 0, count, is_counted)
    searched = _keys(_behind(where, before)).limit(board.MOST_SEARCHED)
    row, query = _found_in(searched, search, fields)
    query = query.order_by(
        row.f_create_time.desc(), row.f_job_id.desc(), row.f_role.desc(), row.f_party_id.desc()
    )
    rows = read_rows(query.limit(limit + 1), JobRow, fields)
    if len(rows) > limit:
        return JobsPage(rows[:limit], _place_of(rows[limit - 1]), 0, limit, False)
    last = _last_of(_behind(where, before), board.MOST_SEARCHED)
    looked_at = 0 if last is None else board.MOST_SEARCHED
    return JobsPage(rows, last, looked_at, len(rows), last is None and before is None)


def count_piece(search: JobSearch, before: Place | None) -> CountedPiece:
    """Count the jobs that fit among the newest ones that are older than the place, as many as one request may read."""
    where, most = _behind(_where(search), before), board.MOST_SEARCHED if search.reads_rows else COUNTED_AT_ONCE
    keys = _keys(where).limit(most)
    last = _last_of(where, most)
    looked_at = most if last is not None else number_of(_keys(where), most)[0]
    if not search.reads_rows:
        return CountedPiece(looked_at, looked_at, last)
    _row, query = _found_in(keys, search, ("job_id",))
    return CountedPiece(number_of(query, most)[0], looked_at, last)


def failed_since(since: int, limit: int, fields: Sequence[str]) -> FailedJobs:
    """Return the jobs that failed or timed out since that time (ms), the one that ended last first, and their number.

    The order of the ends has an index, which has the status, too: only the rows that are returned are read."""
    ended = JobRow.select(*_KEY[1:], JobRow.f_end_time, JobRow.f_status, JobRow.f_tag)
    order = (JobRow.f_end_time.desc(), *(one.desc() for one in _KEY[1:]))
    ended = ended.where(JobRow.f_end_time >= since).order_by(*order)
    newest = ended.limit(board.MOST_SEARCHED).alias("ended")
    failed = newest.c.f_status.in_([JobStatus.FAILED.value, JobStatus.TIMEOUT.value])
    failed &= newest.c.f_tag != SUBMIT_FAILED
    counts = newest.select_from(fn.COUNT(SQL("1")), fn.SUM(Case(None, ((failed, 1),), 0)))
    looked_at, count = next(iter(counts.tuples()))
    keys = newest.select_from(newest.c.f_job_id, newest.c.f_role, newest.c.f_party_id).where(failed)
    chosen, row = keys.order_by(newest.c.f_end_time.desc()).limit(limit).alias("failed"), JobRow.alias("found")
    same = (row.f_job_id == chosen.c.f_job_id) & (row.f_role == chosen.c.f_role)
    query = row.select(*(getattr(row, f"f_{name}") for name in fields)).join(
        chosen, on=same & (row.f_party_id == chosen.c.f_party_id)
    )
    rows = read_rows(query.order_by(row.f_end_time.desc(), row.f_job_id.desc()), JobRow, fields)
    return FailedJobs(rows, int(count or 0), int(looked_at) < board.MOST_SEARCHED)


# ---------------------------------------------------------------------- parts


_KEY = (JobRow.f_create_time, JobRow.f_job_id, JobRow.f_role, JobRow.f_party_id)


def _where(search: JobSearch) -> Any:
    """Return what an index knows of the filters."""
    where = JobRow.f_tag != SUBMIT_FAILED
    if search.status:
        where &= JobRow.f_status == search.status
    if search.after:
        where &= JobRow.f_create_time >= search.after
    if search.before:
        where &= JobRow.f_create_time < search.before
    return where


def _keys(where: Any) -> Any:
    return JobRow.select(*_KEY).where(where).order_by(*(one.desc() for one in _KEY))


def _newest(where: Any, limit: int, fields: Sequence[str]) -> list[Row]:
    columns = [getattr(JobRow, f"f_{name}") for name in fields]
    query = JobRow.select(*columns).where(where).order_by(*(one.desc() for one in _KEY))
    return read_rows(query.limit(limit), JobRow, fields)


def _found_in(keys: Any, search: JobSearch, fields: Sequence[str]) -> tuple[Any, Any]:
    """Return, of the jobs with these keys, a query for those that fit, and its table."""
    chosen, row = keys.alias("chosen"), JobRow.alias("found")
    same = (row.f_job_id == chosen.c.f_job_id) & (row.f_role == chosen.c.f_role)
    same &= row.f_party_id == chosen.c.f_party_id
    query = row.select(*(getattr(row, f"f_{name}") for name in fields)).join(chosen, on=same)
    for condition in _read_in_rows(row, search):
        query = query.where(condition)
    return row, query


def _read_in_rows(row: Any, search: JobSearch) -> list[Any]:
    found = []
    if search.text:
        texts = (has_text(JobRow._meta.database, one, search.text) for one in (row.f_name, row.f_description))
        found.append(reduce(or_, texts, row.f_job_id.startswith(search.text)))
    if search.party:
        found.append(_names_party(row, search.party))
    if search.person:
        submits = SubmissionRow.select(SQL("1")).where(
            (SubmissionRow.f_job_id == row.f_job_id) & (SubmissionRow.f_by == search.person)
        )
        # The condition on the initiator spares the look at what this party has not submitted.
        has_submitted = (row.f_is_initiator == True) & _has(submits)  # noqa: E712
        found.append(_is_of(row.f_approval_by, search.person) | _is_of(row.f_hold_by, search.person) | has_submitted)
    if search.component:
        # Each is one look into an index, however many tasks the job has; both in one condition would read them all.
        task = TaskRow.alias("task")
        found.append(
            _has_task(row, task, "ix_task_name", task.f_component_name == search.component)
            | _has_task(row, task, "ix_task_module", task.f_component_module == search.component)
        )
    return found


def _has_task(row: Any, task: Any, index: str, condition: Any) -> Any:
    tasks = task.select(SQL("1")).from_(read_by(task, "task", index))
    return _has(tasks.where((task.f_job_id == row.f_job_id) & condition))


def _has(rows: Any) -> Any:
    """Return whether a query of the row finds one. For EXISTS, MariaDB would read the whole table first."""
    return fn.COALESCE(rows.limit(1), 0) == 1


def _is_of(by: Any, person: str) -> Any:
    """Return whether this is the name of a client or, behind it in brackets, the name that somebody has typed."""
    first, last = f"{person} (", f" ({person})"
    # LIKE would regard names of different people as equal on SQLite.
    return (by == person) | (fn.SUBSTR(by, 1, len(first)) == first) | (fn.SUBSTR(by, -len(last)) == last)


def _last_of(where: Any, most: int) -> Place | None:
    """Return the last of so many places; None if there are no more jobs than that."""
    query = _keys(where).offset(most - 1).limit(2)
    found = [Place(*key) for key in query.tuples()]
    return found[0] if len(found) > 1 else None


def _behind(where: Any, place: Place | None) -> Any:
    if place is None:
        return where
    created, job_id, role, party_id = _KEY
    same_time, same_job = created == place.create_time, job_id == place.job_id
    inside = (role < place.role) | ((role == place.role) & (party_id < place.party_id))
    # The first condition is what an index can use.
    return where & (created <= place.create_time) & (
        (created < place.create_time) | (same_time & ((job_id < place.job_id) | (same_job & inside)))
    )


def _place_of(row: Row) -> Place:
    return Place(row["create_time"], row["job_id"], row["role"], row["party_id"])


def _names_party(row: Any, party_id: str) -> Any:
    """Return whether the id stands in the lists of parties as a whole number, and not within a longer one."""
    around = [("[", "]"), ("[", ","), (" ", ","), (" ", "]"), (",", ","), (",", "]")]
    found = None
    for before, after in around:
        one = row.f_roles.contains(f"{before}{party_id}{after}")
        found = one if found is None else found | one
    return found
