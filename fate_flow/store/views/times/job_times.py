"""The queries of the board about what a job did when: bounded, however large the job and long its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from peewee import fn

from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import Job
from fate_flow.core.model.spec import Party
from fate_flow.store.database.models import HistoryRow, TaskRow
from fate_flow.store.database.rows import ENTRY_COLUMNS, entry_of
from fate_flow.store.sql.store import SqlTransaction

MOST_SHARES = 100
"""Attempts of tasks at parties that have a track each on one page."""
MOST_PHASES = 1_000
"""Changes of the parties of a job that one page draws, the newest."""
MOVES_PAGE = 200
NOT_STARTED = 2**53
"""In place of the time: it is behind all of them."""
_OF_PARTIES = (HistoryLevel.JOB.value, HistoryLevel.SEAT.value, HistoryLevel.SILENCE.value)


@dataclass(frozen=True)
class ShareTimes:
    """When an attempt of a task was created, started and ended at a party; 0: not yet."""

    name: str
    party: Party
    version: int
    created: int
    started: int
    ended: int
    status: str                  # there


@dataclass(frozen=True)
class SharePlace:
    """The place of an attempt of a task at a party in the order of their start. `started`: `NOT_STARTED` if it has not
    started yet."""

    started: int
    name: str
    version: int
    party: Party


@dataclass(frozen=True)
class FoldedShares:
    """The shares of all tasks of one component at a party. `failed`: of those that have ended."""

    module: str
    party: Party
    count: int
    begun: int
    unfinished: int
    failed: int
    started: int                 # the first one; 0: none has
    ended: int                   # the last one


@dataclass(frozen=True)
class JobTimes:
    """What the timeline of a job is made of. Either `shares` or `folded` are there."""

    jobs: tuple[Job, ...]
    phases: tuple[HistoryEntry, ...]     # of the job, its parties, and silences, in order
    phase_count: int
    shares: tuple[ShareTimes, ...]
    share_count: int
    next_share: SharePlace | None        # from where the shares go on; None: these were the last ones
    begun: tuple[HistoryEntry, ...]      # when the tasks of these shares were ordered to begin
    folded: tuple[FoldedShares, ...]     # the first `MOST_SHARES`
    folded_count: int                    # of all components at parties; 0 if nothing is folded
    moves: tuple[HistoryEntry, ...]      # a page of all changes
    move_count: int
    next: int                            # the number after which the changes go on; 0: that was all
    job_names: Mapping[str, str]         # of the job, by its id


def job_times(
    tx: SqlTransaction, job_id: str, after: int, behind: SharePlace | None, *, is_folded: bool,
    job_names: Mapping[str, str] = MappingProxyType({}),
) -> JobTimes | None:  # fmt: skip
    """Return what a job did when; None if it is unknown here.

    `after`: the number of the change after which those of this page begin. `behind`: the same for tracks of tasks.
    `is_folded`: whether tracks of tasks are folded if there are more than one page has."""
    jobs = tx.jobs_here(job_id)
    if not jobs:
        return None
    of_job = HistoryRow.f_job_id == job_id
    counts = HistoryRow.select(
        fn.COUNT(HistoryRow.f_id), fn.SUM(HistoryRow.f_level.in_(_OF_PARTIES))
    ).where(of_job).tuples().first()
    phases = HistoryRow.select(*ENTRY_COLUMNS).where(of_job & HistoryRow.f_level.in_(_OF_PARTIES))
    newest = list(phases.order_by(HistoryRow.f_id.desc()).limit(MOST_PHASES).tuples())
    share_count = int(TaskRow.select().where(TaskRow.f_job_id == job_id).count())
    folds = is_folded and behind is None and share_count > MOST_SHARES
    folded, folded_count = folded_shares(job_id) if folds else ((), 0)
    shares, following = ((), None) if folds else _shares(job_id, behind)
    moves = HistoryRow.select(*ENTRY_COLUMNS).where(of_job & (HistoryRow.f_id > after))
    rows = list(moves.order_by(HistoryRow.f_id).limit(MOVES_PAGE + 1).tuples())
    some = tuple(map(entry_of, rows[:MOVES_PAGE]))
    return JobTimes(
        tuple(sorted(jobs, key=lambda job: not job.is_initiator)), tuple(map(entry_of, reversed(newest))),
        int(counts[1] or 0), shares, share_count, following, _begun(job_id, shares), folded, folded_count,
        some, int(counts[0]), some[-1].number if len(rows) > MOVES_PAGE else 0, job_names,
    )  # fmt: skip


def _shares(job_id: str, behind: SharePlace | None) -> tuple[tuple[ShareTimes, ...], SharePlace | None]:
    """Return a page of the shares, and from where they go on."""
    row = TaskRow
    started = fn.COALESCE(row.f_start_time, NOT_STARTED)
    order = (started, row.f_component_name, row.f_task_version, row.f_role, row.f_party_id)
    where = row.f_job_id == job_id
    if behind is not None:
        values = (behind.started, behind.name, behind.version, behind.party.role, behind.party.party_id)
        where &= _is_behind(order, values)
    query = row.select(
        row.f_component_name, row.f_role, row.f_party_id, row.f_task_version, row.f_create_time, row.f_start_time,
        row.f_end_time, row.f_party_status,
    ).where(where).order_by(*order)  # fmt: skip
    rows = list(query.limit(MOST_SHARES + 1).tuples())
    shares = tuple(
        ShareTimes(name, Party(role, party_id), version, created or 0, began or 0, ended or 0, status)
        for name, role, party_id, version, created, began, ended, status in rows[:MOST_SHARES]
    )
    if len(rows) <= MOST_SHARES:
        return shares, None
    name, role, party_id, version, _created, began, *_ = rows[MOST_SHARES - 1]
    return shares, SharePlace(NOT_STARTED if began is None else began, name, version, Party(role, party_id))


def _is_behind(order: Sequence[Any], values: Sequence[Any]) -> Any:
    """Return whether a row comes behind these values in the order of these columns."""
    (first, *others), (value, *rest) = order, values
    is_later = first > value
    return is_later | ((first == value) & _is_behind(others, rest)) if others else is_later


def _begun(job_id: str, shares: tuple[ShareTimes, ...]) -> tuple[HistoryEntry, ...]:
    row = HistoryRow
    is_it = (row.f_job_id == job_id) & (row.f_level == HistoryLevel.TASK.value) & (row.f_new == "running")
    names = sorted({one.name for one in shares})
    query = row.select(*ENTRY_COLUMNS).where(is_it & row.f_component_name.in_(names)).order_by(row.f_id.desc())
    return tuple(map(entry_of, query.limit(MOST_PHASES).tuples())) if names else ()


def folded_shares(job_id: str) -> tuple[tuple[FoldedShares, ...], int]:
    """Return the first components at parties, and how many there are."""
    row = TaskRow
    failed = row.f_party_status.in_(("failed", "timeout", "canceled"))
    query = row.select(
        row.f_component_module, row.f_role, row.f_party_id, fn.COUNT(row.f_task_id), fn.COUNT(row.f_start_time),
        fn.SUM(row.f_end_time.is_null()), fn.SUM(failed), fn.MIN(row.f_start_time), fn.MAX(row.f_end_time),
        fn.COUNT(row.f_party_id).over(),         # of groups, also of those behind the limit
    ).where(row.f_job_id == job_id).group_by(row.f_component_module, row.f_role, row.f_party_id).order_by(
        fn.MIN(row.f_start_time), row.f_component_module, row.f_role, row.f_party_id
    )  # fmt: skip
    found = list(query.limit(MOST_SHARES).tuples())
    folded = tuple(
        FoldedShares(module or "", Party(role, party_id), count, begun, int(open_ or 0), int(bad or 0), first or 0,
                     last or 0)
        for module, role, party_id, count, begun, open_, bad, first, last, _every in found
    )  # fmt: skip
    return folded, int(found[0][-1]) if found else 0
