"""Keeping the record: old entries move from rows into files, and what lies beside them is erased after its time.

A segment is moved in steps, each of which may be the last before a crash: its file is written and read again; then one
transaction compares the rows with it, notes the segment, writes an entry about it into the own log, and removes the
rows. A file without a row that names it is removed an hour later: another process, such as `fate_flow admin clean`, may
have written it, and not yet its row. Only entries below a signed head are moved, so what the file has is what was
signed; and only whole segments, the oldest first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fate_flow.core.model.frozen import changed
from fate_flow.core.record.log import Head, StoredEntry
from fate_flow.core.record.segment import SEGMENT_ENTRIES, Segment, segment_of
from fate_flow.core.record.tree import leaf_hash, root_of
from fate_flow.services.context.notifying import notify_of_damage
from fate_flow.services.context.ports import Context
from fate_flow.services.record.checkpoints import PAGE, Damaged, check_page, sealed_hashes
from fate_flow.services.record.entries import of_segment
from fate_flow.services.record.reading import size_of_epoch
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.segment_files import DamagedSegment, SegmentFiles

log = logging.getLogger(__name__)

_CHECKED = 20        # files that a pass reads again
_GRACE = 3_600_000   # ms; the row of a segment comes after its file, and who has read a row may want a replaced file


_Place = tuple[str, int, int]
"""A log, its epoch, and an index in it."""


@dataclass(frozen=True)
class LeftFile:
    """A file that no row names, of this epoch of a log."""

    log: str
    epoch: int
    path: Path

    def __str__(self) -> str:
        return str(self.path)


class RecordKeeper:
    """Moves, erases and checks, one segment at a time."""

    def __init__(self, context: Context, files: SegmentFiles, entries: int, texts: int) -> None:
        """`entries`: how long they have rows; `texts`: how long texts and salts beside them are kept. Both are
        milliseconds; 0: for ever."""
        self._context, self._files, self._entries, self._texts = context, files, entries, texts
        self._check_after = 0            # the first entry of the segment that was checked last, by its id
        self._damaged: set[Segment] = set()
        self._rows_from: _Place = ("", 0, 0)             # where the next look at rows begins
        self._damaged_rows: set[_Place] = set()

    def due(self) -> Iterator[Segment]:
        """Yield the segments that are to be moved, of each log the next one. They are not written yet."""
        if self._entries:
            for head in self._context.read(lambda tx: tx.record_heads()):
                for epoch in self._context.read(partial(_epochs, head=head)):
                    found = self._context.read(partial(self._next, log_name=head.log, epoch=epoch))
                    if found:
                        yield segment_of(found)

    def move(self, segment: Segment) -> bool:
        """Move a segment into its file; False if something has changed meanwhile. Raise Damaged if its entries are not
        what was sealed, DamagedSegment, OSError."""
        entries = self._context.read(
            lambda tx: tx.sealed_entries(segment.log, segment.epoch, segment.first, SEGMENT_ENTRIES)
        )
        hashes = self._context.read(partial(_hashes, segment=segment))
        for place, one in enumerate(entries):
            if place >= len(hashes) or leaf_hash(one.content) != hashes[place]:
                raise Damaged(segment.log, segment.epoch, segment.first + place)
        written, root = self._files.write(segment_of(entries), entries), root_of(hashes).hex()

        def close(tx: Transaction) -> bool:
            is_closed = tx.close_segment(written, entries)
            if is_closed:
                tx.add_to_record([of_segment(written, root, self._context.clock())])
            return is_closed

        return self._context.write(close)

    def _next(self, tx: Transaction, log_name: str, epoch: int) -> tuple[StoredEntry, ...]:
        """Return the entries of the next segment of this epoch of a log; () if they are too new, or not signed."""
        last, signed = tx.last_segment(log_name, epoch), tx.newest_checkpoint(log_name, epoch)
        first, before = last.end if last else 0, self._context.clock() - self._entries
        if signed is None or signed.size < first + SEGMENT_ENTRIES:
            return ()
        if not _is_before(tx.sealed_entries(log_name, epoch, first + SEGMENT_ENTRIES - 1, 1), before):
            return ()
        entries = tx.sealed_entries(log_name, epoch, first, SEGMENT_ENTRIES)
        return entries if len(entries) == SEGMENT_ENTRIES and _is_before(entries, before) else ()

    # ------------------------------------------------------------------ what lies beside entries

    def with_old_texts(self) -> Iterator[Segment]:
        """Yield segments with texts or salts that are to be erased."""
        if self._texts:
            before = self._context.clock() - self._texts
            yield from self._context.read(lambda tx: tx.segments_with_texts(before, _CHECKED))

    def erase(self, segment: Segment) -> bool:
        """Erase the texts and salts in the file of a segment: it is written anew without them, and the old one is
        removed after an hour. Raise DamagedSegment, OSError."""
        entries = [changed(one, salt="", text="") for one in self._files.entries(segment)]
        written = self._files.write(segment_of(entries), entries)
        done = self._context.write(lambda tx: tx.replace_segment(segment, written))
        if done:
            self._files.replaced(segment)
        return done

    def rows_with_old_texts(self) -> Iterator[tuple[str, int]]:
        """Yield each epoch of a log in which rows have texts or salts to erase. Entries that are older than
        that and have rows are few: those of the last, unfinished segment."""
        for head in self._context.read(lambda tx: tx.record_heads()) if self._texts else ():
            for epoch in self._context.read(partial(_epochs, head=head)):
                if self._context.read(partial(self._old_rows, log_name=head.log, epoch=epoch)):
                    yield head.log, epoch

    def erase_in_rows(self, log_name: str, epoch: int) -> bool:
        """Erase the texts and salts beside old entries of this epoch that have rows."""

        def erase(tx: Transaction) -> bool:
            found = self._old_rows(tx, log_name, epoch)
            tx.erase_texts(found)
            return bool(found)

        return self._context.write(erase, is_repeatable=True)

    def _old_rows(self, tx: Transaction, log_name: str, epoch: int) -> list[StoredEntry]:
        last, before = tx.last_segment(log_name, epoch), self._context.clock() - self._texts
        rows = tx.sealed_entries(log_name, epoch, last.end if last else 0, SEGMENT_ENTRIES)
        return [one for one in rows if one.at < before and (one.salt or one.text)]

    # ------------------------------------------------------------------ entries that have rows

    def check_rows(self) -> None:
        """Hash some entries that have rows again, the next ones with each call, and tell operators of the first one
        that is not what was sealed. `sign_heads` hashes each of them once, when it is new."""
        log_name, epoch, first = place = self._context.read(self._next_rows)
        if not log_name:
            return
        try:
            self._context.read(partial(self._check_rows, place=place), of_one_moment=True)
        except Damaged as error:
            self._tell_of_row(error)
        except DamagedSegment:
            pass                         # they lie in a file by now, which `check_some` reads
        else:
            page = range(first, first + PAGE)
            self._damaged_rows = {one for one in self._damaged_rows if one[:2] != place[:2] or one[2] not in page}
        self._rows_from = (log_name, epoch, first + PAGE)

    def _next_rows(self, tx: Transaction) -> _Place:
        """Return the next place at which entries have rows, or else the first one; an empty log if there is none."""
        epochs = sorted((head.log, epoch) for head in tx.record_heads() for epoch in tx.record_epochs(head.log))
        for log_name, epoch, first in (self._rows_from, ("", 0, 0)):
            for one in (one for one in epochs if one >= (log_name, epoch)):
                last = tx.last_segment(*one)
                start = max(first if one == (log_name, epoch) else 0, last.end if last else 0)
                if start < size_of_epoch(tx, *one):
                    return (*one, start)
        return "", 0, 0

    def _check_rows(self, tx: Transaction, place: _Place) -> None:
        log_name, epoch, first = place
        check_page(tx, log_name, epoch, first, size_of_epoch(tx, log_name, epoch))

    def _tell_of_row(self, error: Damaged) -> None:
        place = error.log, error.epoch, error.index
        if place not in self._damaged_rows:
            self._damaged_rows.add(place)
            log.error("the record is damaged: %s", error)
            self._context.write(lambda tx: notify_of_damage(self._context, tx, *place))

    # ------------------------------------------------------------------ files

    def check_some(self) -> None:
        """Read some files again, the next ones with each call, and tell operators of one that is gone or damaged."""
        found = self._context.read(lambda tx: tx.segments_after(self._check_after, _CHECKED))
        for segment in found:
            try:
                self._files.check(segment)
                self._damaged.discard(segment)
            except DamagedSegment as error:
                self._tell(segment, error)
        self._check_after = found[-1].first_id if len(found) == _CHECKED else 0

    def left_over(self) -> Iterator[LeftFile]:
        """Yield files that no row names, which a crash has left. They may have texts that were erased since."""
        for head in self._context.read(lambda tx: tx.record_heads()):
            for epoch in self._context.read(partial(_epochs, head=head)):
                yield from (LeftFile(head.log, epoch, path) for path in self._without_row(head.log, epoch))

    def remove(self, left: LeftFile) -> bool:
        """Remove a file, unless a row names it by now or it was written anew; return whether it was removed."""
        if left.path not in self._without_row(left.log, left.epoch):
            return False
        left.path.unlink(missing_ok=True)
        return True

    def _without_row(self, log_name: str, epoch: int) -> tuple[Path, ...]:
        old = self._files.written_before(self._context.clock() - _GRACE, log_name, epoch)
        # Files are listed before rows are read: so whoever has added the row of a listed file meanwhile is seen.
        known = self._context.read(partial(_segments, log_name=log_name, epoch=epoch)) if old else ()
        names = {Path(one.file).name for one in known}
        return tuple(path for path in old if path.name not in names)

    def _tell(self, segment: Segment, error: DamagedSegment) -> None:
        if segment not in self._damaged:
            self._damaged.add(segment)
            log.error(error.message)
            where = segment.log, segment.epoch, segment.first
            self._context.write(lambda tx: notify_of_damage(self._context, tx, *where))


def _epochs(tx: Transaction, head: Head) -> tuple[int, ...]:
    return tx.record_epochs(head.log)


def _segments(tx: Transaction, log_name: str, epoch: int) -> tuple[Segment, ...]:
    return tx.segments(log_name, epoch)


def _hashes(tx: Transaction, segment: Segment) -> tuple[bytes, ...]:
    return sealed_hashes(tx, Head(segment.log, segment.epoch), segment.first, SEGMENT_ENTRIES)


def _is_before(entries: tuple[StoredEntry, ...], before: int) -> bool:
    return bool(entries) and max(one.at for one in entries) < before
