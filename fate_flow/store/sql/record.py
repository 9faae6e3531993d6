"""The history of jobs, and the record: entries, their indexes, heads and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from peewee import Database, Value, fn

from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.record.entry import NewEntry
from fate_flow.core.record.log import Batch, Head, StoredCheckpoint, StoredEntry, head_after
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.core.record.segment import Segment
from fate_flow.core.record.tree import Edge
from fate_flow.store.database.prepared import Prepared, insert, update
from fate_flow.store.database.queries import hit, insert_new
from fate_flow.store.database.record_rows import (
    EvidenceRow,
    PersonRow,
    QuestionRow,
    RecordBatchRow,
    RecordCheckpointRow,
    RecordEntryRow,
    RecordHeadRow,
    SegmentJobRow,
    SegmentRow,
    WitnessedRow,
    hashes_in,
    text_of_hashes,
)
from fate_flow.store.database.rows import entry_of
from fate_flow.store.portions import portions
from fate_flow.store.queries.history import HISTORY, PUT_MOVE, values_of_move
from fate_flow.store.queries.segments import (
    LAST_SEGMENT,
    REMOVE_ROWS,
    SEGMENTS_AFTER_ID,
    SEGMENTS_FROM,
    SEGMENTS_OF_JOB,
    SEGMENTS_WITH_TEXTS,
    pages_of_segments,
    segment_of_row,
    values_of_segment,
)
from fate_flow.store.queries.witnessed import (
    ADD_QUESTIONS,
    ADD_WITNESSED,
    CHECKPOINT,
    CHECKPOINTS,
    EVIDENCE,
    LAST_CHARACTER,
    NEWEST_CHECKPOINT,
    QUESTIONS,
    WITNESSED,
    WITNESSED_BELOW,
)
from fate_flow.store.segment_files import SegmentFiles
from fate_flow.store.sql.unit import LogStatusWrite, SqlUnitOfWork, TakenBack

_ENTRIES_AT_ONCE = 500      # in one statement
_CHARACTERS_AT_ONCE = 1_000_000     # of texts: MariaDB takes 16 MiB, in which a character has up to four bytes
_MOVES_AT_ONCE = 64         # of the history: SQLite allows 32,766 values in a statement


class Segments(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def __init__(
        self, database: Database, log_write: LogStatusWrite | None, segment_files: SegmentFiles | None = None
    ) -> None:
        super().__init__(database, log_write)
        self._files = segment_files

    def segments(self, log: str, epoch: int) -> tuple[Segment, ...]:
        return tuple(self._segments_from(log, epoch, 0))

    def last_segment(self, log: str, epoch: int) -> Segment | None:
        row = LAST_SEGMENT.row(self._database, log, epoch)
        return None if row is None else segment_of_row(row)

    def segments_after(self, entry_id: int, most: int) -> tuple[Segment, ...]:
        return tuple(map(segment_of_row, SEGMENTS_AFTER_ID.rows(self._database, 0, entry_id, most)))

    def segments_with_texts(self, before: int, most: int) -> tuple[Segment, ...]:
        return tuple(map(segment_of_row, SEGMENTS_WITH_TEXTS.rows(self._database, before, most)))

    def close_segment(self, segment: Segment, entries: Sequence[StoredEntry]) -> bool:
        rows = self._rows_of(segment.log, segment.epoch, segment.first, len(entries))
        last = self.last_segment(segment.log, segment.epoch)
        if (last.end if last else 0) != segment.first or list(entries) != rows:
            return False
        try:
            with self.savepoint():
                SegmentRow.insert(**values_of_segment(segment)).execute()
                place = {"f_log": segment.log, "f_epoch": segment.epoch, "f_first": segment.first}
                for job_id in sorted({one.job_id for one in entries if one.job_id}):
                    SegmentJobRow.insert(f_job_id=job_id, **place).execute()
                removed = REMOVE_ROWS.run(self._database, segment.epoch, segment.log, segment.first, segment.end)
                if removed != len(entries):
                    raise TakenBack
        except TakenBack:
            return False
        return True

    def replace_segment(self, old: Segment, new: Segment) -> bool:
        row = SegmentRow
        where = (
            (row.f_log == old.log) & (row.f_epoch == old.epoch) & (row.f_first == old.first)
            & (row.f_digest == old.digest)
        )  # fmt: skip
        return hit(row.update(f_digest=new.digest, f_has_texts=new.has_texts).where(where))

    def erase_texts(self, entries: Sequence[StoredEntry]) -> None:
        for first in range(0, len(entries), _ENTRIES_AT_ONCE):
            ids = [one.id for one in entries[first : first + _ENTRIES_AT_ONCE]]
            RecordEntryRow.update(f_salt="", f_text="").where(RecordEntryRow.f_id.in_(ids)).execute()

    def _rows_of(self, log: str, epoch: int, first: int, most: int) -> list[StoredEntry]:
        """Return the entries that have rows; `Record` does."""
        raise NotImplementedError

    def _in_files(self, log: str, epoch: int, first: int, most: int) -> list[StoredEntry]:
        """Return the entries from this index on that lie in files, at most so many."""
        found: list[StoredEntry] = []
        for segment in self._segments_from(log, epoch, first):
            found += [one for one in self.entries_in(segment) if one.index >= first]
            if len(found) >= most:
                break
        return found[:most]

    def of_job_in_files(self, job_id: str) -> list[StoredEntry]:
        found = map(segment_of_row, SEGMENTS_OF_JOB.rows(self._database, job_id))
        return [one for segment in found for one in self.entries_in(segment) if one.job_id == job_id]

    def _in_files_after(self, entry_id: int, most: int, until: int | None) -> list[StoredEntry]:
        """Return the entries that were written after this one, at most so many, and none after `until`."""
        found: list[StoredEntry] = []
        for segment in self._segments_by_id(entry_id):
            if len(found) >= most:
                found = sorted(found, key=by_id)[:most]
                until = found[-1].id if until is None else min(until, found[-1].id)
            if until is not None and segment.first_id > until:
                break
            found += [one for one in self.entries_in(segment) if one.id > entry_id]
        return sorted(found, key=by_id)[:most]

    def entries_in(self, segment: Segment) -> tuple[StoredEntry, ...]:
        assert self._files is not None, "a store that reads segments knows their folder"
        return self._files.entries(segment)

    def _segments_from(self, log: str, epoch: int, first: int) -> Iterator[Segment]:
        return pages_of_segments(SEGMENTS_FROM, self._database, (log, epoch), first, lambda one: one.end)

    def _segments_by_id(self, entry_id: int) -> Iterator[Segment]:
        return pages_of_segments(SEGMENTS_AFTER_ID, self._database, (entry_id,), 0, lambda one: one.first_id)


def by_id(one: StoredEntry) -> int:
    return one.id


def _each_once(kept: Iterable[StoredEntry], rows: Iterable[StoredEntry]) -> tuple[StoredEntry, ...]:
    """Return the entries of both in the order of writing. Some are in both if they moved from rows, which were read
    first, into a file."""
    return tuple(sorted({one.id: one for one in (*rows, *kept)}.values(), key=by_id))


class Witnessed(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def witnessed(self, origin: str) -> StoredCheckpoint | None:
        row = WITNESSED.row(self._database, origin)
        return None if row is None else StoredCheckpoint(0, *row)

    def put_witnessed(self, origin: str, old_size: int, checkpoint: StoredCheckpoint) -> bool:
        ADD_WITNESSED.run(self._database, origin)
        values = {"f_size": checkpoint.size, "f_note": checkpoint.note, "f_time": checkpoint.at}
        return update(self._database, WitnessedRow, values, (("f_origin", origin), ("f_size", old_size))) > 0

    def witnessed_below(self, beginning: str) -> tuple[str, ...]:
        return tuple(row[0] for row in WITNESSED_BELOW.rows(self._database, beginning, beginning + LAST_CHARACTER))

    def questions(self, party_id: str) -> tuple[str, ...]:
        row = QUESTIONS.row(self._database, party_id)
        return () if row is None else tuple(row[0].split(","))

    def put_questions(self, party_id: str, old: tuple[str, ...], new: tuple[str, ...]) -> bool:
        if not old:
            return ADD_QUESTIONS.run(self._database, party_id, ",".join(new)) > 0
        return self._replaces_questions(party_id, old, new)

    def is_newest_question(self, party_id: str, question: str) -> bool:
        known = self.questions(party_id)
        if (known or ("",))[0] != question:
            return False
        # On MariaDB this keeps others from writing the row: a question waits until this transaction has ended.
        return not known or self._replaces_questions(party_id, known, known)

    def _replaces_questions(self, party_id: str, old: tuple[str, ...], new: tuple[str, ...]) -> bool:
        where = (("f_party_id", party_id), ("f_questions", ",".join(old)))
        return update(self._database, QuestionRow, {"f_questions": ",".join(new)}, where) > 0

    def add_evidence(self, evidence: Evidence) -> bool:
        row, values = EvidenceRow, {
            "f_origin": evidence.origin, "f_size": evidence.size, "f_is_proof": evidence.is_proof,
            "f_party_id": evidence.party_id, "f_first": evidence.first, "f_second": evidence.second,
            "f_time": evidence.at, "f_shown": text_of_hashes(evidence.shown),
        }  # fmt: skip
        is_there = (
            (row.f_origin == evidence.origin) & (row.f_size == evidence.size) & (row.f_is_proof == evidence.is_proof)
        )
        return insert_new(self._database, row, values, is_there)

    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(
            Evidence(party_id, bool(is_proof), origin, size, first, second, at, hashes_in(shown))
            for party_id, is_proof, origin, size, first, second, at, shown in EVIDENCE.rows(self._database)
        )


class Record(Segments):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_entries(self, entries: Sequence[HistoryEntry]) -> None:
        for first in range(0, len(entries), _MOVES_AT_ONCE):
            some = entries[first : first + _MOVES_AT_ONCE]
            PUT_MOVE.insert_all(self._database, [values_of_move(one) for one in some])

    def history(self, job_id: str) -> tuple[HistoryEntry, ...]:
        return tuple(entry_of(row) for row in HISTORY.rows(self._database, job_id))

    def add_to_record(self, entries: Sequence[NewEntry]) -> None:
        self.has_recorded |= bool(entries)
        rows = [(one.log, one.kind, one.job_id, one.at, one.salt, one.text, one.content.decode()) for one in entries]
        for some in portions(rows, _ENTRIES_AT_ONCE, _CHARACTERS_AT_ONCE):
            self._database.execute_unlogged(*_ADD_TO_RECORD.for_all(self._database, some))

    def unsealed_entries(self, most: int) -> tuple[StoredEntry, ...]:
        return tuple(map(_entry_of, _UNSEALED.rows(self._database, most)))

    def seal(self, head: Head, batch: Batch) -> bool:
        try:
            with self.savepoint():
                if not self._move_head(head, head_after(head, batch)) or not self._number(batch):
                    raise TakenBack
                ids, hashes = json.dumps(batch.ids, separators=(",", ":")), text_of_hashes(batch.hashes)
                _ADD_BATCH.run(self._database, batch.log, batch.epoch, batch.first, ids, hashes, batch.at)
        except TakenBack:
            return False
        return True

    def _number(self, batch: Batch) -> bool:
        """Write the indexes beside the entries."""
        done, mark = 0, str(self._database.param)
        for first in range(0, len(batch.ids), _ENTRIES_AT_ONCE):
            some = batch.ids[first : first + _ENTRIES_AT_ONCE]
            pairs = [one for at, entry in enumerate(some) for one in (entry, batch.first + first + at)]
            values = [batch.epoch, *pairs, batch.log, *some]
            done += self._database.execute_unlogged(_numbering(len(some), mark), values).rowcount
        return done == len(batch.ids)

    def _move_head(self, head: Head, after: Head) -> bool:
        """A log that has no head yet gets one."""
        if head == Head(head.log):
            _ADD_HEAD.run(self._database, head.log)
        seen = (head.log, head.epoch, head.size, text_of_hashes(head.edge.hashes))
        return bool(_MOVE_HEAD.run(self._database, after.epoch, after.size, text_of_hashes(after.edge.hashes), *seen))

    def open_epoch(self, head: Head, epoch: int) -> bool:
        return epoch > head.epoch and self._move_head(head, Head(head.log, epoch))

    def record_head(self, log: str) -> Head:
        row = _HEAD.row(self._database, log)
        return Head(log) if row is None else _head_of(row)

    def record_heads(self) -> tuple[Head, ...]:
        return tuple(map(_head_of, _HEADS.rows(self._database)))

    def record_epochs(self, log: str) -> tuple[int, ...]:
        return tuple(row[0] for row in _EPOCHS.rows(self._database, log))

    def epoch_size(self, log: str, epoch: int) -> int:
        last = _BATCH_WITH.row(self._database, log, epoch, 1 << 62)
        return max((one.end for one in self.batches(log, epoch, last[0] or 0 if last else 0, 1)), default=0)

    def sealed_entries(self, log: str, epoch: int, first: int, most: int) -> tuple[StoredEntry, ...]:
        seen: Segment | None = None
        while True:
            found = self._in_files(log, epoch, first, most)
            rows = self._rows_of(log, epoch, first, most - len(found))
            end = first + len(found)
            if len(found) == most or (rows and rows[0].index == end):
                return (*found, *rows)
            last = self.last_segment(log, epoch)      # entries may have moved into a file between the two reads
            if last is None or last.end <= end or last == seen:
                return (*found, *rows)
            seen = last

    def _rows_of(self, log: str, epoch: int, first: int, most: int) -> list[StoredEntry]:
        return list(map(_entry_of, _SEALED.rows(self._database, epoch, log, first, most))) if most else []

    def batches(self, log: str, epoch: int, first: int, most: int) -> tuple[Batch, ...]:
        begin = _BATCH_WITH.row(self._database, log, epoch, first)
        rows = _BATCHES.rows(self._database, log, epoch, begin[0] or 0 if begin else 0, first + most)
        return tuple(one for one in map(_batch_of, rows) if one.end > first)

    def record_of_job(self, job_id: str) -> tuple[StoredEntry, ...]:
        rows, kept = map(_entry_of, _OF_JOB.rows(self._database, job_id)), self.of_job_in_files(job_id)
        return _each_once(kept, rows) if kept else tuple(rows)

    def record_after(self, entry_id: int, most: int) -> tuple[StoredEntry, ...]:
        rows = tuple(map(_entry_of, _AFTER.rows(self._database, entry_id, most)))
        kept = self._in_files_after(entry_id, most, rows[-1].id if len(rows) == most else None)
        return _each_once(kept, rows)[:most] if kept else rows

    def put_checkpoint(self, log: str, checkpoint: StoredCheckpoint) -> None:
        values = {
            "f_log": log, "f_epoch": checkpoint.epoch, "f_size": checkpoint.size, "f_note": checkpoint.note,
            "f_time": checkpoint.at, "f_edge": text_of_hashes(checkpoint.edge.hashes) if checkpoint.edge else "",
        }  # fmt: skip
        insert(self._database, RecordCheckpointRow, values, replaces=True)

    def newest_checkpoint(self, log: str, epoch: int, below: int = 1 << 62) -> StoredCheckpoint | None:
        row = NEWEST_CHECKPOINT.row(self._database, log, epoch, below)
        return None if row is None else _checkpoint_of(row)

    def checkpoint(self, log: str, epoch: int, size: int) -> StoredCheckpoint | None:
        row = CHECKPOINT.row(self._database, log, epoch, size)
        return None if row is None else _checkpoint_of(row)

    def checkpoints(self, log: str, epoch: int) -> tuple[StoredCheckpoint, ...]:
        return tuple(_checkpoint_of(row) for row in CHECKPOINTS.rows(self._database, log, epoch))

    def person_id(self, name: str, new_id: str) -> str:
        row = _PERSON.row(self._database, name)
        if row is None:
            PersonRow.insert(f_person_id=new_id, f_name=name).on_conflict_ignore().execute()
            row = _PERSON.row(self._database, name)
        return str(row[0]) if row is not None else new_id

    def person_name(self, person_id: str) -> str:
        row = _NAME.row(self._database, person_id)
        return "" if row is None else str(row[0])


@cache
def _numbering(entries: int, mark: str) -> str:
    """Return a statement that depends on nothing but their number. The text is made here: peewee takes a millisecond
    for each fifty."""
    when, marks = " ".join([f"WHEN {mark} THEN {mark}"] * entries), ",".join([mark] * entries)
    return (
        f"UPDATE t_record_entry SET f_epoch = {mark}, f_index = CASE f_id {when} END "  # noqa: S608 (marks alone)
        f"WHERE f_epoch = 0 AND f_log = {mark} AND f_id IN ({marks})"
    )


def _entry_of(row: tuple[Any, ...]) -> StoredEntry:
    number, log, content, kind, at, job_id, salt, text, epoch, index = row
    place = -1 if index is None else index
    return StoredEntry(number, log, content.encode(), kind, at, job_id, salt, text, epoch, place)


def _head_of(row: tuple[Any, ...]) -> Head:
    log, epoch, size, edge = row
    return Head(log, epoch, Edge(size, hashes_in(edge)))


def _batch_of(row: tuple[Any, ...]) -> Batch:
    log, epoch, first, ids, hashes, at = row
    return Batch(log, epoch, first, tuple(json.loads(ids)), hashes_in(hashes), at)


def _checkpoint_of(row: tuple[Any, ...]) -> StoredCheckpoint:
    epoch, size, note, at, edge = row
    return StoredCheckpoint(epoch, size, note, at, Edge(size, hashes_in(edge)) if edge else None)


_COLUMNS = (
    RecordEntryRow.f_id, RecordEntryRow.f_log, RecordEntryRow.f_content, RecordEntryRow.f_kind, RecordEntryRow.f_time,
    RecordEntryRow.f_job_id, RecordEntryRow.f_salt, RecordEntryRow.f_text, RecordEntryRow.f_epoch,
    RecordEntryRow.f_index,
)  # fmt: skip
_HEAD_COLUMNS = (RecordHeadRow.f_log, RecordHeadRow.f_epoch, RecordHeadRow.f_size, RecordHeadRow.f_edge)
_BATCH_COLUMNS = (
    RecordBatchRow.f_log, RecordBatchRow.f_epoch, RecordBatchRow.f_first, RecordBatchRow.f_ids, RecordBatchRow.f_hashes,
    RecordBatchRow.f_time,
)  # fmt: skip

_ADD_TO_RECORD = Prepared(
    lambda log, kind, job_id, at, salt, text, content: RecordEntryRow.insert(
        f_log=log, f_kind=kind, f_job_id=job_id, f_time=Value(at, converter=False), f_salt=salt, f_text=text,
        f_content=content, f_epoch=0,
    ),
    7,
)  # fmt: skip
_ADD_BATCH = Prepared(
    lambda log, epoch, first, ids, hashes, at: RecordBatchRow.insert(
        f_log=log, f_epoch=Value(epoch, converter=False), f_first=Value(first, converter=False), f_ids=ids,
        f_hashes=hashes, f_time=Value(at, converter=False),
    ),
    6,
)  # fmt: skip
_ADD_HEAD = Prepared(
    lambda log: RecordHeadRow.insert(f_log=log, f_epoch=1, f_size=0, f_edge="").on_conflict_ignore(), 1
)
_MOVE_HEAD = Prepared(
    lambda epoch, size, edge, log, old_epoch, old_size, old_edge: RecordHeadRow.update(
        f_epoch=Value(epoch, converter=False), f_size=Value(size, converter=False), f_edge=edge
    ).where(
        (RecordHeadRow.f_log == log) & (RecordHeadRow.f_epoch == Value(old_epoch, converter=False))
        & (RecordHeadRow.f_size == Value(old_size, converter=False)) & (RecordHeadRow.f_edge == old_edge)
    ),
    7,
)  # fmt: skip
_UNSEALED = Prepared(
    lambda most: (
        RecordEntryRow.select(*_COLUMNS).where(RecordEntryRow.f_epoch == 0).order_by(RecordEntryRow.f_id).limit(most)
    ),
    1,
)
_SEALED = Prepared(
    lambda epoch, log, first, most: (
        RecordEntryRow.select(*_COLUMNS)
        .where(
            (RecordEntryRow.f_epoch == Value(epoch, converter=False)) & (RecordEntryRow.f_log == log)
            & (RecordEntryRow.f_index >= Value(first, converter=False))
        )
        .order_by(RecordEntryRow.f_index)
        .limit(most)
    ),
    4,
)  # fmt: skip
_OF_JOB = Prepared(
    lambda job_id: (
        RecordEntryRow.select(*_COLUMNS).where(RecordEntryRow.f_job_id == job_id).order_by(RecordEntryRow.f_id)
    ),
    1,
)
_AFTER = Prepared(
    lambda entry_id, most: (
        RecordEntryRow.select(*_COLUMNS)
        .where(RecordEntryRow.f_id > Value(entry_id, converter=False))
        .order_by(RecordEntryRow.f_id)
        .limit(most)
    ),
    2,
)
_HEAD = Prepared(lambda log: RecordHeadRow.select(*_HEAD_COLUMNS).where(RecordHeadRow.f_log == log), 1)
_HEADS = Prepared(lambda: RecordHeadRow.select(*_HEAD_COLUMNS).order_by(RecordHeadRow.f_log), 0)
_BATCH_WITH = Prepared(
    lambda log, epoch, index: RecordBatchRow.select(fn.MAX(RecordBatchRow.f_first)).where(
        (RecordBatchRow.f_log == log) & (RecordBatchRow.f_epoch == Value(epoch, converter=False))
        & (RecordBatchRow.f_first <= Value(index, converter=False))
    ),
    3,
)  # fmt: skip
_BATCHES = Prepared(
    lambda log, epoch, first, end: (
        RecordBatchRow.select(*_BATCH_COLUMNS)
        .where(
            (RecordBatchRow.f_log == log) & (RecordBatchRow.f_epoch == Value(epoch, converter=False))
            & (RecordBatchRow.f_first >= Value(first, converter=False))
            & (RecordBatchRow.f_first < Value(end, converter=False))
        )
        .order_by(RecordBatchRow.f_first)
    ),
    4,
)  # fmt: skip
_EPOCHS = Prepared(
    lambda log: (
        RecordBatchRow.select(RecordBatchRow.f_epoch)
        .where(RecordBatchRow.f_log == log)
        .distinct()
        .order_by(RecordBatchRow.f_epoch)
    ),
    1,
)
_PERSON = Prepared(lambda name: PersonRow.select(PersonRow.f_person_id).where(PersonRow.f_name == name), 1)
_NAME = Prepared(lambda person_id: PersonRow.select(PersonRow.f_name).where(PersonRow.f_person_id == person_id), 1)
