"""A file with named numbers that one process adds to and others read: the counts of one process of a server.

The file is mapped into memory, so adding costs no system call, and a kill loses nothing. It begins with the number of
bytes in use. Then follow the entries: the length of the name, the name, padding to 8 bytes, and the number. An entry is
written before the bytes in use include it, so a reader sees no incomplete entry.

A process takes the first file that no living process has locked, and counts on from its numbers. So there are as many
files as there were processes at once, counters survive the restart of a process, and no file of a dead one stays over.
The official client has a multiprocess mode too; its folder is named by an environment variable, which every worker
would inherit, and it keeps the files of all processes that ever died.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

_SIZE = 64 * 1024
_HEAD = struct.Struct("<Q")
_LENGTH = struct.Struct("<I")
_NUMBER = struct.Struct("<d")
_SUFFIX = ".counts"


class CountFile:
    """The numbers of this process."""

    def __init__(self, folder: Path) -> None:
        """Take a file in this folder, which is made if it is missing. Raise OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = _take(folder)
        try:
            # Reserved, not only made longer: a full disk would end the process that writes into a hole of the map.
            os.posix_fallocate(self._fd, 0, max(_SIZE, os.fstat(self._fd).st_size))
        except OSError:
            os.close(self._fd)
            raise
        self._map = mmap.mmap(self._fd, 0)
        self._lock = threading.Lock()
        self._places: dict[str, int] = {}
        try:
            self._places = {name: place for name, place, _ in _entries(self._map)}
        except ValueError:                   # of a process that a power failure ended
            _HEAD.pack_into(self._map, 0, _HEAD.size)

    def add(self, name: str, amount: float) -> None:
        """Raise OSError if there is no space for a new name."""
        with self._lock:
            place = self._places.get(name)
            if place is None:
                place = self._places[name] = self._append(name)
            _NUMBER.pack_into(self._map, place, _NUMBER.unpack_from(self._map, place)[0] + amount)

    def close(self) -> None:
        """Let another process take the file."""
        self._map.close()
        os.close(self._fd)

    def _append(self, name: str) -> int:
        """Add an entry with 0; return where its number is."""
        used = max(_HEAD.unpack_from(self._map, 0)[0], _HEAD.size)
        encoded = name.encode()
        place = _aligned(used + _LENGTH.size + len(encoded))
        end = place + _NUMBER.size
        if end > len(self._map):
            os.posix_fallocate(self._fd, 0, 2 * len(self._map))
            self._map.resize(2 * len(self._map))
        _LENGTH.pack_into(self._map, used, len(encoded))
        self._map[used + _LENGTH.size : used + _LENGTH.size + len(encoded)] = encoded
        _NUMBER.pack_into(self._map, place, 0.0)
        _HEAD.pack_into(self._map, 0, end)
        return place


def read_counts(folder: Path) -> dict[str, float]:
    """Return the sums over all files of the folder, by name; {} without a folder."""
    found: dict[str, float] = {}
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        with suppress(OSError, ValueError):  # one that was just made
            for name, _, number in list(_entries(path.read_bytes())):      # all of a file, or nothing
                found[name] = found.get(name, 0.0) + number
    return found


def _take(folder: Path) -> int:
    for number in count():
        fd = os.open(folder / f"{number}{_SUFFIX}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
        else:
            return fd
    raise AssertionError("unreachable")


def _entries(content: mmap.mmap | bytes) -> Iterator[tuple[str, int, float]]:
    """Yield each name, where its number is, and the number. Raise ValueError for a broken file."""
    used = _HEAD.unpack_from(content, 0)[0] if len(content) >= _HEAD.size else 0
    if used > len(content):
        raise ValueError("more bytes in use than there are")
    at = _HEAD.size
    while at < used:
        (length,) = _LENGTH.unpack_from(content, at)
        if not length:
            raise ValueError("an entry without a name")      # a page that a power failure has kept from the disk
        start = at + _LENGTH.size
        place = _aligned(start + length)
        at = place + _NUMBER.size
        if at > used:
            raise ValueError("an entry ends behind the bytes in use")
        yield content[start : start + length].decode(), place, _NUMBER.unpack_from(content, place)[0]


def _aligned(at: int) -> int:
    return (at + 7) & ~7
