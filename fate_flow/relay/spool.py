"""The spool: messages between the workers of one task, on disk, shared by the processes of one server.

    sessions/<job_id>/<task_id>.<version>.<incarnation>.<role>.<party_id>/
        session          the peers, the sha256 of the token and the name of the job's document; renamed to `closed`
                         when the session ends
        lock             held while the session begins, changes or ends
        received         after the end of a session: how many chunks each channel had
        <channel>        the marks of a channel (one topic from one sender): stored, confirmed, unread, the party
                         that counts them, and what it has carried so far; then its name
        <channel>.<seq>  one chunk: its bytes, then one byte that says whether the message ends here
        <channel>.sent   the marks of a channel to another party, if the record needs them
    tokens/<sha256>      the session that a token opens
    trash/               jobs that `purge` has moved here and not deleted yet
    total                bytes in use
    parties/<party_id>   bytes in use by messages of the workers of another party

*The marks are the commit.* Exactly the chunks with `confirmed <= seq < stored` exist. A chunk is first written under
its final name; then one `pwrite` of 80 bytes raises `stored`, and a kill cannot split this write. A file that a killed
process left has a number that is never read, and the next push of that number overwrites it. This costs half as much
as writing under another name and renaming, and leaves nothing to clean up.

*Nothing is synced.* If a power failure loses a message, its worker on the same machine is lost as well. A chunk that
comes back from such a failure without its last byte is an error, not an empty message.

*Locks are `flock`s,* so the kernel frees them with their process. Every operation opens the file again, so threads and
forked processes exclude each other, too. The order of locks: a session's folder or a channel, then the total. Closing
is a rename, which works on a full disk; then it takes the lock of every channel once. A process that gets one of these
locks later sees that the session has ended.

*Sizes are counted in blocks of 4 KiB,* as on the disk, so that many empty messages reach the same limits.
`channel_files.py` explains how the total is kept exact. It is counted again when a process starts, and before a push is
refused because the spool is full.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fate_flow.core.model.errors import BadRequest, BadSettings, StorageFailed
from fate_flow.core.model.grammar import check_job_id, check_topic
from fate_flow.core.quotas.quota import Quotas
from fate_flow.core.quotas.refusal_lines import RefusalLines
from fate_flow.core.record.carried import ChannelCount
from fate_flow.relay.channel_files import (
    BLOCK,
    ChannelFile,
    Message,
    Total,
    charge,
    locked,
    locked_channel,
    make_channel_file,
)
from fate_flow.relay.spool_folders import (
    DISK_IS_FULL,
    SENT,
    channels_in,
    counts_in,
    drop_channels,
    entomb,
    folders_in,
    locked_folder,
    received_in,
    session_folder,
    uncount,
)
from fate_flow.relay.spool_registry import SessionRegistry
from fate_flow.relay.spool_result import GetResult, Problem, PutResult, Refusal, Stored, skipped
from fate_flow.relay.spool_session import PartyKey, Session

log = logging.getLogger(__name__)

_RECHECK_SECONDS = 0.25   # how long a lost wake-up may delay a waiting pop
_RECOUNT_SECONDS = 10.0   # the shortest time between two counts of a full spool
_PURGES = 16              # how often an open is tried again if its job is purged meanwhile
_SEQ_END = 1 << 62


@dataclass(frozen=True)
class SpoolLimits:
    """The limits of the spool, in bytes: of a chunk, of a channel's unread chunks, of everything."""

    chunk_bytes: int = 4 << 20
    unread_bytes: int = 64 << 20
    total_bytes: int = 4 << 30

    def __post_init__(self) -> None:
        largest = charge(self.chunk_bytes)
        if self.chunk_bytes < 1 or self.unread_bytes < largest or self.total_bytes < largest + BLOCK:
            raise BadSettings(f"spool: a chunk of chunk_bytes has to fit the other bounds: {self}")


class Spool:
    """The messages of all sessions of this server, for all its processes and threads at once."""

    def __init__(
        self, root: Path, limits: SpoolLimits, wake: Callable[[], None], why_closed: Callable[[], str] = lambda: "",
        quotas: Quotas | None = None, *, keeps_digests: bool = False,
    ) -> None:  # fmt: skip
        """`why_closed` returns why no further chunk is stored now, whatever the limits; empty if they alone count.
        `quotas`: those of other parties; None: they have none. `keeps_digests`: whether digests of what channels carry
        are computed, and what they send is counted, for the record."""
        self._quotas, self._keeps_digests = quotas, keeps_digests
        self._refusals = RefusalLines(time.monotonic)
        self._refusals_lock = threading.Lock()
        self.limits = limits
        self._why_closed = why_closed
        self._root = str(root)
        self._wake = wake
        self._total = Total(os.path.join(self._root, "total"), os.path.join(self._root, "parties"))
        self._sessions = SessionRegistry(self._root)
        self._changed = threading.Condition()
        self._changes = 0
        self._recount_at = 0.0
        with _disk_errors():
            self._prepare()

    def used_bytes(self) -> int:
        """Return the bytes in use, in whole blocks."""
        return self._total.used()

    # sessions

    def open(self, session: Session, peers: tuple[PartyKey, ...], token: str, document: str = "") -> bool:
        """Open the session for these peers and this token; False if it has been closed already.

        `document`: the name of the document that the job is bound to here; empty if it is not compared with others."""
        folder = self._sessions.folder(session)
        with _disk_errors():
            for _ in range(_PURGES):
                with suppress(FileNotFoundError), session_folder(folder):
                    return self._sessions.open(session, peers, token, document)
            raise FileNotFoundError(errno.ENOENT, "removed each time it was made", folder)

    def close(self, session: Session) -> None:
        """End the session, even if it was never open, and drop its messages.

        If a kill interrupted a close, close again to finish it."""
        folder = self._sessions.folder(session)
        # not found: a purge has removed the job meanwhile
        with _disk_errors(), suppress(FileNotFoundError), session_folder(folder):
            entomb(folder)
            drop_channels(folder, self._total)
        self._send_wakeup()

    def purge(self, job_id: str) -> None:
        """Remove everything of the job, also its closed sessions."""
        check_job_id(job_id)
        trash = os.path.join(self._root, "trash", f"{job_id}.{secrets.token_hex(8)}")
        with _disk_errors(), suppress(FileNotFoundError):
            # One rename removes the whole job, so a kill cannot leave a session without its `closed` file.
            with self._total.held():     # a count sees the job exactly once, before or after the rename
                os.rename(os.path.join(self._root, "sessions", job_id), trash)
            self._delete(trash)
        self._send_wakeup()

    def jobs(self) -> tuple[str, ...]:
        """Return the ids of the jobs that have files here."""
        with _disk_errors():
            return tuple(filter(str.isdigit, os.listdir(os.path.join(self._root, "sessions"))))

    def session_of(self, token: str) -> Session | Refusal | None:
        """Return the session that the token opens; a refusal if it has ended; None if the token is unknown."""
        with _disk_errors():
            return self._sessions.session_of(token)

    def objection(self, session: Session, peer: PartyKey) -> Refusal | None:
        """Return why this session may not exchange messages with that party; None if it may."""
        with _disk_errors():
            return self._sessions.objection(session, peer)

    def document_of(self, session: Session) -> str:
        """Return the name of the document that the session was opened with; empty if it has none, or is not open."""
        with _disk_errors():
            return self._sessions.document_of(session)

    # messages

    def put(
        self, session: Session, topic: str, sender: PartyKey, seq: int, last: bool, data: bytes
    ) -> PutResult:
        """Store a chunk from the sender for this session; a repeated call changes nothing.

        A repeated call also succeeds after the session has ended: the receiver may be done before the sender gets its
        answer."""
        _check_seq(seq)
        name = _channel_name(topic, sender)
        path = self._channel_path(session, name)
        with _disk_errors():
            try:
                result = self._put(session, sender, path, seq, Message(data, last), name)
            except OSError as error:
                result = _refused_by_disk(error)
            if isinstance(result, Refusal) and result.problem is Problem.GONE and self._had(session, path, seq):
                result = Stored(new=False)
        if result == Stored(new=True):
            self._send_wakeup()
        return result

    def get(
        self, session: Session, topic: str, sender: PartyKey, seq: int, wait_seconds: float = 0.0
    ) -> GetResult:
        """Return the chunk with this number, and confirm all before it; None if none came in time."""
        deadline = time.monotonic() + wait_seconds
        while True:
            changes = self._changes  # read before the search, so that a chunk stored after it ends the sleep
            found = self._find(session, topic, sender, seq, confirm=True)
            left = deadline - time.monotonic()
            if found is not None or left <= 0:
                return found
            self._sleep(changes, min(left, _RECHECK_SECONDS))

    def peek(self, session: Session, topic: str, sender: PartyKey, seq: int) -> GetResult:
        """Return the chunk with this number if it is there, without waiting and without confirming."""
        return self._find(session, topic, sender, seq, confirm=False)

    def release(self, session: Session, topic: str, sender: PartyKey) -> Refusal | None:
        """Drop the chunks of the channel; its numbers go on from there."""
        path = self._channel_path(session, _channel_name(topic, sender))
        with _disk_errors(), suppress(FileNotFoundError), locked_channel(path) as channel:
            if self.objection(session, sender) is None:
                channel.confirm(channel.marks.stored, self._total)
        return self.objection(session, sender)

    # what channels have carried

    def note_sent(
        self, session: Session, topic: str, receiver: PartyKey, seq: int, last: bool, data: bytes
    ) -> Refusal | None:
        """Count a chunk that the server of the receiver has confirmed; a repeated call changes nothing.

        Return a refusal if the disk is full: the worker sends the chunk again, and the receiver confirms it again."""
        _check_seq(seq)
        name = _channel_name(topic, receiver)
        path = self._channel_path(session, name) + SENT
        # A channel is counted to its end, so that a record that is switched on again does not have a part of it.
        if not self._keeps_digests and not os.path.exists(path):
            return None
        if self.objection(session, receiver) is not None:
            return None
        with _disk_errors():
            try:
                with suppress(FileNotFoundError), locked(path, os.O_RDWR | os.O_CREAT) as fd:
                    ChannelFile(fd, path).note(seq, Message(data, last), name)
            except OSError as error:
                return _refused_by_disk(error)
        return None

    def carried(self, session: Session) -> Iterator[ChannelCount]:
        """Yield what the channels of an open session have carried so far, in no order."""
        with _disk_errors():
            yield from counts_in(self._sessions.folder(session))

    def notify(self) -> None:
        """Let waiting pops of this process look again, because another process changed something."""
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    # a push, under the lock of its channel

    def _put(
        self, session: Session, sender: PartyKey, path: str, seq: int, chunk: Message, name: str
    ) -> PutResult:  # fmt: skip
        if len(chunk.data) > self.limits.chunk_bytes:
            return Refusal(Problem.TOO_LARGE,
                           f"{len(chunk.data)} bytes: a chunk has {self.limits.chunk_bytes} at most")
        cost = charge(len(chunk.data))
        if refusal := self.objection(session, sender):
            return refusal
        try:
            if seq == 0 and not os.path.exists(path):
                if refusal := self._beyond_quota(session, sender, BLOCK + cost):
                    return refusal
                if not self._has_space(BLOCK + cost):    # a sender can invent any number of topics; each costs a file
                    return self._full()
                make_channel_file(path)
            with locked_channel(path) as channel:
                # Checked again, because a close may have had this lock before.
                return self.objection(session, sender) or self._settle(session, sender, channel, seq, chunk, name)
        except FileNotFoundError:  # the first chunk has not come yet, or a purge removed the session
            return self.objection(session, sender) or skipped(seq, 0)

    def _had(self, session: Session, path: str, seq: int) -> bool:
        """Return whether a session that has ended had this chunk of a channel."""
        folder = self._sessions.folder(session)
        try:
            with locked_folder(folder):     # a close in progress has finished
                return seq < int(received_in(folder).get(os.path.basename(path), 0))
        except FileNotFoundError:
            return False

    def _settle(
        self, session: Session, sender: PartyKey, channel: ChannelFile, seq: int, chunk: Message, name: str
    ) -> PutResult:  # fmt: skip
        marks = channel.marks
        if seq > marks.stored:
            return skipped(seq, marks.stored)
        if seq < marks.confirmed or (seq < marks.stored and channel.read(seq) == chunk):
            return Stored(new=False)
        if seq < marks.stored:
            return Refusal(Problem.DIFFERENT, f"seq: {seq} holds other bytes already")
        cost = charge(len(chunk.data))
        party = _counts_for(session, sender)
        return self._beyond_quota(session, sender, cost) or self._append(channel, chunk, party, name)

    def _beyond_quota(self, session: Session, sender: PartyKey, cost: int) -> Refusal | None:
        """Return why the party of this sender may not have so many more bytes here; None if it may.

        It waits then, as behind a slow reader: its tasks go on as soon as their messages are read."""
        party = _counts_for(session, sender)
        if not party or self._quotas is None:
            return None
        whole = self.limits.total_bytes
        most = max(int(self._quotas.of(sender[1]).spool_share * whole), charge(self.limits.chunk_bytes) + BLOCK)
        if self._total.of_party(party) + cost <= most:
            return None
        text = self._quotas.spool_is_full(sender[1], whole)
        with self._refusals_lock:
            line = self._refusals.line(sender[1], Problem.BACKLOG, text)
        if line:
            log.warning("%s", line)
        return Refusal(Problem.BACKLOG, text)

    def _append(self, channel: ChannelFile, chunk: Message, party: int, name: str) -> PutResult:
        cost = charge(len(chunk.data))
        if channel.marks.unread + cost > self.limits.unread_bytes:
            return Refusal(Problem.BACKLOG, f"unread: {self.limits.unread_bytes} bytes wait in this topic")
        is_stored = self._has_space(cost) and channel.append(
            chunk, self._total, self.limits.total_bytes, party, name, keeps_digest=self._keeps_digests
        )
        return Stored(new=True) if is_stored else self._full()

    def _full(self) -> Refusal:
        return Refusal(Problem.FULL, self._why_closed() or f"the spool is full: {self.limits.total_bytes} bytes")

    def _has_space(self, cost: int) -> bool:
        """Return whether the chunk fits; if the spool seems full, count it again first."""
        if self._why_closed():
            return False
        if self._total.has_space(cost, self.limits.total_bytes):
            return True
        if time.monotonic() < self._recount_at:
            return False
        self._recount()
        return self._total.has_space(cost, self.limits.total_bytes)

    # a pop

    def _find(self, session: Session, topic: str, sender: PartyKey, seq: int, *, confirm: bool) -> GetResult:
        _check_seq(seq)
        path = self._channel_path(session, _channel_name(topic, sender))
        with _disk_errors():
            try:
                with locked_channel(path) as channel:
                    return self.objection(session, sender) or self._take(channel, seq, confirm)
            except FileNotFoundError:  # nothing was pushed yet, or the session does not exist
                return self.objection(session, sender) or (skipped(seq, 0) if seq and confirm else None)

    def _take(self, channel: ChannelFile, seq: int, confirm: bool) -> GetResult:
        marks = channel.marks
        if seq < marks.confirmed:
            return Refusal(Problem.SKIPPED, f"seq: {seq} is confirmed and forgotten, next is {marks.confirmed}")
        if confirm and seq > marks.stored:
            return skipped(seq, marks.stored)
        if confirm and seq > marks.confirmed:
            channel.confirm(seq, self._total)
        return channel.read(seq) if seq < marks.stored else None

    def _send_wakeup(self) -> None:
        self.notify()
        self._wake()

    def _sleep(self, changes: int, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._changes != changes, seconds)

    # paths and maintenance

    def _channel_path(self, session: Session, name: str) -> str:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self._sessions.folder(session)}/{digest[:40]}"

    def _prepare(self) -> None:
        for name in ("sessions", "tokens", "trash", "parties"):
            os.makedirs(os.path.join(self._root, name), mode=0o700, exist_ok=True)
        for name in os.listdir(os.path.join(self._root, "trash")):
            self._delete(os.path.join(self._root, "trash", name))
        self._recount()

    def _recount(self) -> None:
        self._total.count(self._all_channels)
        self._recount_at = time.monotonic() + _RECOUNT_SECONDS

    def _all_channels(self) -> Iterator[str]:
        for place in ("sessions", "trash"):
            for job_folder in folders_in(os.path.join(self._root, place)):
                for folder in folders_in(job_folder):
                    yield from channels_in(folder)

    def _delete(self, job_folder: str) -> None:
        """Delete a job's folder, its tokens, and the count of its channels."""
        for folder in folders_in(job_folder):
            uncount(folder, self._total)
            self._sessions.forget_token(folder)
        shutil.rmtree(job_folder, ignore_errors=True)


def _counts_for(session: Session, sender: PartyKey) -> int:
    """Return the other party that counts messages of this sender; 0 if it is a worker of this party."""
    return 0 if sender[1] in (session.party_id, "0") else int(sender[1])


def _channel_name(topic: str, other: PartyKey) -> str:
    return f"{other[0]}/{other[1]}/{check_topic(topic)}"


def _refused_by_disk(error: OSError) -> Refusal:
    """Return the refusal by a disk that is full. Raise any other error."""
    if error.errno not in DISK_IS_FULL:
        raise error
    return Refusal(Problem.FULL, f"the disk is full: {error.strerror}")


def _check_seq(seq: int) -> None:
    if not 0 <= seq < _SEQ_END:
        raise BadRequest(f"seq: {seq} is out of range")


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailed(f"{error.filename or 'spool'}: {error.strerror}") from error
