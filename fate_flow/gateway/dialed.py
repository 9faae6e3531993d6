"""Connections that parties without a port of their own keep open here, for this party's requests to them.

Such a party dials the gateway, and offers the protocol DIAL in the handshake. From then on, requests come from this
side: the connection is kept unused until a process of this server wants one to that party (`peers/peer_http.py`). The
process connects to a Unix socket, says which party it wants, and gets the plain bytes of one such connection. What it
sends and reads is not looked at here: the process has its own limits, as for any other connection to a party.

Streams to such a party are opened by the gateway itself, which takes a connection out of those that are kept.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

from fate_flow.gateway.accepting import accepted, line_from
from fate_flow.gateway.kept_connections import is_silent
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.tls_stream import PIECE, TlsStream
from fate_flow.peers.dialed import LONGEST_LINE, open_line, read_wanted
from fate_flow.peers.pinned import SeenTls
from fate_flow.peers.tls import PeerKey

_QUIET_SECONDS = 0.2          # after the last byte of an answer
_TAKE_SECONDS = 2.5           # a call that finds none can still say so; a stream is tried again
_TAKERS = 2                   # streams to a party that wait for a connection at once: requests to it have their turn


class Use:
    """Whether a request is under way on a connection.

    Its bytes are not parsed. So an answer counts as complete when nothing has come for a moment."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._is_awaited = False
        self._quiet_at = 0.0

    @property
    def is_idle(self) -> bool:
        return not self._is_awaited and self._clock() >= self._quiet_at

    def asks(self) -> None:
        """Note bytes of a request."""
        self._is_awaited = True

    def answers(self) -> None:
        """Note bytes of an answer."""
        self._is_awaited, self._quiet_at = False, self._clock() + _QUIET_SECONDS


class _Process:
    """A process of this server that uses a connection: its socket at the Unix socket of the gateway."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    @property
    def is_there(self) -> bool:
        return is_silent(self.sock)

    def close(self) -> None:
        self.sock.close()


class _Taker:
    """Somebody in this process who takes a connection for a stream."""

    def __init__(self) -> None:
        self.taken: asyncio.Future[TlsStream] = asyncio.get_running_loop().create_future()

    @property
    def is_there(self) -> bool:
        return not self.taken.done()

    def take(self, stream: TlsStream) -> None:
        if self.is_there:
            self.taken.set_result(stream.moved())

    def close(self) -> None:
        if self.is_there:
            self.taken.set_exception(ConnectionResetError(errno.ECONNRESET, "the party has ended the connection"))


class _Unused:
    """A connection that nobody uses yet. A party sends nothing on it, so `reading` ends only if the party does."""

    def __init__(self, stream: TlsStream) -> None:
        self.reading = asyncio.create_task(stream.receive())
        self.user: asyncio.Future[_Process | _Taker] = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        self.reading.cancel()
        if not self.user.cancel() and not self.user.cancelled():
            self.user.result().close()


class Dialed:
    """`listener` is the Unix socket for processes of this server; `note` gets an address, which is empty for them, and
    what went wrong."""

    def __init__(self, listener: socket.socket, limits: Limits, note: Callable[[str, str], None]) -> None:
        self._listener = listener
        self._limits = limits
        self._note = note
        self._loop = asyncio.get_running_loop()
        self._unused: dict[str, list[_Unused]] = {}          # by party, the newest last
        self._changed = asyncio.Event()
        self._users: set[asyncio.Task[None]] = set()
        self._takers: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_TAKERS))

    # ------------------------------------------------------------------ the connections

    async def keep(self, stream: TlsStream, peer: PeerKey, use: Use) -> None:
        """Keep a connection of this peer until it is used, and then until the end of its `use`.

        It also ends if nobody uses it for some time: the party dials again, and no device in between forgets a
        connection that is still counted on. Raises OSError if the connection breaks."""
        kept = self._unused.setdefault(peer.party_id, [])
        if len(kept) >= self._limits.unused_of_party:
            return
        one = _Unused(stream)
        kept.append(one)
        self._changed.set()
        try:
            await asyncio.wait(
                (one.reading, one.user), timeout=self._limits.unused_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if one in kept:
                kept.remove(one)
            if one.user.done() and not one.reading.done():
                one.reading.cancel()
                await asyncio.wait((one.reading,))
                user = one.user.result()
                if isinstance(user, _Taker):
                    user.take(stream)
                    return
                line = open_line(SeenTls(stream.version, peer.key_id))
                await self._loop.sock_sendall(user.sock, line)
                await _exchange(stream, user.sock, use)
        finally:
            if one in kept:
                kept.remove(one)
            one.close()
        await stream.finish(self._limits.close_seconds)

    async def take(self, party_id: str) -> TlsStream | None:
        """Return a connection that this party keeps open, which is the caller's from now on; None if there is none in
        time. Raises OSError."""
        taker = _Taker()
        async with self._takers[party_id]:
            if not await self._use(taker, party_id, min(_TAKE_SECONDS, self._limits.use_seconds)):
                return None
            try:
                return await taker.taken
            except asyncio.CancelledError:
                if taker.taken.done() and not taker.taken.cancelled():
                    taker.taken.result().sock.close()
                raise

    async def _use(self, user: _Process | _Taker, party_id: str, seconds: float) -> bool:
        """Hand this user to an unused connection, which closes it at its end; return False if there is none in
        time, or if the user has given up meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    for one in reversed(self._unused.get(party_id, [])):
                        if not one.reading.done() and not one.user.done():
                            if not user.is_there:
                                return False
                            one.user.set_result(user)
                            return True
                    self._changed.clear()
                    await self._changed.wait()
        return False

    # ------------------------------------------------------------------ who uses them

    async def run(self) -> None:
        """Serve processes of this server until this task is canceled."""
        try:
            while True:
                sock, _ = await accepted(self._listener, self._note, "no process can send to parties that dial")
                task = asyncio.create_task(self._serve(sock))
                self._users.add(task)
                task.add_done_callback(self._users.discard)
        finally:
            for task in self._users:
                task.cancel()
            self._listener.close()

    async def _serve(self, sock: socket.socket) -> None:
        """Connect a process with the party that it names; say why if that cannot be."""
        is_used = False
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                party_id = read_wanted(await line_from(sock, LONGEST_LINE, at_once=1))
            is_used = await self._use(_Process(sock), party_id, self._limits.use_seconds)
            if not is_used:
                why = f"party {party_id} dials this server, and keeps no connection open now\n"
                await self._loop.sock_sendall(sock, why.encode())
        except (OSError, ValueError, TimeoutError):
            pass                               # the process has gone, or is none of ours
        finally:
            if not is_used:
                sock.close()


async def _exchange(stream: TlsStream, user: socket.socket, use: Use) -> None:
    """Carry bytes in both directions until one side ends."""
    loop = asyncio.get_running_loop()

    async def there() -> None:
        while data := await loop.sock_recv(user, PIECE):
            use.asks()
            await stream.send(data)

    async def back() -> None:
        while data := await stream.receive():
            use.answers()
            await loop.sock_sendall(user, data)

    ways = (asyncio.create_task(there()), asyncio.create_task(back()))
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in ways:
            one.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


