"""The queries of the board about the record of this party: its logs, contradictions of others, a page of entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from peewee import fn

from fate_flow.core.record.entry import BadEntry, read_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.core.record.segment import Segment
from fate_flow.core.record.shown import ShownEntry, shown_entry
from fate_flow.store.database.record_rows import PersonRow, RecordCheckpointRow, RecordEntryRow, RecordHeadRow
from fate_flow.store.queries.segments import SEGMENTS_BETWEEN, segment_of_row
from fate_flow.store.sql.record import by_id
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.views.board import MOST_SEARCHED, PAGE, Counted, count_reviews
from fate_flow.store.views.job_names import names_of

MOST_STEPS = 200
"""Entries of one part of the record of a job."""


@dataclass(frozen=True)
class RecordSearch:
    """Which entries a page has; empty: all."""

    kind: str = ""
    job_id: str = ""
    log: str = ""
    after: int = 0               # written at this time or later, in milliseconds
    before: int = 0              # written before this time
    person: str = ""             # the name of who has asked
    status: str = ""             # a change to it
    digest: str = ""             # a commitment, the number of a message, or the id of a trace

    def parts(self, who: str) -> tuple[str, ...]:
        """Return the texts that the content of an entry has, which is canonical JSON. `who`: the id of the person."""
        return tuple(text for text, is_asked in (
            (f'"who":"{who}"', self.person), (f'"new":"{self.status}"', self.status), (f'"{self.digest}"', self.digest),
        ) if is_asked)  # fmt: skip

    def has(self, one: StoredEntry, parts: Sequence[str]) -> bool:
        return (
            (not self.kind or one.kind == self.kind) and (not self.job_id or one.job_id == self.job_id)
            and (not self.log or one.log == self.log) and one.at >= self.after
            and (not self.before or one.at < self.before) and all(text.encode() in one.content for text in parts)
        )  # fmt: skip


@dataclass(frozen=True)
class Log:
    name: str
    epoch: int
    size: int                    # of the entries that are sealed
    signed_size: int             # of its newest checkpoint; 0: none
    signed_time: int


@dataclass(frozen=True)
class Recorded:
    """One entry. `said`: its fields; empty if it cannot be read."""

    id: int
    log: str
    epoch: int                   # 0: not sealed yet
    index: int
    kind: str
    at: int
    job_id: str
    text: str                    # beside the entry; empty if it was erased
    said: Mapping[str, Any]
    person: str                  # the name of who is meant by `who`; empty if it is not known here


@dataclass(frozen=True)
class RecordOfJob:
    """A part of what is recorded about a job, in the order of writing."""

    entries: tuple[ShownEntry, ...]
    first: int                   # the number of the first one among all of them, from 1
    count: int                   # of all of them
    next: int                    # the id behind which the next part begins; 0: that was all
    job_names: Mapping[str, str]     # of the job, by its id; empty if it is not known here
    reviews: int


@dataclass(frozen=True)
class RecordPage:
    logs: tuple[Log, ...]
    evidence: tuple[Evidence, ...]
    entries: tuple[Recorded, ...]
    next: int                    # the id from which the page goes on; 0: that was all
    is_cut: bool                 # as many entries were looked at as one request may
    count: int | None            # of all that fit, if a job is asked for; None: only the sizes of the logs are known
    job_names: Mapping[str, str]     # of the jobs that the entries are about, by id
    reviews: int


def record_page(tx: SqlTransaction, search: RecordSearch, before: int) -> RecordPage:
    """Return entries, newest first. `before`: only those with a smaller id; 0: the newest."""
    row = RecordEntryRow
    bottom, top = _searched(search, before)
    parts = search.parts(_person_id(search.person) if search.person else "")
    conditions = _conditions(search, parts)
    count: int | None = None
    is_between = (row.f_id < top) & (row.f_id > bottom) if bottom else row.f_id < top
    fitting = row.select(*_COLUMNS).where(is_between, *conditions)
    found = _read(fitting.order_by(row.f_id.desc()).limit(PAGE + 1))
    if search.job_id:
        kept = [one for one in tx.of_job_in_files(search.job_id) if search.has(one, parts)]
        count = len(kept) + int(row.select().where(*conditions).count())
        found = sorted([*found, *(one for one in kept if one.id < top)], key=by_id, reverse=True)[: PAGE + 1]
    else:
        found = _with_files(tx, search, parts, found, bottom, top)
    shown, has_more = found[:PAGE], len(found) > PAGE
    said = [_said(one.content) for one in shown]
    names = _names({str(one["who"]) for one in said if "who" in one})
    entries = tuple(
        Recorded(one.id, one.log, one.epoch, one.index, one.kind, one.at, one.job_id, one.text, fields,
                 names.get(str(fields.get("who", "")), ""))
        for one, fields in zip(shown, said, strict=True)
    )  # fmt: skip
    following = entries[-1].id if has_more else bottom + 1 if bottom else 0
    jobs = names_of(one.job_id for one in entries if one.job_id)
    is_cut = bool(bottom) and not has_more
    return RecordPage(_logs(tx), tx.evidence(), entries, following, is_cut, count, jobs, count_reviews())


def count_entries(tx: SqlTransaction, search: RecordSearch, before: int) -> Counted:
    """Count the entries that fit among those with ids below `before`, as many as one request may look at."""
    row = RecordEntryRow
    bottom, top = _searched(search, before)
    parts = search.parts(_person_id(search.person) if search.person else "")
    is_between = (row.f_id < top) & (row.f_id > bottom) if bottom else row.f_id < top
    count = int(row.select().where(is_between, *_conditions(search, parts)).count())
    if search.job_id:
        count += sum(one.id < top and search.has(one, parts) for one in tx.of_job_in_files(search.job_id))
    else:
        count += sum(1 for segment in _segments(search, bottom, top) for one in tx.entries_in(segment)
                     if bottom < one.id < top and search.has(one, parts))  # fmt: skip
    return Counted(count, count if search.job_id else top - 1 - bottom, str(bottom + 1) if bottom else "")


def record_of_job(tx: SqlTransaction, job_id: str, after: int) -> RecordOfJob:
    """Return the next entries about a job, whose ids are larger than `after`."""
    row, kept = RecordEntryRow, tx.of_job_in_files(job_id)
    is_its = row.f_job_id == job_id
    rows = _read(row.select(*_COLUMNS).where(is_its & (row.f_id > after)).order_by(row.f_id).limit(MOST_STEPS + 1))
    found = sorted([*(one for one in kept if one.id > after), *rows], key=by_id)
    more, found = len(found) > MOST_STEPS, found[:MOST_STEPS]
    shown = [shown_entry(one) for one in found]
    names = _names({str(one.said["who"]) for one in shown if "who" in one.said})
    entries = tuple(replace(one, person=names.get(str(one.said.get("who", "")), "")) for one in shown)
    before = row.select().where(is_its & (row.f_id <= after)).count() if after else 0
    before += sum(one.id <= after for one in kept)
    count = row.select().where(is_its).count() + len(kept)
    following = found[-1].id if more else 0
    return RecordOfJob(entries, before + 1, count, following, names_of([job_id]), count_reviews())


def _searched(search: RecordSearch, before: int) -> tuple[int, int]:
    """Return between which ids one request looks for entries below `before`; 0: for the newest."""
    newest = int(RecordEntryRow.select(fn.MAX(RecordEntryRow.f_id)).scalar() or 0)
    top = min(before or newest + 1, newest + 1)
    # An index leads to the entries of a job, so all of them are looked at.
    return 0 if search.job_id else max(0, top - 1 - MOST_SEARCHED), top


def _segments(search: RecordSearch, bottom: int, top: int) -> Iterator[Segment]:
    """Yield the files that may have entries which fit, with ids between the two; the newest first."""
    for segment in map(segment_of_row, SEGMENTS_BETWEEN.rows(RecordEntryRow._meta.database, bottom, top)):
        if (not search.log or segment.log == search.log) and segment.newest >= search.after:
            yield segment


def _conditions(search: RecordSearch, parts: Sequence[str]) -> list[Any]:
    """Return for rows what `RecordSearch.has` is for entries in files."""
    row = RecordEntryRow
    asked = (
        (search.kind, row.f_kind == search.kind), (search.job_id, row.f_job_id == search.job_id),
        (search.log, row.f_log == search.log), (search.after, row.f_time >= search.after),
        (search.before, row.f_time < search.before),
    )  # fmt: skip
    return [condition for value, condition in asked if value] + [fn.INSTR(row.f_content, text) > 0 for text in parts]


def _with_files(
    tx: SqlTransaction, search: RecordSearch, parts: Sequence[str], rows: list[StoredEntry], bottom: int, top: int
) -> list[StoredEntry]:  # fmt: skip
    """Return the newest entries that fit, of these rows and of the files with ids between the two: a page and one."""
    found = rows
    for segment in _segments(search, bottom, top):
        if len(found) > PAGE and found[PAGE].id > segment.last_id:
            break                # the other segments are older
        kept = (one for one in tx.entries_in(segment) if bottom < one.id < top and search.has(one, parts))
        found = sorted([*found, *kept], key=by_id, reverse=True)[: PAGE + 1]
    return found


_COLUMNS = (
    RecordEntryRow.f_id, RecordEntryRow.f_log, RecordEntryRow.f_content, RecordEntryRow.f_kind, RecordEntryRow.f_time,
    RecordEntryRow.f_job_id, RecordEntryRow.f_text, RecordEntryRow.f_epoch, RecordEntryRow.f_index,
)  # fmt: skip


def _read(query: Any) -> list[StoredEntry]:
    """Return the entries of a query of `_COLUMNS`, without salts."""
    return [
        StoredEntry(number, log, content.encode(), kind, at, job_id, "", text or "", epoch or 0,
                    -1 if index is None else index)
        for number, log, content, kind, at, job_id, text, epoch, index in query.tuples()
    ]  # fmt: skip


def _logs(tx: SqlTransaction) -> tuple[Log, ...]:
    """Return the logs with the newest checkpoint of each; the primary key leads to it, past all others."""
    row, head = RecordCheckpointRow, RecordHeadRow
    newest = (
        row.select().where((row.f_log == head.f_log) & (row.f_epoch == head.f_epoch))
        .order_by(row.f_size.desc()).limit(1)
    )  # fmt: skip
    query = head.select(head.f_log, newest.select(row.f_size), newest.select(row.f_time))
    signed = {log: (size or 0, at or 0) for log, size, at in query.tuples()}
    return tuple(Log(one.log, one.epoch, one.size, *signed.get(one.log, (0, 0))) for one in tx.record_heads())


def _person_id(name: str) -> str:
    """Return the id of a person; one that no entry has, if nobody here has this name."""
    row = PersonRow
    return row.select(row.f_person_id).where(row.f_name == name).scalar() or "nobody"


def _names(ids: set[str]) -> dict[str, str]:
    if not ids:
        return {}
    row = PersonRow
    return dict(row.select(row.f_person_id, row.f_name).where(row.f_person_id.in_(ids)).tuples())


def _said(content: bytes) -> Mapping[str, Any]:
    try:
        return read_entry(content)
    except BadEntry:
        return {}
