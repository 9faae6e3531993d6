"""The queries of the board. Each page costs a fixed number of queries, whatever has ended here before.

Counting a history costs as much as the history is long; `job_search.py` says how the list of jobs is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from peewee import SQL, fn

from fate_flow.core.access.key_list import KeyState
from fate_flow.core.model.approval import Approval
from fate_flow.core.model.job import Hold
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.status import JOB_UNFINISHED, JobStatus
from fate_flow.core.planning.queue import why_it_waits
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.store.contract.changes import SUBMIT_FAILED
from fate_flow.store.database.access_models import PartyKeyRow, SiteKeyRow
from fate_flow.store.database.models import IntakeRow, JobRow, PeerRow, SchedulerRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import IN_QUEUE, SCHEDULER, waiting_here
from fate_flow.store.sql.resources import INTAKE
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.views.columns import Row, column_of, rows_from
from fate_flow.store.views.server_state import EngineUse, engines_in_use
from fate_flow.store.views.wait_reasons import Moving, moving_of

PAGE = 50
MOST_SEARCHED = 20_000
"""Jobs that one request looks at for a text."""
MOST_COUNTED = 10_000
"""Up to which number a page of a list counts what fits; in an index."""
ENDED_LATELY = 2_000
"""Jobs that ended last, among which the overview looks for those that failed."""
_SHORT = 8                   # rows of each list of the overview

JOB_FIELDS = (
    "job_id", "role", "party_id", "name", "status", "reason", "message", "caused_by", "create_time", "start_time",
    "end_time", "progress", "initiator_role", "initiator_party_id", "is_initiator", "roles", "priority", "cores",
    "resource_in_use", "wait_reason", "held", "hold_message", "hold_by", "approval", "partial", "blocked_on",
    "target", "stop_by", "restarting",
)  # fmt: skip
"""What a row of a list has: no documents and no parameters."""


@dataclass(frozen=True)
class SavedKeys:
    """What is saved here of the keys of another party: its key list, or one message key alone."""

    state: KeyState | None       # of the list; None: a key alone
    content: str                 # of the list
    key_id: str                  # of the key alone


@dataclass(frozen=True)
class Counted:
    """How many rows of a list fit, of those that one request has looked at."""

    count: int
    looked_at: int
    next: str                    # where the counting goes on, as the links of the list write it; empty: that was all


@dataclass(frozen=True)
class Overview:
    seats: dict[tuple[str, str], int]        # unfinished jobs by role and status
    running: list[Row]
    waiting: list[Row]
    queued: int                  # all jobs that wait in the queue here
    at_others: list[Row]         # seats here of jobs that wait in the queue of another party, or at another seat
    at_others_count: int         # all of them
    failed: list[Row]
    failed_count: int            # all that failed among the newest `ENDED_LATELY` ones that ended
    engines: tuple[EngineUse, ...]
    moving: Moving               # what the running jobs may wait for, with the troubles of connections
    keys: dict[str, SavedKeys]   # by party id
    hold: Hold | None
    evidence: tuple[Evidence, ...]          # of other parties' logs that do not fit together
    reviews: int


def overview(tx: SqlTransaction) -> Overview:
    seats, reviews, queued, at_others_count = _unfinished()
    failed, failed_count = _failed_lately()
    now = this_moment()
    running, waiting, at_others = _running_and_waiting()
    return Overview(
        seats, running, waiting, queued, at_others, at_others_count, failed, failed_count, engines_in_use(),
        moving_of(running, now.steady, now.troubles), _saved_keys(), now.hold, tx.evidence(), reviews,
    )  # fmt: skip


@dataclass(frozen=True)
class Moment:
    steady: int
    troubles: Mapping[str, PeerTrouble]      # with the parties that do not answer or cannot reach this one, by id
    hold: Hold | None                        # of this party's intake
    reviews: int                             # jobs that wait for an approval of this party


def this_moment() -> Moment:
    """Return what says how things are right now, by one query."""
    rows = {row[0]: row for row in _MOMENT.rows(JobRow._meta.database)}
    _, steady, *_ = rows.pop("", ("", 0))
    _, reviews, *_ = rows.pop(_REVIEWS)
    held = rows.pop(INTAKE, None)
    hold = None if held is None else Hold(held[2] or "", held[4], held[3], held[1])
    return Moment(steady or 0, {party_id: PeerTrouble(*row) for party_id, row in rows.items()}, hold, reviews)


def _saved_keys() -> dict[str, SavedKeys]:
    """Return what is saved of the keys of each party. A list counts, as for requests, before a key alone, unless it was
    removed."""
    rows = [(party_id, SavedKeys(KeyState(state) if state else None, content, key_id))
            for party_id, state, content, key_id in _SAVED_KEYS.rows(JobRow._meta.database)]  # fmt: skip
    alone = {party_id: saved for party_id, saved in rows if saved.state is None}
    lists = {party_id: saved for party_id, saved in rows if saved.state is not None}
    return {**alone, **{key: saved for key, saved in lists.items()
                        if saved.state is not KeyState.REMOVED or key not in alone}}  # fmt: skip


def _unfinished() -> tuple[dict[tuple[str, str], int], int, int, int]:
    """Return the number of unfinished jobs by role of this party and status, how many of them wait for an approval
    of this party, how many are in its queue, and how many wait elsewhere."""
    seats: Counter[tuple[str, str]] = Counter()
    reviews = queued = at_others = 0
    for role, status, approval, is_initiator, count in _UNFINISHED.rows(JobRow._meta.database):
        seats[role, status] += count
        reviews += count if approval == Approval.PENDING.value else 0
        if status == JobStatus.WAITING.value:
            queued += count if is_initiator else 0
            at_others += 0 if is_initiator else count
    return dict(seats), reviews, queued, at_others


def count_reviews() -> int:
    """Return how many jobs wait for an approval of this party."""
    return int(JobRow.select().where(_to_review()).count())


def _to_review() -> Any:
    unfinished = JobRow.f_status.in_([status.value for status in JOB_UNFINISHED])
    return (JobRow.f_approval == Approval.PENDING.value) & unfinished


def number_of(query: Any, most: int) -> tuple[int, bool]:
    """Return how many rows a query selects, at most so many, and whether these are all. `query` needs an order that an
    index has, if the rows are more."""
    counted = query.limit(most + 1).alias("counted")
    found = int(counted.select_from(fn.COUNT(SQL("1"))).scalar())
    return min(found, most), found <= most


# ---------------------------------------------------------------------- parts


_KEY = (JobRow.f_create_time, JobRow.f_job_id, JobRow.f_role, JobRow.f_party_id)
_IN_ORDER = (*JOB_FIELDS, "queue_key")
_REVIEWS = "reviews"


def _running_and_waiting() -> tuple[list[Row], list[Row], list[Row]]:
    """Return the newest running jobs, the first jobs of the queue, each with why it waits, and the oldest ones that
    wait elsewhere; by one query."""
    rows = rows_from(_UNDER_WAY.rows(JobRow._meta.database), JobRow, _IN_ORDER)
    running = [row for row in rows if row["status"] == JobStatus.RUNNING.value]
    waits = [row for row in rows if row["status"] == JobStatus.WAITING.value]
    waiting = [row for row in waits if row["is_initiator"]]
    at_others = sorted((row for row in waits if not row["is_initiator"]), key=lambda row: row["create_time"])
    running.sort(key=lambda row: -row["create_time"])
    waiting.sort(key=lambda row: (row["queue_key"], row["create_time"], row["job_id"]))
    for place, row in enumerate(waiting, 1):
        hold = Hold(row["hold_message"] or "", row["hold_by"]) if row["held"] else None
        row["wait_reason"] = why_it_waits(row["wait_reason"] or "", place, hold)
    return running, waiting, at_others


def _all_failed(most: int) -> Any:
    """Select what failed last, of the jobs that ended last; what users stopped is not among it.

    The order of the ends has an index. By the status alone, all jobs that have ever failed would be sorted."""
    ended = JobRow.select(*_KEY[1:], JobRow.f_end_time, JobRow.f_status, JobRow.f_tag).where(
        JobRow.f_end_time.is_null(False)
    )
    chosen = ended.order_by(JobRow.f_end_time.desc(), *(one.desc() for one in _KEY[1:])).limit(most)
    newest = chosen.alias("ended")
    ends = newest.c.f_status.in_([JobStatus.FAILED.value, JobStatus.TIMEOUT.value])
    every = fn.COUNT(newest.c.f_job_id).over()           # also of those behind the limit
    failed = (
        newest.select_from(newest.c.f_job_id, newest.c.f_role, newest.c.f_party_id, every.alias("every"))
        .where(ends & (newest.c.f_tag != SUBMIT_FAILED)).order_by(newest.c.f_end_time.desc()).limit(_SHORT)
        .alias("failed")
    )  # fmt: skip
    row = JobRow.alias("found")
    same = (row.f_job_id == failed.c.f_job_id) & (row.f_role == failed.c.f_role)
    query = row.select(*(getattr(row, f"f_{name}") for name in JOB_FIELDS), failed.c.every).join(
        failed, on=same & (row.f_party_id == failed.c.f_party_id)
    )
    return query.order_by(row.f_end_time.desc())


def _failed_lately() -> tuple[list[Row], int]:
    """Return what failed last, and how many failed of the jobs that ended last."""
    found = _failed(ENDED_LATELY).rows(JobRow._meta.database)
    return rows_from([row[:-1] for row in found], JobRow, JOB_FIELDS), int(found[0][-1]) if found else 0


def _under_way() -> Any:
    running = _first(JobRow.f_status == JobStatus.RUNNING.value, JobRow.f_create_time.desc())
    elsewhere = (JobRow.f_is_initiator == False) & (JobRow.f_status == JobStatus.WAITING.value)  # noqa: E712
    return running.union_all(_first(waiting_here(), *IN_QUEUE)).union_all(_first(elsewhere, JobRow.f_create_time))


def _first(where: Any, *order: Any) -> Any:
    """Select the first jobs in an order; the order of the rows of a union is not promised."""
    first = JobRow.select(*(column_of(JobRow, name) for name in _IN_ORDER)).where(where).order_by(*order).limit(_SHORT)
    chosen = first.alias("first")
    return chosen.select_from(*(getattr(chosen.c, f"f_{name}") for name in _IN_ORDER))


@cache
def _failed(most: int) -> Prepared:
    """Return the query for what failed last. `most`: jobs that it looks at."""
    return Prepared(lambda: _all_failed(most), 0)


def _by_kind() -> Any:
    unfinished = JobRow.f_status.in_([status.value for status in JOB_UNFINISHED])
    return JobRow.select(*_KINDS, fn.COUNT(JobRow.f_job_id)).where(unfinished).group_by(*_KINDS)


_KINDS = (JobRow.f_role, JobRow.f_status, JobRow.f_approval, JobRow.f_is_initiator)
# The overview is open all day, in many browsers: its text is made once.
_UNDER_WAY = Prepared(_under_way, 0)
_UNFINISHED = Prepared(_by_kind, 0)


def _moment() -> Any:
    """Select the parties in trouble; and the steady time, the hold and the number of jobs to approve as if each were
    one: all are one query."""
    row, clock, intake = PeerRow, SchedulerRow, IntakeRow
    columns = row.f_party_id, row.f_silent_since, row.f_silence, row.f_cut_off_since, row.f_cut_off
    in_trouble = row.select(*columns).where((row.f_silent_since > 0) | (row.f_cut_off_since > 0))
    empty = SQL("''")
    steady = clock.select(empty, clock.f_steady, empty, SQL("0"), empty).where(clock.f_name == SCHEDULER)
    held = intake.select(intake.f_name, intake.f_since, intake.f_message, intake.f_time, intake.f_by)
    reviews = JobRow.select(SQL(f"'{_REVIEWS}'"), fn.COUNT(JobRow.f_job_id), empty, SQL("0"), empty).where(_to_review())
    return in_trouble.union_all(steady).union_all(held.where(intake.f_name == INTAKE)).union_all(reviews)


def _all_saved_keys() -> Any:
    row, alone, empty = PartyKeyRow, SiteKeyRow, SQL("''")
    lists = row.select(row.f_party_id, row.f_state, row.f_content, empty)
    return lists.union_all(alone.select(alone.f_party_id, empty, empty, alone.f_key_id))


_MOMENT, _SAVED_KEYS = Prepared(_moment, 0), Prepared(_all_saved_keys, 0)
