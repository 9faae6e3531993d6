"""Queries about segments: which entries of the record lie in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from peewee import Database, Value

from fate_flow.core.record.segment import Segment
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.record_rows import RecordEntryRow, SegmentJobRow, SegmentRow

SEGMENTS_AT_ONCE = 64             # in one query


def pages_of_segments(
    query: Prepared, database: Database, values: tuple[str | int, ...], after: int, next_of: Callable[[Segment], int]
) -> Iterator[Segment]:  # fmt: skip
    """Yield what a query finds from `after` on, page by page; `next_of` returns where the page after one goes on."""
    while rows := query.rows(database, *values, after, SEGMENTS_AT_ONCE):
        found = list(map(segment_of_row, rows))
        yield from found
        if len(rows) < SEGMENTS_AT_ONCE:
            return
        after = next_of(found[-1])


_COLUMNS = (
    SegmentRow.f_log, SegmentRow.f_epoch, SegmentRow.f_first, SegmentRow.f_end, SegmentRow.f_first_id,
    SegmentRow.f_last_id, SegmentRow.f_newest, SegmentRow.f_has_texts, SegmentRow.f_digest,
)  # fmt: skip


def segment_of_row(row: tuple[Any, ...]) -> Segment:
    log, epoch, first, end, first_id, last_id, newest, has_texts, digest = row
    return Segment(log, epoch, first, end, first_id, last_id, newest, bool(has_texts), digest)


def values_of_segment(one: Segment) -> dict[str, Any]:
    return {
        "f_log": one.log, "f_epoch": one.epoch, "f_first": one.first, "f_end": one.end, "f_first_id": one.first_id,
        "f_last_id": one.last_id, "f_newest": one.newest, "f_has_texts": one.has_texts, "f_digest": one.digest,
    }  # fmt: skip


def _whole(value: Any) -> Value:
    return Value(value, converter=False)


SEGMENTS_FROM = Prepared(
    lambda log, epoch, first, most: (
        SegmentRow.select(*_COLUMNS)
        .where((SegmentRow.f_log == log) & (SegmentRow.f_epoch == _whole(epoch)) & (SegmentRow.f_end > _whole(first)))
        .order_by(SegmentRow.f_first)
        .limit(most)
    ),
    4,
)  # fmt: skip
LAST_SEGMENT = Prepared(
    lambda log, epoch: (
        SegmentRow.select(*_COLUMNS)
        .where((SegmentRow.f_log == log) & (SegmentRow.f_epoch == _whole(epoch)))
        .order_by(SegmentRow.f_first.desc())
        .limit(1)
    ),
    2,
)
SEGMENTS_AFTER_ID = Prepared(
    lambda entry_id, after, most: (
        SegmentRow.select(*_COLUMNS)
        .where((SegmentRow.f_last_id > _whole(entry_id)) & (SegmentRow.f_first_id > _whole(after)))
        .order_by(SegmentRow.f_first_id)
        .limit(most)
    ),
    3,
)  # fmt: skip
SEGMENTS_BETWEEN = Prepared(
    lambda after, before: (
        SegmentRow.select(*_COLUMNS)
        .where((SegmentRow.f_last_id > _whole(after)) & (SegmentRow.f_first_id < _whole(before)))
        .order_by(SegmentRow.f_last_id.desc())
    ),
    2,
)
SEGMENTS_WITH_TEXTS = Prepared(
    lambda before, most: (
        SegmentRow.select(*_COLUMNS)
        .where((SegmentRow.f_has_texts == True) & (SegmentRow.f_newest < _whole(before)))  # noqa: E712 (SQL)
        .limit(most)
    ),
    2,
)  # fmt: skip
SEGMENTS_OF_JOB = Prepared(
    lambda job_id: (
        SegmentRow.select(*_COLUMNS)
        .join(
            SegmentJobRow,
            on=(
                (SegmentJobRow.f_log == SegmentRow.f_log) & (SegmentJobRow.f_epoch == SegmentRow.f_epoch)
                & (SegmentJobRow.f_first == SegmentRow.f_first)
            ),
        )
        .where(SegmentJobRow.f_job_id == job_id)
        .order_by(SegmentRow.f_first_id)
    ),
    1,
)  # fmt: skip
REMOVE_ROWS = Prepared(
    lambda epoch, log, first, end: (
        RecordEntryRow.delete().where(
            (RecordEntryRow.f_epoch == _whole(epoch)) & (RecordEntryRow.f_log == log)
            & (RecordEntryRow.f_index >= _whole(first)) & (RecordEntryRow.f_index < _whole(end))
        )
    ),
    4,
)  # fmt: skip
