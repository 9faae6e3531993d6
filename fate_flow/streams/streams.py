"""The streams of this server: listeners for its workers, and connections to workers that listen.

One file of `relay/stream_sessions.py` stands for each attempt of a task. While it is there, its listeners are open and
its streams are carried; when it is removed, they end.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

from fate_flow.core.model.spec import Party
from fate_flow.core.quotas.quota import Quotas
from fate_flow.core.streams.addresses import Address, Connects
from fate_flow.core.streams.counts import PortCount
from fate_flow.core.streams.frame_pace import FramePace
from fate_flow.core.streams.stream import USUAL, Carried, SignsOfLife, Stream
from fate_flow.core.wire.v1.paths import DOCUMENT, stream_path
from fate_flow.gateway.accepting import accepted, set_options
from fate_flow.gateway.peer_connection import Stream as Connection
from fate_flow.gateway.peer_connection import Upgraded
from fate_flow.gateway.refusals import RefusalLog, Refused
from fate_flow.relay.spool_session import Session
from fate_flow.relay.stream_sessions import StreamSession, StreamSessions
from fate_flow.streams.calls import Asked, answer_call
from fate_flow.streams.ends import LineEnd, WorkerEnd, reset_at_close
from fate_flow.streams.owners import has_hung_up, is_ours, leads_to_ours
from fate_flow.streams.ways import Kept, NotOpened, Opened, Way, Ways, opened

LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_TICKS = 3                                        # in the longest time in which nothing is sent
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0          # seconds between two tries to reach a worker or a server
_UNREACHED_SECONDS = 60.0                         # after that, the worker is told that nobody is reached
_BACKLOG = 128


@dataclass
class _Open:
    """What is known of a stream beside its bytes. `way`: None if the other gateway has opened it; `worker`: the
    connection with the worker here, once there is one."""

    name: str
    other: Party
    begun: float
    task: asyncio.Task[None] | None
    way: Way | None
    worker: socket.socket | None = None


@dataclass
class _Attempt:
    """One attempt of a task while its file is there."""

    name: str                      # of its file
    session: StreamSession
    counts: dict[tuple[str, Party], PortCount]
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    streams: dict[Stream, _Open] = field(default_factory=dict)
    listening: set[Address] = field(default_factory=set)
    is_unsaved: bool = False         # whether the counts differ from those that are stored
    is_over: bool = False
    is_counted: bool = False         # streams that end later are counted one by one

    @property
    def seat(self) -> Party:
        return Party(self.session.session.role, self.session.session.party_id)


class Streams:
    """`look`: the Unix socket at which somebody who has changed the folder of `sessions` waits until that was seen."""

    def __init__(
        self, sessions: StreamSessions, look: socket.socket, ways: Ways, quotas: Quotas, most: int,
        signs: SignsOfLife = USUAL, *, keeps_digests: bool = False,
    ) -> None:  # fmt: skip
        """`most`: how many streams all other parties together may have opened here. `keeps_digests`: whether digests of
        what they carry are counted, too."""
        self._signs = signs
        self._sessions = sessions
        self._look = look
        self._ways = ways
        self._quotas = quotas
        self._most = most
        self._keeps_digests = keeps_digests
        self._loop = asyncio.get_running_loop()
        self._attempts: dict[str, _Attempt] = {}           # by file
        self._calls: set[asyncio.Task[None]] = set()       # of workers here that have connected
        self._draining: set[Stream] = set()                # whose attempt is over here
        self._kept: Kept | None = None
        self._of_share: Counter[str] = Counter()           # streams that were opened by each party
        self._paces: dict[str, FramePace] = {}             # of the frames of each party that has had streams
        self._refusals = RefusalLog(self._loop.time)
        self._failures = RefusalLog(self._loop.time, "no stream of")

    async def run(self, kept: Kept | None = None) -> None:
        """Follow the folder until this task is canceled; `kept`: connections of parties that dial this one."""
        self._kept = kept
        asked = Asked(self._look, self._follow, self._to, self._refusals.note)
        tasks = [asyncio.create_task(one) for one in (self._watch(), asked.run(), self._tick())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            for attempt in list(self._attempts.values()):
                self._end(attempt)
            for task in list(self._calls):
                task.cancel()
            self._refusals.finish()
            self._failures.finish()

    # ------------------------------------------------------------------ attempts

    async def _watch(self) -> None:
        while True:
            self._follow()
            await self._end_revoked()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _end_revoked(self) -> None:
        """End the streams that were opened here to a server whose key is no longer valid; the gateway ends others."""
        used = [
            (stream, open_.way) for one in self._attempts.values() for stream, open_ in one.streams.items() if open_.way
        ]
        if used:
            holds = await asyncio.to_thread(lambda: [way.still_holds() for _, way in used])
            for (stream, _), still_holds in zip(used, holds, strict=True):
                if not still_holds:
                    stream.end("the key of the other server is no longer valid")

    def _follow(self) -> None:
        """Begin and end attempts as the folder says."""
        known = {name: one.session for name, one in self._attempts.items()}
        try:
            found = self._sessions.changes(known)
        except (OSError, ValueError) as error:
            self._refusals.note("", f"every new stream: the folder of streams cannot be read: {error}")
            return
        for name in known.keys() - found.keys():
            self._end(self._attempts.pop(name))
        for name in found.keys() - known.keys():
            counts = {(one.name, one.other): one for one in self._sessions.counts(name)}
            self._attempts[name] = _Attempt(name, found[name], counts)
        for attempt in self._attempts.values():
            for one in attempt.session.ends.connects:
                if one.address not in attempt.listening:
                    self._listen(attempt, one)

    def _listen(self, attempt: _Attempt, one: Connects) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((one.address.host, one.address.port))
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            self._failures.note(_name(attempt, one.name), f"cannot listen on {one.address}: {error.strerror}")
            return
        attempt.listening.add(one.address)
        self._begin(attempt, self._serve(attempt, one, sock))

    def _begin(self, attempt: _Attempt, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        attempt.tasks.add(task)
        task.add_done_callback(attempt.tasks.discard)

    def _end(self, attempt: _Attempt) -> None:
        """End an attempt with all its listeners and streams. What workers have sent before they ended still arrives, as
        on any connection, be it read by now or not: such a stream ends when the other side has it, or with the attempt
        there. Streams that are no longer allowed end at once."""
        attempt.is_over, why = True, self._why_not_allowed(attempt)
        for stream, one in list(attempt.streams.items()):
            if (stream.is_draining or has_hung_up(one.worker)) and not why:
                self._draining.add(stream)
                attempt.tasks.discard(one.task)
            else:
                stream.end(why or f"the attempt has ended at {attempt.seat}")
                self._count(attempt, stream)
        if attempt.counts:
            self._write_counts(attempt)
        attempt.is_counted = True
        for task in list(attempt.tasks):
            task.cancel()

    def _why_not_allowed(self, attempt: _Attempt) -> str:
        with suppress(OSError):
            return self._sessions.why_ended(attempt.name)
        return ""

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._signs.alive_seconds / _TICKS)
            self._refusals.tick()
            self._failures.tick()
            for attempt in self._attempts.values():
                for stream in list(attempt.streams):
                    stream.tick(self._loop.time())
                if attempt.is_unsaved:
                    self._write_counts(attempt)
            for stream in list(self._draining):
                stream.tick(self._loop.time())

    # ------------------------------------------------------------------ workers here that connect

    async def _serve(self, attempt: _Attempt, one: Connects, listener: socket.socket) -> None:
        with listener:
            while True:
                sock, _ = await accepted(listener, self._failures.note)
                task = asyncio.create_task(self._call(attempt, one, sock))
                self._calls.add(task)
                task.add_done_callback(self._calls.discard)

    async def _call(self, attempt: _Attempt, one: Connects, sock: socket.socket) -> None:
        """Carry the stream of a worker here that has connected."""
        with sock:
            try:
                if not is_ours(sock.getpeername(), sock.getsockname()):
                    raise NotOpened("another user of this machine has tried to connect", is_for_now=False)
                found = await self._opened(attempt, one)
            except (NotOpened, OSError) as error:
                self._failures.note(_name(attempt, one.name), f"to {one.to}: {error}")
                reset_at_close(sock)
                return
            async with self._carried(attempt, found.connection, found.leftover, one.name, one.to, found.way) as both:
                stream, line = both
                worker = await self._connected(attempt, stream, sock)
                await asyncio.wait((worker.over, line.over))

    async def _opened(self, attempt: _Attempt, one: Connects) -> Opened:
        """Return a connection to the gateway of the other party. Raises NotOpened."""
        session, pause, until = attempt.session.session, _FIRST_PAUSE, self._loop.time() + _UNREACHED_SECONDS
        query = f"?{DOCUMENT}={attempt.session.document}" if attempt.session.document else ""
        target = "/v1" + stream_path(
            session.job_id, session.task_id, session.version, session.incarnation, attempt.seat, one.to, one.name
        ) + query  # fmt: skip
        while True:
            try:
                return await self._to(one.to.party_id, target)
            except NotOpened as error:
                if not error.is_for_now or self._loop.time() > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _to(self, party_id: str, target: str) -> Opened:
        """Return a connection to the gateway of a party, which carries what this path names. Raises NotOpened."""
        return await opened(await asyncio.to_thread(self._ways.to, party_id), target, self._kept)

    # ------------------------------------------------------------------ workers here that listen

    def check(self, share: str) -> None:
        """Raise Refused if a party has as many streams here as it may have, or all other parties together have."""
        party_id = share.partition(" ")[0]
        if self._of_share[party_id] >= self._quotas.of(party_id).streams:
            raise Refused(429, self._quotas.too_many_streams(party_id))
        if self._of_share.total() >= self._most:
            raise Refused(503, "this server carries as many streams of other parties as it can: try again later")

    async def carry(self, upgraded: Upgraded) -> None:
        """Carry the stream of a connection of another gateway to the worker that the application has named."""
        with self._counted(upgraded.share.partition(" ")[0]):
            if upgraded.said.get("call"):
                with suppress(OSError):
                    await answer_call(upgraded)
            else:
                await self._carry(upgraded)

    async def _carry(self, upgraded: Upgraded) -> None:
        said = upgraded.said
        session, name = Session(**said["session"]), str(said["port"])
        caller, address = Party(**said["from"]), Address(**said["address"])
        self._follow()
        attempt = next((one for one in self._attempts.values() if one.session.session == session), None)
        if attempt is None:
            return                     # it has ended since the application was asked
        with self._ends_with(attempt):
            async with self._carried(attempt, upgraded.stream, upgraded.leftover, name, caller) as (stream, line):
                sock = await self._listening(attempt, address, line, name)
                if sock is None:
                    return
                with sock:
                    worker = await self._connected(attempt, stream, sock)
                    await asyncio.wait((worker.over, line.over))

    async def _listening(
        self, attempt: _Attempt, address: Address, line: LineEnd, name: str
    ) -> socket.socket | None:  # fmt: skip
        """Return a connection to the worker here, once it listens; None if the stream has ended before."""
        pause, place = _FIRST_PAUSE, (address.host, address.port)
        while not line.over.done() and not line.stream.is_over:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                await self._loop.sock_connect(sock, place)
                if not leads_to_ours(place, sock.getsockname()):
                    raise OSError(0, "another user of this machine listens there")
                set_options(sock)
                return sock
            except ConnectionRefusedError:
                sock.close()           # it does not listen yet
            except OSError as error:
                sock.close()
                self._failures.note(_name(attempt, name), f"cannot connect to {address}: {error.strerror}")
                line.stream.end(f"{attempt.seat} cannot connect to its worker: {error.strerror}")
                return None
            except BaseException:
                sock.close()
                raise
            await asyncio.wait((line.over,), timeout=pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return None

    # ------------------------------------------------------------------ both

    @asynccontextmanager
    async def _carried(
        self, attempt: _Attempt, connection: Connection, leftover: bytes, name: str, other: Party,
        way: Way | None = None,
    ) -> AsyncIterator[tuple[Stream, LineEnd]]:  # fmt: skip
        """Yield a stream over this connection, which is closed at the end."""
        now = self._loop.time
        transport, line = await self._loop.connect_accepted_socket(
            lambda: LineEnd(connection.tls, now, self._pace_of(other.party_id)), connection.sock
        )
        carried = Carried(keeps_digests=self._keeps_digests)
        stream = Stream(line, now(), signs=self._signs, carried=carried)
        line.stream = stream
        attempt.streams[stream] = _Open(name, other, now(), asyncio.current_task(), way)
        if attempt.is_over:
            self._draining.add(stream)
        try:
            line.begin(leftover)
            yield stream, line
        finally:
            stream.end(f"{attempt.seat} has ended the stream")
            transport.abort()
            self._draining.discard(stream)
            self._count(attempt, stream)

    def _pace_of(self, party_id: str) -> FramePace:
        if party_id not in self._paces:
            self._paces[party_id] = FramePace(self._loop.time())
        return self._paces[party_id]

    async def _connected(self, attempt: _Attempt, stream: Stream, sock: socket.socket) -> WorkerEnd:
        """Connect a stream with the worker here, of which `sock` is the connection."""
        if stream in attempt.streams:
            attempt.streams[stream].worker = sock
        set_options(sock)
        _, worker = await self._loop.connect_accepted_socket(WorkerEnd, sock)
        worker.stream = stream
        stream.connected(worker)
        return worker

    def _count(self, attempt: _Attempt, stream: Stream) -> None:
        """Count a stream that has ended, once."""
        one = attempt.streams.pop(stream, None)
        if one is None:
            return
        carried, seconds, key = stream.carried, self._loop.time() - one.begun, (one.name, one.other)
        why = f": {stream.why_ended}" if stream.why_ended else ""
        if attempt.is_counted:
            with self._noted(attempt):
                self._sessions.count_late(attempt.name, PortCount(*key).with_stream(carried, seconds))
        else:
            attempt.counts[key] = attempt.counts.get(key, PortCount(*key)).with_stream(carried, seconds)
            attempt.is_unsaved = True
        LOG.info(
            "stream %s of %s with %s has ended after %.1f s, %d bytes sent, %d received%s", one.name,
            attempt.session.session, one.other, seconds, carried.sent, carried.received, why,
        )  # fmt: skip

    def _write_counts(self, attempt: _Attempt) -> None:
        with self._noted(attempt):
            self._sessions.count(attempt.name, attempt.counts.values())
            attempt.is_unsaved = False

    @contextmanager
    def _noted(self, attempt: _Attempt) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._failures.note(str(attempt.session.session), f"can be counted: {error.strerror}")

    @contextmanager
    def _counted(self, party_id: str) -> Iterator[None]:
        self._of_share[party_id] += 1
        try:
            yield
        finally:
            self._of_share[party_id] -= 1

    @contextmanager
    def _ends_with(self, attempt: _Attempt) -> Iterator[None]:
        """Cancel the present task, which is one of the gateway, at the end of the attempt."""
        task = asyncio.current_task()
        assert task is not None
        attempt.tasks.add(task)
        try:
            yield
        finally:
            attempt.tasks.discard(task)


def _name(attempt: _Attempt, port: str) -> str:
    return f"port {port} of {attempt.session.session}"
