"""The spool: messages between the workers of one task, on disk, shared by the processes of one server.

    sessions/<job_id>/<task_id>.<version>.<incarnation>.<role>.<party_id>/
        session          the peers and the sha256 of the token; named `closed` once it has ended
        received         of a session that has ended: how many chunks each channel had
        <channel>        the marks of a channel (one topic from one sender): stored, confirmed, unread
        <channel>.<seq>  one chunk: its bytes, then one byte that says whether the message ends here
    tokens/<sha256>      which session a token opens
    trash/               what `purge` took out and has not deleted yet
    total                bytes in use

*The marks are the commit.* Chunks with `confirmed <= seq < stored` exist, no other does. A chunk is
written under its final name first; then one `pwrite` of 24 bytes raises `stored`, which a kill cannot cut
in two. What a killed process left behind has a number that nobody reads, and the next push of that number
writes over it. This costs half of writing under another name and renaming, and leaves nothing to sweep.

*Nothing is synced.* A message lost in a power failure had its worker on the same machine, and that is lost
with it. A chunk that comes back from such a failure without its last byte is an error, not an empty message.

*Locks are `flock`s,* so the kernel frees them with their process, and every operation opens the file anew,
so threads and forked processes exclude each other too. Order: a session's folder or a channel, then the
total. Closing is a rename, which works on a full disk, then passes through the lock of every channel: who
gets one of them later sees that the session has ended.

*Sizes are counted in blocks of 4 KiB,* as the disk does, so that a flood of empty messages meets the same
bounds. How the total is kept exact is told in `channel_files.py`; it is counted anew when a process starts, and
before a push is refused for it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from fate_flow.core.errors import BadRequest, BadSettings, StorageFailed
from fate_flow.core.grammar import (
    check_incarnation,
    check_job_id,
    check_party_id,
    check_role,
    check_task_id,
    check_version,
)
from fate_flow.federation.channel_files import (
    BLOCK,
    Channel,
    Message,
    Total,
    charge,
    locked,
    locked_channel,
    make_channel_file,
)

PartyKey = tuple[str, str]  # role, party id
_K = TypeVar("_K")
_V = TypeVar("_V")

TOPIC_CHARS = 256
_RECHECK_SECONDS = 0.25   # how long a wake-up that got lost may delay a waiting pop
_RECOUNT_SECONDS = 10.0   # a full spool is counted anew this often at most
_CACHED = 1024            # sessions and tokens remembered by one process
_PURGES = 16              # an open begins again this often when its job is purged meanwhile
_SEQ_END = 1 << 62
_SESSION = "session"
_CLOSED = "closed"
_RECEIVED = "received"
_OWN_FILES = frozenset({_SESSION, _CLOSED, _RECEIVED})  # the rest of a session's folder are channels
_DISK_IS_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True)
class SpoolLimits:
    """What the spool holds at most, in bytes: a chunk, the unread of a channel, everything."""

    chunk_bytes: int = 4 << 20
    unread_bytes: int = 64 << 20
    total_bytes: int = 4 << 30

    def __post_init__(self) -> None:
        largest = charge(self.chunk_bytes)
        if self.chunk_bytes < 1 or self.unread_bytes < largest or self.total_bytes < largest + BLOCK:
            raise BadSettings(f"spool: a chunk of chunk_bytes has to fit the other bounds: {self}")


@dataclass(frozen=True)
class Session:
    """One attempt of a task at one party; BadRequest names a field that could not stand in a path."""

    job_id: str
    task_id: str
    version: int
    incarnation: str
    role: str
    party_id: str

    def __post_init__(self) -> None:
        check_job_id(self.job_id)
        check_task_id(self.task_id)
        check_version(self.version, "version")
        check_incarnation(self.incarnation)
        check_role(self.role)
        check_party_id(self.party_id)

    def __str__(self) -> str:
        return (f"{self.job_id}/{self.task_id}/{self.version}/{self.incarnation}"
                f"/{self.role}/{self.party_id}")


@dataclass(frozen=True)
class Stored:
    """The spool has the chunk; `new` is False when it had it before."""

    new: bool


class Problem(Enum):
    """Why the spool says no."""

    NOT_STARTED = "not_started"  # the session is not open here yet, or no longer known
    GONE = "gone"                # the session has ended
    STRANGER = "stranger"        # no such party in this task
    SKIPPED = "skipped"          # the number is not the next one
    DIFFERENT = "different"      # the number holds other bytes
    TOO_LARGE = "too_large"      # the chunk is
    BACKLOG = "backlog"          # the reader is too far behind
    FULL = "full"                # the spool or the disk is


@dataclass(frozen=True)
class Refusal:
    """The spool says no, and names the value that is wrong."""

    problem: Problem
    message: str


PutResult = Stored | Refusal
GetResult = Message | Refusal | None


def check_topic(topic: str) -> str:
    """The topic, when it is one: any text of 1 to 256 characters."""
    if not 0 < len(topic) <= TOPIC_CHARS:
        raise BadRequest(f"topic: {len(topic)} characters, 1 to {TOPIC_CHARS} are allowed")
    return topic


class Spool:
    """The messages of all sessions of this server, for all its processes and threads at once."""

    def __init__(self, root: Path, limits: SpoolLimits, wake: Callable[[], None]) -> None:
        self.limits = limits
        self._root = str(root)
        self._wake = wake
        self._total = Total(os.path.join(self._root, "total"))
        self._entries: dict[Session, tuple[_Stamp, _Entry]] = {}
        self._tokens: dict[str, Session] = {}
        self._changed = threading.Condition()
        self._changes = 0
        self._recount_at = 0.0
        with _disk_errors():
            self._prepare()

    # sessions

    def open(self, session: Session, peers: tuple[PartyKey, ...], token: str) -> bool:
        """Let the parties talk and the token speak for the session; False when it has been closed already."""
        folder = self._folder(session)
        wanted = _Entry(frozenset(peers), _digest(token))
        with _disk_errors():
            for _ in range(_PURGES):
                with suppress(FileNotFoundError), _session_folder(folder):
                    return self._open(session, wanted)
            raise FileNotFoundError(errno.ENOENT, "removed each time it was made", folder)

    def close(self, session: Session) -> None:
        """Drop the messages of the session; from now on it is gone, even if it never was open.

        A close that was killed half way is finished by asking again."""
        folder = self._folder(session)
        # not found: a purge took the job out meanwhile
        with _disk_errors(), suppress(FileNotFoundError), _session_folder(folder):
            _entomb(folder)
            _drop_channels(folder, self._total)
        self._ring()

    def purge(self, job_id: str) -> None:
        """Remove every trace of the job, tombstones too."""
        check_job_id(job_id)
        trash = os.path.join(self._root, "trash", f"{job_id}.{secrets.token_hex(8)}")
        with _disk_errors(), suppress(FileNotFoundError):
            # One rename takes the whole job out: no kill can leave a session without its tombstone.
            with self._total.held():     # a count sees the job here or there, and once
                os.rename(os.path.join(self._root, "sessions", job_id), trash)
            self._delete(trash)
        self._ring()

    def jobs(self) -> tuple[str, ...]:
        """The ids of the jobs that have left a trace here."""
        with _disk_errors():
            return tuple(filter(str.isdigit, os.listdir(os.path.join(self._root, "sessions"))))

    def session_of(self, token: str) -> Session | Refusal | None:
        """The session a worker may speak for; GONE when it has ended, None when nobody knows the token."""
        digest = _digest(token)
        with _disk_errors():
            session = self._tokens.get(digest) or self._read_token(digest)
            entry = self._entry(session) if session else None
        if session is None or entry is None:
            return None
        if entry.closed:
            return _gone(session)
        return session if entry.token == digest else None

    def objection(self, session: Session, peer: PartyKey) -> Refusal | None:
        """Why this session may not talk with that party; None when it may."""
        with _disk_errors():
            entry = self._entry(session)
        if entry is None:
            return Refusal(Problem.NOT_STARTED, f"session {session}: has not started here")
        if entry.closed:
            return _gone(session)
        if peer not in entry.peers:
            return Refusal(Problem.STRANGER, f"{peer[0]} {peer[1]}: no such party in session {session}")
        return None

    # messages

    def put(
        self, session: Session, topic: str, sender: PartyKey, seq: int, last: bool, data: bytes
    ) -> PutResult:
        """Store a chunk that the sender has for this session; saying it again changes nothing.

        That holds for a session that has ended, too: the receiver may be done before the sender has its answer."""
        _check_seq(seq)
        path = self._channel_path(session, topic, sender)
        with _disk_errors():
            try:
                result = self._put(session, sender, path, seq, Message(data, last))
            except OSError as error:
                if error.errno not in _DISK_IS_FULL:
                    raise
                result = Refusal(Problem.FULL, f"the disk is full: {error.strerror}")
            if isinstance(result, Refusal) and result.problem is Problem.GONE and self._had(session, path, seq):
                result = Stored(new=False)
        if result == Stored(new=True):
            self._ring()
        return result

    def get(
        self, session: Session, topic: str, sender: PartyKey, seq: int, wait_seconds: float = 0.0
    ) -> GetResult:
        """The chunk with this number, which confirms all before it; None when none came within the time."""
        deadline = time.monotonic() + wait_seconds
        while True:
            changes = self._changes  # before the look: what is stored after it ends the sleep
            found = self._look(session, topic, sender, seq, confirm=True)
            left = deadline - time.monotonic()
            if found is not None or left <= 0:
                return found
            self._sleep(changes, min(left, _RECHECK_SECONDS))

    def peek(self, session: Session, topic: str, sender: PartyKey, seq: int) -> GetResult:
        """The chunk with this number when it is there; nothing waits, nothing is confirmed."""
        return self._look(session, topic, sender, seq, confirm=False)

    def release(self, session: Session, topic: str, sender: PartyKey) -> Refusal | None:
        """Forget what the channel holds; its numbers go on from there."""
        path = self._channel_path(session, topic, sender)
        with _disk_errors(), suppress(FileNotFoundError), locked_channel(path) as channel:
            if self.objection(session, sender) is None:
                channel.confirm(channel.marks.stored, self._total)
        return self.objection(session, sender)

    def notify(self) -> None:
        """Another process changed something: let the waiting pops of this one look."""
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    # a push, under the lock of its channel

    def _put(self, session: Session, sender: PartyKey, path: str, seq: int, chunk: Message) -> PutResult:
        if len(chunk.data) > self.limits.chunk_bytes:
            return Refusal(Problem.TOO_LARGE,
                           f"{len(chunk.data)} bytes: a chunk has {self.limits.chunk_bytes} at most")
        cost = charge(len(chunk.data))
        if refusal := self.objection(session, sender):
            return refusal
        try:
            if seq == 0 and not os.path.exists(path):
                if not self._has_room(BLOCK + cost):     # topics are free to invent, their files are not
                    return self._full()
                make_channel_file(path)
            with locked_channel(path) as channel:
                # Once more: a close may have passed this lock before us.
                return self.objection(session, sender) or self._settle(channel, seq, chunk)
        except FileNotFoundError:  # its first chunk is still to come, or a purge took the session out
            return self.objection(session, sender) or _skipped(seq, 0)

    def _had(self, session: Session, path: str, seq: int) -> bool:
        """Whether a session that has ended had this chunk of a channel."""
        folder = self._folder(session)
        try:
            with locked(folder):     # whoever closes it has finished
                return seq < int(_received(folder).get(os.path.basename(path), 0))
        except FileNotFoundError:
            return False

    def _settle(self, channel: Channel, seq: int, chunk: Message) -> PutResult:
        marks = channel.marks
        if seq > marks.stored:
            return _skipped(seq, marks.stored)
        if seq < marks.confirmed or (seq < marks.stored and channel.read(seq) == chunk):
            return Stored(new=False)
        if seq < marks.stored:
            return Refusal(Problem.DIFFERENT, f"seq: {seq} holds other bytes already")
        return self._append(channel, chunk)

    def _append(self, channel: Channel, chunk: Message) -> PutResult:
        cost = charge(len(chunk.data))
        if channel.marks.unread + cost > self.limits.unread_bytes:
            return Refusal(Problem.BACKLOG, f"unread: {self.limits.unread_bytes} bytes wait in this topic")
        if self._has_room(cost) and channel.append(chunk, self._total, self.limits.total_bytes):
            return Stored(new=True)
        return self._full()

    def _full(self) -> Refusal:
        return Refusal(Problem.FULL, f"the spool is full: {self.limits.total_bytes} bytes")

    def _has_room(self, cost: int) -> bool:
        """Whether the spool has room; one that reads full is counted anew first."""
        if self._total.has_room(cost, self.limits.total_bytes):
            return True
        if time.monotonic() < self._recount_at:
            return False
        self._recount()
        return self._total.has_room(cost, self.limits.total_bytes)

    # a pop

    def _look(self, session: Session, topic: str, sender: PartyKey, seq: int, *, confirm: bool) -> GetResult:
        _check_seq(seq)
        path = self._channel_path(session, topic, sender)
        with _disk_errors():
            try:
                with locked_channel(path) as channel:
                    return self.objection(session, sender) or self._take(channel, seq, confirm)
            except FileNotFoundError:  # nothing was pushed yet, or the session is not there
                return self.objection(session, sender) or (_skipped(seq, 0) if seq and confirm else None)

    def _take(self, channel: Channel, seq: int, confirm: bool) -> GetResult:
        marks = channel.marks
        if seq < marks.confirmed:
            return Refusal(Problem.SKIPPED, f"seq: {seq} is confirmed and forgotten, next is {marks.confirmed}")
        if confirm and seq > marks.stored:
            return _skipped(seq, marks.stored)
        if confirm and seq > marks.confirmed:
            channel.confirm(seq, self._total)
        return channel.read(seq) if seq < marks.stored else None

    def _ring(self) -> None:
        self.notify()
        self._wake()

    def _sleep(self, changes: int, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._changes != changes, seconds)

    # what is known of a session

    def _open(self, session: Session, wanted: _Entry) -> bool:
        known = self._entry(session)
        if known is not None and (known.closed or known == wanted):
            return not known.closed
        # The token first: who finds the session open can rely on it.
        _replace(self._token_path(wanted.token), vars(session))
        _replace(os.path.join(self._folder(session), _SESSION), wanted.to_json())
        if known is not None and known.token != wanted.token:
            with suppress(FileNotFoundError):
                os.unlink(self._token_path(known.token))
        return True

    def _entry(self, session: Session) -> _Entry | None:
        """What the session's file says; read again only when the file has changed."""
        path = os.path.join(self._folder(session), _SESSION)
        cached = self._entries.get(session)
        try:
            if cached and cached[0] == _stamp(os.stat(path)):
                return cached[1]
            # With the stamp of what is read, not of what was looked at: it may have been replaced between.
            stamp, document = _read_json(path)
        except FileNotFoundError:
            return self._ended(session)
        entry = _Entry.from_json(document)
        _remember(self._entries, session, (stamp, entry))
        return entry

    def _ended(self, session: Session) -> _Entry | None:
        self._entries.pop(session, None)
        is_closed = os.path.exists(os.path.join(self._folder(session), _CLOSED))
        return _Entry(frozenset(), "", closed=True) if is_closed else None

    def _read_token(self, digest: str) -> Session | None:
        try:
            session = Session(**_read_json(self._token_path(digest))[1])
        except FileNotFoundError:
            return None
        _remember(self._tokens, digest, session)
        return session

    # paths, and the whole

    def _folder(self, session: Session) -> str:
        return (f"{self._root}/sessions/{session.job_id}/{session.task_id}.{session.version}"
                f".{session.incarnation}.{session.role}.{session.party_id}")

    def _channel_path(self, session: Session, topic: str, sender: PartyKey) -> str:
        name = f"{sender[0]}/{sender[1]}/{check_topic(topic)}".encode("utf-8", "surrogatepass")
        return f"{self._folder(session)}/{hashlib.sha256(name).hexdigest()[:40]}"

    def _token_path(self, digest: str) -> str:
        return f"{self._root}/tokens/{digest}"

    def _prepare(self) -> None:
        for name in ("sessions", "tokens", "trash"):
            os.makedirs(os.path.join(self._root, name), mode=0o700, exist_ok=True)
        for name in os.listdir(os.path.join(self._root, "trash")):
            self._delete(os.path.join(self._root, "trash", name))
        self._recount()

    def _recount(self) -> None:
        self._total.count(self._all_channels)
        self._recount_at = time.monotonic() + _RECOUNT_SECONDS

    def _all_channels(self) -> Iterator[str]:
        for place in ("sessions", "trash"):
            for job_folder in _folders(os.path.join(self._root, place)):
                for folder in _folders(job_folder):
                    yield from _channels(folder)

    def _delete(self, job_folder: str) -> None:
        """Delete a job's folder and its tokens, and what its channels count."""
        for folder in _folders(job_folder):
            _uncount(folder, self._total)
            for name in (_SESSION, _CLOSED):
                with suppress(FileNotFoundError):
                    document = _read_json(os.path.join(folder, name))[1]
                    os.unlink(self._token_path(_Entry.from_json(document).token))
        shutil.rmtree(job_folder, ignore_errors=True)


@dataclass(frozen=True)
class _Entry:
    """What the file of a session says."""

    peers: frozenset[PartyKey]
    token: str
    closed: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"peers": sorted(self.peers), "token": self.token}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> _Entry:
        return cls(frozenset((role, party_id) for role, party_id in document["peers"]), document["token"])


_Stamp = tuple[int, int, int, int]


def _stamp(stat: os.stat_result) -> _Stamp:
    return stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size


def _gone(session: Session) -> Refusal:
    return Refusal(Problem.GONE, f"session {session}: has ended")


def _skipped(seq: int, following: int) -> Refusal:
    return Refusal(Problem.SKIPPED, f"seq: {seq} skips numbers, {following} is the next of this topic")


def _check_seq(seq: int) -> None:
    if not 0 <= seq < _SEQ_END:
        raise BadRequest(f"seq: {seq} is out of range")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


@contextmanager
def _session_folder(folder: str) -> Iterator[None]:
    """The folder of a session under its lock, made when it is not there; FileNotFoundError when a purge takes it."""
    for path in (os.path.dirname(folder), folder):
        with suppress(FileExistsError):     # not `makedirs`: it fails when a purge follows its own look
            os.mkdir(path, 0o700)
    with locked(folder):
        yield


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailed(f"{error.filename or 'spool'}: {error.strerror}") from error


def _read_json(path: str) -> tuple[_Stamp, dict[str, Any]]:
    """The document and the stamp of its file; one that a power failure emptied counts as not there."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
        if not text.endswith("}"):
            raise FileNotFoundError(errno.ENOENT, "not written to its end", path)
        return _stamp(os.fstat(file.fileno())), json.loads(text)


def _remember(cache: dict[_K, _V], key: _K, value: _V) -> None:
    """Keep the value; a full cache starts over."""
    if len(cache) >= _CACHED:
        cache.clear()
    cache[key] = value


def _replace(path: str, document: dict[str, Any]) -> None:
    """Put the document there as a whole; a reader sees the old one or the new one."""
    fresh = f"{path}.new"
    with open(fresh, "w", encoding="utf-8") as file:
        json.dump(document, file)
    os.replace(fresh, path)


def _entomb(folder: str) -> None:
    try:
        os.rename(os.path.join(folder, _SESSION), os.path.join(folder, _CLOSED))
    except FileNotFoundError:  # never opened, or closed before
        os.close(os.open(os.path.join(folder, _CLOSED), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _drop_channels(folder: str, total: Total) -> None:
    """Delete all channels of a closed session, but for how much they had."""
    received: dict[str, Any] = {}
    for path in _channels(folder):
        # Whoever was storing has finished; whoever comes now sees the tombstone.
        with suppress(FileNotFoundError), locked_channel(path) as channel:
            received[os.path.basename(path)] = channel.marks.stored
    _note_received(folder, received)
    _uncount(folder, total)
    for name in os.listdir(folder):
        if name not in _OWN_FILES:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


def _uncount(folder: str, total: Total) -> None:
    """Remove the channels of a session, and what they count."""
    for path in _channels(folder):
        with suppress(FileNotFoundError), locked_channel(path) as channel:
            channel.remove(total)


def _channels(folder: str) -> list[str]:
    with suppress(FileNotFoundError):
        names = os.listdir(folder)
        return [os.path.join(folder, name) for name in names if name not in _OWN_FILES and "." not in name]
    return []


def _note_received(folder: str, received: dict[str, Any]) -> None:
    if not received:
        return
    try:
        _replace(os.path.join(folder, _RECEIVED), {**_received(folder), **received})
    except OSError as error:
        # Closing has to work on a full disk; who repeats a push is then told that the session is gone.
        if error.errno not in _DISK_IS_FULL:
            raise


def _received(folder: str) -> dict[str, Any]:
    try:
        return _read_json(os.path.join(folder, _RECEIVED))[1]
    except FileNotFoundError:
        return {}


def _folders(path: str) -> list[str]:
    with suppress(FileNotFoundError), os.scandir(path) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return []
