"""The store contract for what has happened: the history of jobs, which is removed with them, and the record, which only
grows. Nothing here changes or removes an entry of the record; rows of old ones move into files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.record.entry import NewEntry
from fate_flow.core.record.log import Batch, Head, StoredCheckpoint, StoredEntry
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.core.record.segment import Segment


class Record(Protocol):
    """Part of `contract.Transaction`."""

    def add_entries(self, entries: Sequence[HistoryEntry]) -> None:
        """Add entries to the history, in this order."""

    def history(self, job_id: str) -> tuple[HistoryEntry, ...]:
        """Return the entries of a job, in the order of writing; they are removed with the job."""

    def add_to_record(self, entries: Sequence[NewEntry]) -> None:
        """Add entries, in this order; they get their indexes later."""

    def unsealed_entries(self, most: int) -> tuple[StoredEntry, ...]:
        """Return the oldest entries without an index, in the order of writing."""

    def seal(self, head: Head, batch: Batch) -> bool:
        """Give the entries of the batch their indexes, and move the log on from this head.

        False if the log has another head by now, or if an entry has an index already: nothing is written then."""

    def open_epoch(self, head: Head, epoch: int) -> bool:
        """Let the log begin anew in this later epoch; False if it has another head by now."""

    def record_head(self, log: str) -> Head:
        """Return how far the log has got; a log without entries is in its first epoch."""

    def record_heads(self) -> tuple[Head, ...]:
        """Return the heads of all logs that have sealed entries, in the order of their names."""

    def record_epochs(self, log: str) -> tuple[int, ...]:
        """Return the epochs of a log that have sealed entries, the oldest first. Numbers may be left out."""

    def epoch_size(self, log: str, epoch: int) -> int:
        """Return how many sealed entries an epoch of a log has."""

    def sealed_entries(self, log: str, epoch: int, first: int, most: int) -> tuple[StoredEntry, ...]:
        """Return the entries of a log from this index on, in the order of their indexes."""

    def batches(self, log: str, epoch: int, first: int, most: int) -> tuple[Batch, ...]:
        """Return the batches that have entries from this index on, at most this many indexes, in order."""

    def record_of_job(self, job_id: str) -> tuple[StoredEntry, ...]:
        """Return the entries about a job, of all logs, in the order of writing."""

    def record_after(self, entry_id: int, most: int) -> tuple[StoredEntry, ...]:
        """Return the entries of all logs that were written after this one, the oldest first."""

    def put_checkpoint(self, log: str, checkpoint: StoredCheckpoint) -> None:
        """Keep a checkpoint of a log; it replaces one of the same epoch and size, which has fewer signatures."""

    def newest_checkpoint(self, log: str, epoch: int, below: int = 1 << 62) -> StoredCheckpoint | None:
        """Return the largest checkpoint of a log that is smaller than this size; None if there is none."""

    def checkpoint(self, log: str, epoch: int, size: int) -> StoredCheckpoint | None:
        """Return the checkpoint of a log at this size; None if there is none."""

    def checkpoints(self, log: str, epoch: int) -> tuple[StoredCheckpoint, ...]:
        """Return the checkpoints of a log, the smallest first."""

    def person_id(self, name: str, new_id: str) -> str:
        """Return the random id of this person in entries; it is `new_id` from now on if there was none."""

    def person_name(self, person_id: str) -> str:
        """Return who is meant by this id; empty if nobody, or if the name was removed."""


class Segments(Protocol):
    """Part of `contract.Transaction`: what was moved from rows into files. What reads entries reads both, and raises
    DamagedSegment for a file that is gone or is not the one that was written."""

    def segments(self, log: str, epoch: int) -> tuple[Segment, ...]:
        """Return the segments of an epoch of a log, in order."""

    def last_segment(self, log: str, epoch: int) -> Segment | None:
        """Return the last of them; None if there is none."""

    def segments_after(self, entry_id: int, most: int) -> tuple[Segment, ...]:
        """Return segments of all logs whose first entry was written after this one, the oldest first."""

    def segments_with_texts(self, before: int, most: int) -> tuple[Segment, ...]:
        """Return some segments with texts or salts whose entries are all from before this time."""

    def close_segment(self, segment: Segment, entries: Sequence[StoredEntry]) -> bool:
        """Note that the entries lie in the file of this segment, and remove their rows. False if the rows are others by
        now, or do not follow the last segment: nothing is changed then."""

    def replace_segment(self, old: Segment, new: Segment) -> bool:
        """Note that the entries lie in another file; False if the segment is not the old one any more."""

    def erase_texts(self, entries: Sequence[StoredEntry]) -> None:
        """Erase the salts and texts beside these entries, which have rows."""


class Witnessed(Protocol):
    """Part of `contract.Transaction`: what this party keeps as the witness of its peers."""

    def witnessed(self, origin: str) -> StoredCheckpoint | None:
        """Return the newest checkpoint of this log of another party that was cosigned here; its epoch is 0."""

    def put_witnessed(self, origin: str, old_size: int, checkpoint: StoredCheckpoint) -> bool:
        """Keep a newer checkpoint of another party's log; False if the kept one is not of size `old_size` any more."""

    def witnessed_below(self, beginning: str) -> tuple[str, ...]:
        """Return the notes that `witnessed` has for the origins with this beginning, in the order of origins."""

    def questions(self, party_id: str) -> tuple[str, ...]:
        """Return the ids of the last questions of a party about its logs, the newest first; empty: of an earlier
        release."""

    def put_questions(self, party_id: str, old: tuple[str, ...], new: tuple[str, ...]) -> bool:
        """Keep these ids, the newest first, instead of the old ones; False if others are kept."""

    def is_newest_question(self, party_id: str, question: str) -> bool:
        """Return whether this is the newest question of a party; an empty one also if there is none. Nobody keeps a
        newer one before the end of this transaction."""

    def add_evidence(self, evidence: Evidence) -> bool:
        """Keep evidence against another party; False if there is some of this log and size already."""

    def evidence(self) -> tuple[Evidence, ...]:
        """Return all evidence against other parties, the oldest first."""
