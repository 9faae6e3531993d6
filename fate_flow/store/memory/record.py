"""The history and the record, in memory; the counterpart of `sql/record.py`."""

from __future__ import annotations

from collections.abc import Sequence

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.record.entry import NewEntry
from fate_flow.core.record.log import Batch, Head, StoredCheckpoint, StoredEntry, head_after
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.core.record.segment import Segment
from fate_flow.store.memory.tables import BY_JOB, BY_LOG
from fate_flow.store.memory.unit import MemoryUnitOfWork


class Witnessed(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def witnessed(self, origin: str) -> StoredCheckpoint | None:
        return self._rows.witnessed.rows.get(origin)

    def put_witnessed(self, origin: str, old_size: int, checkpoint: StoredCheckpoint) -> bool:
        kept = self._rows.witnessed.rows.get(origin)
        if (kept.size if kept else 0) != old_size:
            return False
        self._rows.witnessed.put(origin, changed(checkpoint, epoch=0, edge=None))
        return True

    def witnessed_below(self, beginning: str) -> tuple[str, ...]:
        found = self._rows.witnessed.rows
        return tuple(found[origin].note for origin in sorted(found) if origin.startswith(beginning))

    def questions(self, party_id: str) -> tuple[str, ...]:
        return self._rows.questions.rows.get(party_id, ())

    def put_questions(self, party_id: str, old: tuple[str, ...], new: tuple[str, ...]) -> bool:
        if self.questions(party_id) != old:
            return False
        self._rows.questions.put(party_id, new)
        return True

    def is_newest_question(self, party_id: str, question: str) -> bool:
        return (self.questions(party_id) or ("",))[0] == question

    def add_evidence(self, evidence: Evidence) -> bool:
        key = (evidence.origin, evidence.size, evidence.is_proof)
        if key in self._rows.evidence.rows:
            return False
        self._rows.evidence.put(key, evidence)
        return True

    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(sorted(self._rows.evidence.rows.values(), key=lambda one: (one.at, one.origin, one.size)))


class Record(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_entries(self, entries: Sequence[HistoryEntry]) -> None:
        for one in entries:
            number = next(self._rows.entry_numbers)
            self._rows.history.put(number, changed(one, number=number))

    def history(self, job_id: str) -> tuple[HistoryEntry, ...]:
        return tuple(sorted(self._rows.history.of(BY_JOB, job_id), key=lambda one: one.number))

    def add_to_record(self, entries: Sequence[NewEntry]) -> None:
        for one in entries:
            number = next(self._rows.record_ids)
            row = StoredEntry(number, one.log, one.content, str(one.kind), one.at, one.job_id, one.salt, one.text)
            self._rows.record.put(number, row)

    def unsealed_entries(self, most: int) -> tuple[StoredEntry, ...]:
        return _by_id(self._rows.record.of(BY_LOG, _UNSEALED))[:most]

    def seal(self, head: Head, batch: Batch) -> bool:
        rows = [self._rows.record.rows[one] for one in batch.ids]
        if self.record_head(head.log) != head or any(row.is_sealed for row in rows):
            return False
        for place, row in enumerate(rows):
            self._rows.record.put(row.id, changed(row, epoch=batch.epoch, index=batch.first + place))
        self._rows.record_batches.put((batch.log, batch.epoch, batch.first), batch)
        self._rows.record_heads.put(head.log, head_after(head, batch))
        return True

    def open_epoch(self, head: Head, epoch: int) -> bool:
        if self.record_head(head.log) != head or epoch <= head.epoch:
            return False
        self._rows.record_heads.put(head.log, Head(head.log, epoch))
        return True

    def record_head(self, log: str) -> Head:
        return self._rows.record_heads.rows.get(log) or Head(log)

    def record_heads(self) -> tuple[Head, ...]:
        return tuple(sorted(self._rows.record_heads.rows.values(), key=lambda one: one.log))

    def record_epochs(self, log: str) -> tuple[int, ...]:
        return tuple(sorted({one.epoch for one in self._rows.record_batches.rows.values() if one.log == log}))

    def epoch_size(self, log: str, epoch: int) -> int:
        return max((one.end for one in self.batches(log, epoch, 0, 1 << 62)), default=0)

    def sealed_entries(self, log: str, epoch: int, first: int, most: int) -> tuple[StoredEntry, ...]:
        found = [one for one in self._rows.record.of(BY_LOG, (log, epoch)) if one.index >= first]
        return tuple(sorted(found, key=lambda one: one.index)[:most])

    def batches(self, log: str, epoch: int, first: int, most: int) -> tuple[Batch, ...]:
        of_log = [one for one in self._rows.record_batches.rows.values() if (one.log, one.epoch) == (log, epoch)]
        found = [one for one in of_log if one.end > first and one.first < first + most]
        return tuple(sorted(found, key=lambda one: one.first))

    def record_of_job(self, job_id: str) -> tuple[StoredEntry, ...]:
        return _by_id(self._rows.record.of(BY_JOB, job_id))

    def record_after(self, entry_id: int, most: int) -> tuple[StoredEntry, ...]:
        return _by_id([one for one in self._rows.record.rows.values() if one.id > entry_id])[:most]

    def put_checkpoint(self, log: str, checkpoint: StoredCheckpoint) -> None:
        self._rows.checkpoints.put((log, checkpoint.epoch, checkpoint.size), checkpoint)

    def newest_checkpoint(self, log: str, epoch: int, below: int = 1 << 62) -> StoredCheckpoint | None:
        return next((one for one in reversed(self.checkpoints(log, epoch)) if one.size < below), None)

    def checkpoint(self, log: str, epoch: int, size: int) -> StoredCheckpoint | None:
        return self._rows.checkpoints.rows.get((log, epoch, size))

    def checkpoints(self, log: str, epoch: int) -> tuple[StoredCheckpoint, ...]:
        found = [one for key, one in self._rows.checkpoints.rows.items() if key[:2] == (log, epoch)]
        return tuple(sorted(found, key=lambda one: one.size))

    def person_id(self, name: str, new_id: str) -> str:
        for person_id, known in self._rows.people.rows.items():
            if known == name:
                return person_id
        self._rows.people.put(new_id, name)
        return new_id

    def person_name(self, person_id: str) -> str:
        return self._rows.people.rows.get(person_id, "")


class Segments(MemoryUnitOfWork):
    """Part of the transaction. Here, entries of segments stay where they are: there are no files."""

    def segments(self, log: str, epoch: int) -> tuple[Segment, ...]:
        found = [one for key, one in self._rows.segments.rows.items() if key[:2] == (log, epoch)]
        return tuple(sorted(found, key=lambda one: one.first))

    def last_segment(self, log: str, epoch: int) -> Segment | None:
        return next(reversed(self.segments(log, epoch)), None)

    def segments_after(self, entry_id: int, most: int) -> tuple[Segment, ...]:
        found = [one for one in self._rows.segments.rows.values() if one.first_id > entry_id]
        return tuple(sorted(found, key=lambda one: one.first_id)[:most])

    def segments_with_texts(self, before: int, most: int) -> tuple[Segment, ...]:
        found = [one for one in self._rows.segments.rows.values() if one.has_texts and one.newest < before]
        return tuple(found[:most])

    def close_segment(self, segment: Segment, entries: Sequence[StoredEntry]) -> bool:
        last, rows = self.last_segment(segment.log, segment.epoch), self._rows.record.rows
        if (last.end if last else 0) != segment.first or any(rows.get(one.id) != one for one in entries):
            return False
        self._rows.segments.put((segment.log, segment.epoch, segment.first), segment)
        return True

    def replace_segment(self, old: Segment, new: Segment) -> bool:
        key = (old.log, old.epoch, old.first)
        is_old = self._rows.segments.rows.get(key) == old
        if is_old:
            self._rows.segments.put(key, new)
        return is_old

    def erase_texts(self, entries: Sequence[StoredEntry]) -> None:
        for one in entries:
            self._rows.record.put(one.id, changed(self._rows.record.rows[one.id], salt="", text=""))


_UNSEALED = ("", 0)


def _by_id(found: Sequence[StoredEntry]) -> tuple[StoredEntry, ...]:
    return tuple(sorted(found, key=lambda one: one.id))
