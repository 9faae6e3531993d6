"""The files of segments: entries of the record that were moved out of the database, compressed.

A file is written beside its place and renamed, so it is never seen in part. Its digest is in the database, where a
file that is gone, or is another one, is noticed.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Lock

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.segment import BadSegment, Segment, folder_of, read_segment_text, segment_text

_KEPT = 4                # segments in memory: a page of entries is read from as many logs at once
_LARGEST = 256 << 20     # bytes of one segment, not compressed: 1,024 entries of 64 KiB with their texts


class DamagedSegment(StorageFailed):
    """The file of a segment is gone, or is not the one that was written."""

    def __init__(self, segment: Segment, path: Path, why: str) -> None:
        self.segment, self.why = segment, f"the file {path} {why}"
        super().__init__(f"the record is damaged: {self.why} ({segment}); restore the file from a backup of the home")


class SegmentFiles:
    """The files of one party."""

    def __init__(self, home: Path) -> None:
        """`home`: the folder with all that belongs to the party."""
        self._folder = home / "record"
        self._read: OrderedDict[tuple[str, int, int], tuple[StoredEntry, ...]] = OrderedDict()
        self._lock = Lock()

    def write(self, segment: Segment, entries: Sequence[StoredEntry]) -> Segment:
        """Write the file of a segment, read it again, and return the segment with its digest. Raise DamagedSegment if
        the disk has kept something else; OSError."""
        data = gzip.compress(segment_text(segment, entries), mtime=0)
        found = replace(segment, digest=sha256(data).hexdigest())
        path = self._folder / found.file
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f".{path.name}.draft")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        for folder in (path.parent, path.parent.parent, self._folder, self._folder.parent):
            _sync(folder)
        if self._parsed(found) != tuple(entries):
            raise DamagedSegment(found, path, "has not kept what was written")
        return found

    def entries(self, segment: Segment) -> tuple[StoredEntry, ...]:
        """Return the entries of a segment. Raise DamagedSegment."""
        path = self._folder / segment.file
        try:
            state = path.stat()
        except OSError:
            return self._parsed(segment)            # which says what is wrong
        key = (segment.digest, state.st_mtime_ns, state.st_size)
        with self._lock:
            found = self._read.get(key)
        if found is None:
            found = self._parsed(segment)
            with self._lock:
                self._read[key] = found
                while len(self._read) > _KEPT:
                    self._read.popitem(last=False)
        return found

    def check(self, segment: Segment) -> None:
        """Raise DamagedSegment if the file is gone, or is not the one that was written."""
        self._bytes(segment)

    def replaced(self, segment: Segment) -> None:
        """Note that another file has replaced that of this segment: from now on it is one that no row names. It stays
        for a while, since whoever reads the record at this moment may have the old row."""
        with suppress(FileNotFoundError):
            os.utime(self._folder / segment.file)

    def written_before(self, at: int, log: str, epoch: int) -> tuple[Path, ...]:
        """Return the files of this epoch of a log that were written before this time (milliseconds since 1970)."""
        folder = self._folder / folder_of(log) / str(epoch)
        return tuple(sorted(path for path in folder.glob("*") if _is_older(path, at)))

    def _parsed(self, segment: Segment) -> tuple[StoredEntry, ...]:
        path, data = self._folder / segment.file, self._bytes(segment)
        try:
            unpacker = zlib.decompressobj(wbits=31)
            text = unpacker.decompress(data, _LARGEST)
            if not unpacker.eof:
                raise BadSegment("it is not complete")
            return read_segment_text(segment, text)
        except (zlib.error, BadSegment) as error:
            raise DamagedSegment(segment, path, f"is not what was written: {error}") from error

    def _bytes(self, segment: Segment) -> bytes:
        path = self._folder / segment.file
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise DamagedSegment(segment, path, "is missing") from error
        except OSError as error:
            raise DamagedSegment(segment, path, f"cannot be read: {error.strerror}") from error
        if sha256(data).hexdigest() != segment.digest:
            raise DamagedSegment(segment, path, "is not the one that was written")
        return data


def _is_older(path: Path, at: int) -> bool:
    try:
        return path.stat().st_mtime_ns // 1_000_000 < at
    except FileNotFoundError:
        return False


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
