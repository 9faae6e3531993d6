"""Log files that several processes append to, rotate daily and by size, and may lose at any moment.

A record is one `write` to a descriptor opened with O_APPEND. The kernel puts it at the end of the file as a whole, so
lines of several processes never interleave. The processes share nothing but the file system:

- Is the file still the same? Once a second the path is compared with the open descriptor. A file that was deleted, or
  renamed by another process's rotation, is opened again.
- When to rotate? At the first record of a new day, and within a second after it has grown too large, the file is
  renamed to `<file>.<day>` under an advisory lock on `.rotate.lock` in the root. A process that does not get the lock
  goes on in the old file and tries again a second later, so a stopped process with the lock blocks no other.
- What is removed? At each rotation, files older than a number of days; then the oldest rotated files of the folder,
  with any name, until the folder is within its limit.

Files of other writers are kept within the same limits (`bound_followed`, `bound_in_place`).

Logging never fails for the caller. Lines that cannot be written are counted, stderr gets one message per outage, and
before the next record that can be written comes the line `N log lines were dropped`.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fate_flow.records.operator_log.format import Level, origin_here, record

LOCK_FILE = ".rotate.lock"
LOOK_AGAIN_SECONDS = 1.0
_PIECE = 1 << 20
_LOOKS_FOR_A_LINE, _LOOK_FOR_A_LINE_SECONDS = 20, 0.0005
HELD_LINES = 50
"""How many records wait at most for the next flush."""

_DATED = r"\.(?P<day>\d{4}-\d\d-\d\d)(\.\d+)?"
_is_rotated = re.compile(rf".+\.log{_DATED}").fullmatch


@dataclass(frozen=True)
class LogBounds:
    """The limits of logs, in bytes: of one file before it is rotated, and of a folder with its rotated files."""

    file_bytes: int = 64 << 20
    folder_bytes: int = 1 << 30


@dataclass
class _OpenFile:
    fd: int
    inode: tuple[int, int]
    size: int                  # at the last comparison
    day: str                   # the day of its records, "2021-07-26"
    looked_at: float           # when the path was last compared with the descriptor
    look_again_at: float


@dataclass
class _Outage:
    lines: int = 0             # dropped so far
    is_torn: bool = False      # the file ends with an incomplete line


class LogFiles:
    """The files under one root; every method may be called from any thread and, after a fork, in any process."""

    def __init__(
        self, root: Path, bounds: LogBounds | None = None, *, days_kept: int = 14, most_open: int = 64
    ) -> None:
        self._bounds = bounds or LogBounds()
        self._root = Path(root)
        self._days_kept = days_kept
        self._most_open = most_open
        self._calendar = _Calendar()
        self._start_empty()
        _instances.add(self)

    def append(self, paths: Sequence[str], data: bytes, at: float) -> None:
        """Add one record, made at `at`, to each of the files, after all held records. Never raises OSError."""
        with self._lock:
            if self._held:
                self._write_held()
            for path in paths:
                self._write(path, data, 1, at)

    def hold(self, paths: Sequence[str], data: bytes, at: float) -> None:
        """Add a record like `append`, but no later than with the next `append`, `flush` or 50th held record."""
        with self._lock:
            self._held.setdefault(tuple(paths), []).append(data)
            self._held_lines += 1
            self._held_at = at
            if self._held_lines >= HELD_LINES:
                self._write_held()

    def flush(self) -> None:
        """Write the held records."""
        if self._held:
            with self._lock:
                self._write_held()

    def close(self) -> None:
        """Flush and close every file; the next record opens its file again."""
        self.flush()
        with self._lock:
            self._close_all()

    def bound_followed(self, path: str, at: float) -> bool:
        """Rename a file that is too large, if its writers open it again when it is gone; return whether it was renamed.

        Nothing is lost: a record that is being written goes to the renamed file."""
        full = self._root / path
        found = _look_at(full)
        if found is None or found[1] < self._bounds.file_bytes:
            return False
        try:
            return self._renamed(full, found[0], self._calendar.day(at))
        except OSError:
            return False

    def bound_in_place(self, path: str, at: float) -> bool:
        """Copy a file that is too large, and empty it; return whether that was done.

        This is for a file whose writers keep it open with O_APPEND: their next record is at its beginning. Records that
        they write between the end of the copy and the truncation are lost."""
        full = self._root / path
        found = _look_at(full)
        if found is None or found[1] < self._bounds.file_bytes:
            return False
        try:
            with self._rotation_lock() as is_ours:
                if not is_ours or _look_at(full) is None:
                    return False
                _move_content(full, _free_name(full, self._calendar.day(at)))
                self._remove_oldest(full)
                self._bound_folder(full.parent)
        except OSError:                          # no space for the copy: the file stays as it is
            return False
        return True

    def _start_empty(self) -> None:
        # Reentrant, because a signal handler that logs may interrupt its own thread inside `append`.
        self._lock = threading.RLock()
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._held: dict[tuple[str, ...], list[bytes]] = {}
        self._held_lines = 0
        self._held_at = 0.0                      # the time of the newest one
        self._outages: dict[str, _Outage] = {}
        self._is_noted = False

    def _after_fork(self) -> None:
        """Start empty in the child: a new lock, no descriptors; the parent writes the held records."""
        self._close_all()
        self._start_empty()

    def _close_all(self) -> None:
        while self._open:
            _, file = self._open.popitem()
            _close(file.fd)

    # writing

    def _write_held(self) -> None:
        held, self._held, self._held_lines = self._held, {}, 0
        for paths, records in held.items():
            data = b"".join(records)
            for path in paths:
                self._write(path, data, len(records), self._held_at)

    def _write(self, path: str, data: bytes, lines: int, at: float) -> None:
        outage = self._outages.get(path)
        if outage is not None:
            data = _dropped_note(outage, at) + data
        try:
            file = self._file(path, at)
            written = os.write(file.fd, data)
            if written < len(data):              # the disk is full, or the file has reached a size limit
                self._outage(path).is_torn = True
                os.write(file.fd, data[written:])
        except OSError as error:
            self._drop(path, lines, error)
        else:
            if self._outages:
                self._end_outage(path)

    def _drop(self, path: str, lines: int, error: OSError) -> None:
        self._outage(path).lines += lines
        file = self._open.pop(path, None)        # after any error, the next record opens the file again
        if file is not None:
            _close(file.fd)
        if not self._is_noted:
            self._is_noted = True
            with suppress(OSError, ValueError, AttributeError):    # stderr may be closed, full or missing
                sys.stderr.write(f"fate_flow: cannot write {self._root / path}: {error}; log lines are dropped\n")
                sys.stderr.flush()

    def _outage(self, path: str) -> _Outage:
        return self._outages.setdefault(path, _Outage())

    def _end_outage(self, path: str) -> None:
        if self._outages.pop(path, None) is not None:
            self._is_noted = False

    # opening

    def _file(self, path: str, at: float) -> _OpenFile:
        file = self._open.get(path)
        if file is None:
            return self._opened(path, at)
        self._open.move_to_end(path)
        if file.looked_at <= at < file.look_again_at:
            return file
        return self._looked_at(path, file, at)

    def _looked_at(self, path: str, file: _OpenFile, at: float) -> _OpenFile:
        """Return the file to write to: this one, unless it is from another day or no longer at its path."""
        found = _look_at(self._root / path)
        if found is not None and found[0] == file.inode:
            file.size = found[1]
            if not self._rotated(path, file, at):
                return self._seen(file, at)
        self._open.pop(path, None)
        _close(file.fd)
        return self._opened(path, at)

    def _opened(self, path: str, at: float) -> _OpenFile:
        file = self._descriptor(path, at)
        if self._rotated(path, file, at):        # from another day, or too large
            _close(file.fd)
            file = self._descriptor(path, at)
        self._open[path] = self._seen(file, at)
        while len(self._open) > self._most_open:
            _, oldest = self._open.popitem(last=False)
            _close(oldest.fd)
        return file

    def _descriptor(self, path: str, at: float) -> _OpenFile:
        full = self._root / path
        try:
            fd = _open_for_append(full)
        except FileNotFoundError:
            full.parent.mkdir(parents=True, exist_ok=True)
            fd = _open_for_append(full)
        found = os.fstat(fd)
        day = self._calendar.day(found.st_mtime if found.st_size else at)
        return _OpenFile(fd, (found.st_dev, found.st_ino), found.st_size, day, at, at)

    def _seen(self, file: _OpenFile, at: float) -> _OpenFile:
        file.looked_at = at
        file.look_again_at = min(at + LOOK_AGAIN_SECONDS, self._calendar.next_day_begins(at))
        return file

    # rotating

    def _rotated(self, path: str, file: _OpenFile, at: float) -> bool:
        """Rotate the file if it is due; return whether it was renamed, by this process or another one."""
        if file.day >= self._calendar.day(at) and file.size < self._bounds.file_bytes:
            return False
        try:
            return self._renamed(self._root / path, file.inode, file.day)
        except OSError:                          # the folder cannot be written: the old file keeps growing
            return False

    def _renamed(self, full: Path, inode: tuple[int, int], day: str) -> bool:
        """Rename this file under the lock; return whether it no longer has its name. Raises OSError."""
        with self._rotation_lock() as is_ours:
            if not is_ours:
                return False
            found = _look_at(full)
            if found is not None and found[0] == inode:
                full.rename(_free_name(full, day))
                self._remove_oldest(full)
                self._bound_folder(full.parent)
        return True

    @contextmanager
    def _rotation_lock(self) -> Iterator[bool]:
        fd = os.open(self._root / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(fd)

    def _remove_oldest(self, full: Path) -> None:
        is_dated = re.compile(re.escape(full.name) + _DATED).fullmatch
        day_of = {name: found["day"] for name in os.listdir(full.parent) if (found := is_dated(name))}
        kept = sorted(set(day_of.values()))[-self._days_kept:]
        for name, day in day_of.items():
            if day not in kept:
                (full.parent / name).unlink(missing_ok=True)


    def _bound_folder(self, folder: Path) -> None:
        files = [(entry.stat(follow_symlinks=False), entry.name) for entry in os.scandir(folder) if entry.is_file()]
        total = sum(found.st_size for found, _ in files)
        rotated = sorted((found.st_mtime_ns, name, found.st_size) for found, name in files if _is_rotated(name))
        for _, name, size in rotated:
            if total <= self._bounds.folder_bytes:
                return
            (folder / name).unlink(missing_ok=True)
            total -= size


class _Calendar:
    """Local days; it caches the bounds of the last day."""

    def __init__(self) -> None:
        self._known = (0.0, 0.0, "")

    def day(self, at: float) -> str:
        return self._around(at)[2]

    def next_day_begins(self, at: float) -> float:
        return self._around(at)[1]

    def _around(self, at: float) -> tuple[float, float, str]:
        known = self._known
        if not known[0] <= at < known[1]:
            known = self._known = _day_around(at)
        return known


def _day_around(at: float) -> tuple[float, float, str]:
    day = time.localtime(at)
    begin, end = (time.mktime((day.tm_year, day.tm_mon, day.tm_mday + days, 0, 0, 0, 0, 0, -1)) for days in (0, 1))
    return begin, end, time.strftime("%Y-%m-%d", day)


def _dropped_note(outage: _Outage, at: float) -> bytes:
    note = record(Level.WARNING.name, at, origin_here(), "files.py", 0, f"{outage.lines} log lines were dropped")
    return (b"\n" if outage.is_torn else b"") + note


def _open_for_append(full: Path) -> int:
    return os.open(full, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _close(fd: int) -> None:
    with suppress(OSError):
        os.close(fd)


def _look_at(full: Path) -> tuple[tuple[int, int], int] | None:
    """Return the identity of the file at this path, and its size; None if there is none."""
    try:
        found = os.stat(full)
    except OSError:
        return None
    return (found.st_dev, found.st_ino), found.st_size


def _move_content(full: Path, copy: Path) -> None:
    """Copy the content and empty the file. Raises OSError; then the file is unchanged, and there is no copy.

    A reader may see the first part of a record that is being appended, up to the end of a page. If the copy does not
    end with a complete line, wait for the rest, but only for a moment: perhaps the writer wrote no more than that."""
    with open(full, "r+b", buffering=0) as file, open(copy, "xb", opener=_for_us_alone, buffering=0) as to:
        most = 2 * os.fstat(file.fileno()).st_size       # so that a writer faster than the copy does not keep it going
        try:
            end, looks = b"\n", _LOOKS_FOR_A_LINE
            while file.tell() < most or end != b"\n":
                data = file.read(_PIECE)
                if not data and (end == b"\n" or not looks):
                    break
                if not data:
                    looks -= 1
                    time.sleep(_LOOK_FOR_A_LINE_SECONDS)
                end = data[-1:] or end
                while data:
                    data = data[to.write(data):]
        except OSError:
            copy.unlink(missing_ok=True)
            raise
        file.truncate(0)


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _free_name(full: Path, day: str) -> Path:
    """Return `<file>.<day>`, with the next number at the end if the file was rotated on that day before."""
    begin = f"{full.name}.{day}"
    numbers = [name[len(begin) + 1:] or "0" for name in os.listdir(full.parent) if name.startswith(begin)]
    last = max((int(number) for number in numbers if number.isdigit()), default=-1)
    return full.with_name(begin if last < 0 else f"{begin}.{last + 1}")


_instances: weakref.WeakSet[LogFiles] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for files in list(_instances):
        files._after_fork()


def _at_exit() -> None:
    for files in list(_instances):
        files.flush()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
