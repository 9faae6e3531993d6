"""The files of the spool's channels, and the count of the bytes that they use.

A channel is a file with its marks, `<channel>`, and a file `<channel>.<seq>` for each chunk that is stored and not
confirmed. Behind its marks, the file has the name of the channel, written with the first chunk. The marks also say what
the channel has carried so far, for the record, so that no chunk needs another write for that. A file `<channel>.sent`
has the marks of a channel to another party, whose chunks are stored there.

*The total is always the sum over the marks of all channels.* A channel counts one block once its first chunk is
stored, plus the unread bytes in its marks. So is the count of each other party, over the channels of its workers,
whose marks name it. Marks change only under the lock of their channel and the lock of the total, together with both
counts (`Total.commit`). So no interleaving of operations, including a count of all marks, can make them differ. A kill
between the writes can; the next count repairs that. Each process of the server counts when it starts.

A chunk that is being written is not counted yet, so the disk may hold one more chunk for each push in progress.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.record.carried import NOT_KEPT, digest_after

BLOCK = 4096
_MARKS = struct.Struct("<QQQQQQ32s")
_MARKS_BEFORE = (struct.Struct("<QQQQ"), struct.Struct("<QQQ"))     # of older releases: less is known
_LONGEST_NAME = 2048                        # bytes


@dataclass(frozen=True)
class Message:
    """One chunk, and whether the message ends with it."""

    data: bytes
    last: bool


@dataclass(frozen=True)
class Marks:
    """The state of a channel."""

    stored: int = 0     # the number of the next push
    confirmed: int = 0  # chunks with smaller numbers were consumed and are deleted
    unread: int = 0     # bytes of the chunks between the two
    party: int = 0      # the other party that counts them; 0: none
    messages: int = 0   # whose last chunk was stored
    size: int = 0       # bytes that were stored, confirmed ones included
    digest: bytes = NOT_KEPT    # of all chunks that were stored

    def with_chunk(self, chunk: Message, keeps_digest: bool) -> Marks:
        """Return the marks after the next chunk, without its cost. A digest that does not begin with the first chunk
        is none."""
        is_followed = keeps_digest and (not self.stored or self.digest != NOT_KEPT)
        return replace(
            self, stored=self.stored + 1, messages=self.messages + chunk.last, size=self.size + len(chunk.data),
            digest=digest_after(self.digest, chunk.data, chunk.last) if is_followed else NOT_KEPT,
        )  # fmt: skip

    @property
    def cost(self) -> int:
        """The bytes that a channel with these marks counts; 0 for a file without marks."""
        return BLOCK + self.unread if self.stored else 0


class Total:
    """The count of the bytes in use, shared by all processes."""

    def __init__(self, path: str, parties: str) -> None:
        """`parties`: the folder with a count for each other party."""
        self._path = path
        self._parties = parties

    def has_space(self, cost: int, limit: int) -> bool:
        """Return whether so many bytes would fit now. Only `commit` decides for sure."""
        with self.held() as fd:
            return _count(fd) + cost <= limit

    def used(self) -> int:
        """Return how many bytes are in use."""
        with self.held() as fd:
            return _count(fd)

    def of_party(self, party: int) -> int:
        """Return how many bytes the messages of another party take."""
        with self.held():
            return self._of(party)

    def commit(self, channel: ChannelFile, marks: Marks, limit: int | None = None) -> bool:
        """Write the marks and count the difference. Write nothing and return False if that would exceed the limit."""
        with self.held() as fd:
            before, of_party, change = _count(fd), self._of(marks.party), marks.cost - channel.marks.cost
            if limit is not None and before + change > limit:
                return False
            _write_count(fd, before + change)
            try:
                self._write_of(marks.party, of_party + change)
                channel.write(marks)
            except OSError:
                _write_count(fd, before)
                with suppress(OSError):
                    self._write_of(marks.party, of_party)
                raise
        return True

    def count(self, channels: Callable[[], Iterable[str]]) -> None:
        """Sum up the marks of all channels; changes of marks wait for it."""
        with self.held() as fd:
            total, of_parties = 0, dict.fromkeys(map(int, os.listdir(self._parties)), 0)
            for path in channels():
                marks = _marks_of(path)
                total += marks.cost
                of_parties[marks.party] = of_parties.get(marks.party, 0) + marks.cost
            _write_count(fd, total)
            for party, count in of_parties.items():
                self._write_of(party, count)

    @contextmanager
    def held(self) -> Iterator[int]:
        """Hold the lock of the total: no marks change meanwhile."""
        with locked(self._path, os.O_RDWR | os.O_CREAT) as fd:
            yield fd


    def _of(self, party: int) -> int:
        if not party:
            return 0
        try:
            fd = os.open(self._path_of(party), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            return _count(fd)
        finally:
            os.close(fd)

    def _write_of(self, party: int, count: int) -> None:
        if not party:
            return
        path, flags = self._path_of(party), os.O_WRONLY | os.O_CLOEXEC
        try:
            fd = os.open(path, flags)            # the file is there, and needs no space on a full disk
        except FileNotFoundError:
            fd = os.open(path, flags | os.O_CREAT, 0o600)
        try:
            _write_count(fd, count)
        finally:
            os.close(fd)

    def _path_of(self, party: int) -> str:
        return os.path.join(self._parties, str(party))


class ChannelFile:
    """The channel of one topic from one sender, while its lock is held."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path
        self.marks = _read_marks(fd)

    def read(self, seq: int) -> Message:
        """Read a stored chunk. Raises FileNotFoundError if a purge has removed the channel."""
        try:
            data, end = _read_chunk(self._chunk(seq))
        except FileNotFoundError:
            os.stat(self._path)
            end = b""
        if end not in (b"\0", b"\1"):
            raise StorageFailed(f"{self._chunk(seq)}: the chunk was lost, the disk did not keep it")
        return Message(data, end == b"\1")

    def append(
        self, chunk: Message, total: Total, limit: int, party: int, name: str, *, keeps_digest: bool
    ) -> bool:  # fmt: skip
        """Store the next chunk, all or nothing; False if it would exceed the limit.

        `party`: the other party that counts a channel whose first chunk this is; `name`: what such a channel is called.
        `keeps_digest`: whether the digest of what the channel carries is computed."""
        path = self._chunk(self.marks.stored)
        unread = self.marks.unread + charge(len(chunk.data))
        stored = False
        try:
            _write_chunk(path, chunk)
            if not self.marks.stored:
                self._write_name(name)
            counted = self.marks.party if self.marks.stored else party
            marks = replace(self.marks.with_chunk(chunk, keeps_digest), unread=unread, party=counted)
            stored = total.commit(self, marks, limit)
        finally:
            if not stored:
                with suppress(OSError):
                    os.unlink(path)
        return stored

    def confirm(self, seq: int, total: Total) -> None:
        """Delete the chunks below this number."""
        paths = [self._chunk(number) for number in range(self.marks.confirmed, seq)]
        freed = sum(map(_size_of_chunk, paths))
        unread = max(0, self.marks.unread - freed) if seq < self.marks.stored else 0
        # The marks first: a kill in between leaves files that are never read, and that `close` deletes.
        total.commit(self, replace(self.marks, confirmed=seq, unread=unread))
        for path in paths:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def remove(self, total: Total) -> None:
        """Remove the marks and their count; a process that waits for the lock finds that the channel is gone."""
        if self.marks.cost:             # a file without marks has no block yet, and a full disk would give it none
            total.commit(self, Marks(party=self.marks.party))
        os.unlink(self._path)

    def write(self, marks: Marks) -> None:
        """Write the marks; only for `Total.commit`."""
        os.pwrite(self._fd, _packed(marks), 0)
        self.marks = marks

    def name(self) -> str:
        """Return what the channel is called; empty if an older release has made it."""
        return _read_name(self._fd)

    def note(self, seq: int, chunk: Message, name: str) -> None:
        """Count a chunk that was stored elsewhere; one that was counted before changes nothing. Its file counts no
        bytes of the spool. If a chunk before it was not counted, there is no digest any more."""
        if seq < self.marks.stored:
            return
        if not self.marks.stored:
            self._write_name(name)
        marks = self.marks.with_chunk(chunk, keeps_digest=seq == self.marks.stored)
        self.write(replace(marks, stored=seq + 1))

    def _write_name(self, name: str) -> None:
        os.pwrite(self._fd, name.encode("utf-8", "surrogatepass"), _MARKS.size)

    def _chunk(self, seq: int) -> str:
        return f"{self._path}.{seq}"


def charge(size: int) -> int:
    """Return the count for so many bytes: whole blocks, at least one."""
    return max(1, -(-size // BLOCK)) * BLOCK


@contextmanager
def locked(path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Open the file and hold an exclusive lock on it."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def locked_channel(path: str) -> Iterator[ChannelFile]:
    """Hold the lock of a channel. Raises FileNotFoundError if the channel was removed before."""
    with locked(path, os.O_RDWR) as fd:
        if os.fstat(fd).st_nlink == 0:
            raise FileNotFoundError(path)
        yield ChannelFile(fd, path)


def make_channel_file(path: str) -> None:
    """Make the file of a channel, which counts nothing yet, unless another process has made it."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _count(fd: int) -> int:
    return int.from_bytes(os.pread(fd, 8, 0), "little")


def _write_count(fd: int, total: int) -> None:
    os.pwrite(fd, max(0, total).to_bytes(8, "little"), 0)


def _packed(marks: Marks) -> bytes:
    return _MARKS.pack(
        marks.stored, marks.confirmed, marks.unread, marks.party, marks.messages, marks.size, marks.digest
    )  # fmt: skip


def _read_marks(fd: int) -> Marks:
    record = os.pread(fd, _MARKS.size, 0)
    for form in (_MARKS, *_MARKS_BEFORE):
        if len(record) == form.size:
            return Marks(*form.unpack(record))
    return Marks()


def _read_name(fd: int) -> str:
    return os.pread(fd, _LONGEST_NAME, _MARKS.size).decode("utf-8", "surrogatepass")


def _marks_of(path: str) -> Marks:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Marks()
    try:
        return _read_marks(fd)
    finally:
        os.close(fd)


def _write_chunk(path: str, chunk: Message) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(chunk.data)
        while rest:  # a write is short if the disk fills up; the next one raises
            rest = rest[os.write(fd, rest):]
        os.write(fd, b"\1" if chunk.last else b"\0")
    finally:
        os.close(fd)


def _read_chunk(path: str) -> tuple[bytes, bytes]:
    """Return the bytes of a chunk, and the byte after them."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = max(0, os.fstat(fd).st_size - 1)
        return os.pread(fd, size, 0), os.pread(fd, 1, size)
    finally:
        os.close(fd)


def _size_of_chunk(path: str) -> int:
    try:
        return charge(os.stat(path).st_size - 1)
    except FileNotFoundError:
        return 0
