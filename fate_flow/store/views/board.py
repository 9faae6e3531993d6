"""The queries of the board. Each page costs a fixed number of queries, whatever has ended here before.

Lists are paged by the key of their last row and not counted: counting a history costs as much as the history is long.
A search for a text looks at a bounded number of jobs, and says how far it has looked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

from peewee import fn

from fate_flow.core.model.approval import Approval
from fate_flow.core.model.job import Hold
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.status import JOB_UNFINISHED, JobStatus
from fate_flow.core.planning.queue import why_it_waits
from fate_flow.core.record.log import Evidence
from fate_flow.store.contract.changes import SUBMIT_FAILED
from fate_flow.store.database.models import JobRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import IN_QUEUE, waiting_here
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.views.columns import Row, column_of, read_rows, rows_from
from fate_flow.store.views.server_state import EngineUse, engines_in_use

PAGE = 50
MOST_SEARCHED = 20_000
"""Jobs that one request looks at for a text."""
_SHORT = 8                   # rows of each list of the overview
_ENDED_LATELY = 2_000        # jobs among which the overview looks for those that failed

JOB_FIELDS = (
    "job_id", "role", "party_id", "name", "status", "reason", "message", "caused_by", "create_time", "start_time",
    "end_time", "progress", "initiator_role", "initiator_party_id", "is_initiator", "roles", "priority", "cores",
    "resource_in_use", "wait_reason", "held", "hold_message", "hold_by", "approval", "partial", "blocked_on",
)  # fmt: skip
"""What a row of a list has: no documents and no parameters."""


@dataclass(frozen=True)
class JobSearch:
    """Which jobs a list has; empty: all."""

    status: str = ""
    text: str = ""               # a part of the name or the notes, or the beginning of the id
    party: str = ""              # the id of a party that takes part
    after: int = 0               # created at this time or later, in milliseconds
    before: int = 0              # created before it


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
    is_cut: bool                 # the search has looked at as many jobs as one request may
    reviews: int                 # jobs that this party has to approve


@dataclass(frozen=True)
class Overview:
    steady: int
    seats: dict[tuple[str, str], int]        # unfinished jobs by role and status
    running: list[Row]
    waiting: list[Row]
    failed: list[Row]
    engines: tuple[EngineUse, ...]
    troubles: dict[str, PeerTrouble]
    hold: Hold | None
    evidence: tuple[Evidence, ...]          # of other parties' logs that do not fit together
    reviews: int


def jobs_page(search: JobSearch, before: Place | None) -> JobsPage:
    """Return a page of jobs, newest first, that are older than the place."""
    where = JobRow.f_tag != SUBMIT_FAILED
    if search.status:
        where &= JobRow.f_status == search.status
    if search.after:
        where &= JobRow.f_create_time >= search.after
    if search.before:
        where &= JobRow.f_create_time < search.before
    if before is not None:
        where &= _is_behind(before)
    if not search.text and not search.party:
        rows = _newest(JobRow.select(*_columns()).where(where), PAGE + 1)
        return JobsPage(rows[:PAGE], _place(rows[PAGE - 1]) if len(rows) > PAGE else None, False, count_reviews())
    keys = _ordered(JobRow.select(*_KEY).where(where)).limit(MOST_SEARCHED)
    chosen = keys.alias("chosen")
    row = JobRow.alias("found")
    same = (row.f_job_id == chosen.c.f_job_id) & (row.f_role == chosen.c.f_role)
    same &= row.f_party_id == chosen.c.f_party_id
    query = row.select(*(getattr(row, f"f_{name}") for name in JOB_FIELDS)).join(chosen, on=same)
    query = query.where(_has_text(row, search)).order_by(
        row.f_create_time.desc(), row.f_job_id.desc(), row.f_role.desc(), row.f_party_id.desc()
    )
    rows = read_rows(query.limit(PAGE + 1), JobRow, JOB_FIELDS)
    if len(rows) > PAGE:
        return JobsPage(rows[:PAGE], _place(rows[PAGE - 1]), False, count_reviews())
    last = _last_of(where)
    return JobsPage(rows, last, last is not None, count_reviews())


def _last_of(where: Any) -> Place | None:
    """Return the last place that a search looks at; None if there are no more jobs than it looks at."""
    query = _ordered(JobRow.select(*_KEY).where(where)).offset(MOST_SEARCHED - 1).limit(1)
    return next((Place(created, job_id, role, party) for created, job_id, role, party in query.tuples()), None)


def overview(tx: SqlTransaction) -> Overview:
    holds = tx.intake_hold()
    seats, reviews = _unfinished()
    return Overview(
        tx.steady(), seats, _some(_RUNNING), _waiting(), _some(_failed(_ENDED_LATELY)), engines_in_use(),
        dict(tx.peer_troubles()), holds, tx.evidence(), reviews,
    )  # fmt: skip


def _unfinished() -> tuple[dict[tuple[str, str], int], int]:
    """Return the number of unfinished jobs by role of this party and status, and how many of them wait for an approval
    of this party."""
    seats: Counter[tuple[str, str]] = Counter()
    reviews = 0
    for role, status, approval, count in _UNFINISHED.rows(JobRow._meta.database):
        seats[role, status] += count
        reviews += count if approval == Approval.PENDING.value else 0
    return dict(seats), reviews


def count_reviews() -> int:
    """Return how many jobs wait for an approval of this party."""
    waits = JobRow.f_status.in_([status.value for status in JOB_UNFINISHED])
    return int(JobRow.select().where((JobRow.f_approval == Approval.PENDING.value) & waits).count())


# ---------------------------------------------------------------------- parts


_KEY = (JobRow.f_create_time, JobRow.f_job_id, JobRow.f_role, JobRow.f_party_id)


def _columns() -> list[Any]:
    return [column_of(JobRow, name) for name in JOB_FIELDS]


def _ordered(query: Any) -> Any:
    return query.order_by(*(one.desc() for one in _KEY))


def _newest(query: Any, limit: int) -> list[Row]:
    return read_rows(_ordered(query).limit(limit), JobRow, JOB_FIELDS)


def _is_behind(place: Place) -> Any:
    created, job_id, role, party_id = _KEY
    same_time, same_job = created == place.create_time, job_id == place.job_id
    inside = (role < place.role) | ((role == place.role) & (party_id < place.party_id))
    # The first condition is what an index can use.
    return (created <= place.create_time) & (
        (created < place.create_time) | (same_time & ((job_id < place.job_id) | (same_job & inside)))
    )


def _place(row: Row) -> Place:
    return Place(row["create_time"], row["job_id"], row["role"], row["party_id"])


def _has_text(row: Any, search: JobSearch) -> Any:
    where = None
    if search.text:
        where = row.f_name.contains(search.text) | row.f_description.contains(search.text)
        where |= row.f_job_id.startswith(search.text)
    if search.party:
        takes_part = _names_party(row, search.party)
        where = takes_part if where is None else where & takes_part
    return where


def _names_party(row: Any, party_id: str) -> Any:
    """Return whether the id stands in the lists of parties as a whole number, and not within a longer one."""
    around = [("[", "]"), ("[", ","), (" ", ","), (" ", "]"), (",", ","), (",", "]")]
    found = None
    for before, after in around:
        one = row.f_roles.contains(f"{before}{party_id}{after}")
        found = one if found is None else found | one
    return found


def _waiting() -> list[Row]:
    """Return the first jobs of the queue, each with why it waits."""
    rows = _some(_WAITING)
    for place, row in enumerate(rows, 1):
        hold = Hold(row["hold_message"] or "", row["hold_by"]) if row["held"] else None
        row["wait_reason"] = why_it_waits(row["wait_reason"] or "", place, hold)
    return rows


def _all_failed(most: int) -> Any:
    """Select what failed last, of the jobs that ended last; what users stopped is not among it.

    The order of the ends has an index. By the status alone, all jobs that have ever failed would be sorted."""
    ended = JobRow.select(*_KEY[1:], JobRow.f_end_time, JobRow.f_status, JobRow.f_tag).where(
        JobRow.f_end_time.is_null(False)
    )
    chosen = ended.order_by(JobRow.f_end_time.desc(), *(one.desc() for one in _KEY[1:])).limit(most)
    newest = chosen.alias("ended")
    ends = newest.c.f_status.in_([JobStatus.FAILED.value, JobStatus.TIMEOUT.value])
    failed = (
        newest.select_from(newest.c.f_job_id, newest.c.f_role, newest.c.f_party_id)
        .where(ends & (newest.c.f_tag != SUBMIT_FAILED)).order_by(newest.c.f_end_time.desc()).limit(_SHORT)
        .alias("failed")
    )  # fmt: skip
    row = JobRow.alias("found")
    same = (row.f_job_id == failed.c.f_job_id) & (row.f_role == failed.c.f_role)
    query = row.select(*(getattr(row, f"f_{name}") for name in JOB_FIELDS)).join(
        failed, on=same & (row.f_party_id == failed.c.f_party_id)
    )
    return query.order_by(row.f_end_time.desc())


def _some(query: Prepared) -> list[Row]:
    return rows_from(query.rows(JobRow._meta.database), JobRow, JOB_FIELDS)


def _first(where: Any, *order: Any) -> Any:
    return JobRow.select(*_columns()).where(where).order_by(*order).limit(_SHORT)


@cache
def _failed(most: int) -> Prepared:
    """Return the query for what failed last. `most`: jobs that it looks at."""
    return Prepared(lambda: _all_failed(most), 0)


def _by_kind() -> Any:
    unfinished = JobRow.f_status.in_([status.value for status in JOB_UNFINISHED])
    return JobRow.select(*_KINDS, fn.COUNT(JobRow.f_job_id)).where(unfinished).group_by(*_KINDS)


_KINDS = (JobRow.f_role, JobRow.f_status, JobRow.f_approval)
# The overview is open all day, in many browsers: its text is made once.
_RUNNING = Prepared(lambda: _first(JobRow.f_status == JobStatus.RUNNING.value, JobRow.f_create_time.desc()), 0)
_WAITING = Prepared(lambda: _first(waiting_here(), *IN_QUEUE), 0)
_UNFINISHED = Prepared(_by_kind, 0)
