"""The connections that this party keeps open to others, if it has no port of its own.

Each other party gets as many connections as it uses at once, and some spare ones. Requests come over them as over
connections that were accepted here (`peer_connection.py`); only who opens the connection is different.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Protocol

from fate_flow.core.access.invitation import place_of
from fate_flow.core.quotas.pace import TokenBucket
from fate_flow.gateway.accepting import connected
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.tls_stream import TlsStream
from fate_flow.peers.network_errors import describe_cause
from fate_flow.peers.tls import DIAL, NotAPeer, PeerKey


@dataclass(frozen=True)
class Wanted:
    """A party to dial: its https address, and how its server is recognised."""

    party_id: str
    url: str
    keys: tuple[PeerKey, ...]

    @property
    def place(self) -> tuple[str, int]:
        """Host and port. Raises ValueError if the address is none."""
        try:
            return place_of(self.url)
        except ValueError as error:
            raise ValueError(f"{self.url} is not an address that can be dialed: {error}") from error

    @property
    def host(self) -> str:
        """The host, for people; the whole address if it has none."""
        try:
            return self.place[0]
        except ValueError:
            return self.url


class Serves(Protocol):
    """What a gateway does with connections that were opened here."""

    def context_for(self, keys: Sequence[PeerKey]) -> ssl.SSLContext: ...

    def peer_behind(self, leaf: bytes | None, keys: Sequence[PeerKey]) -> PeerKey:
        """Raises NotAPeer."""
        ...

    def serve(
        self, sock: socket.socket, stream: TlsStream, peer: PeerKey, address: str, on_stream: Callable[[], None]
    ) -> asyncio.Task[None]:  # fmt: skip
        """Serve requests over a connection of this peer, in a task that closes it. `on_stream` is called when the
        connection begins to carry a stream: it has no further request then."""
        ...


class _UsedStream(TlsStream):
    """Says when the first request begins, and why there is none."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(sock, context, is_client=True)
        self.used = asyncio.Event()
        self.failure: ssl.SSLError | None = None        # a server looks at our certificate after our handshake

    async def receive(self) -> bytes:
        try:
            data = await super().receive()
        except ssl.SSLError as error:
            self.failure = error
            raise
        if data:
            self.used.set()
        return data


class Dialing:
    """Keeps connections to one party open."""

    def __init__(self, wanted: Wanted, gateway: Serves, limits: Limits, note: Callable[[str, str], None]) -> None:
        """`note` gets an address and what went wrong with it."""
        self.wanted = wanted
        self._gateway = gateway
        self._limits = limits
        self._note = note
        self._loop = asyncio.get_running_loop()
        self._spare: set[asyncio.Task[None]] = set()
        self._open: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._pause = 0.0                     # after the last failure
        self._is_to_pause = False
        self._was_used = asyncio.Event()      # since the last failure
        self._pace = TokenBucket(limits.dials_per_second, limits.kept_of_party, self._loop.time())

    async def run(self) -> None:
        """Keep connections open until this task is canceled; those that are open then stay."""
        while True:
            await self._rest()
            await self._until_needed()
            await asyncio.sleep(self._pace.take(self._loop.time(), inf) or 0.0)
            try:
                await self._dial()
            except (OSError, ValueError) as error:        # NotAPeer too; whatever is wrong now, it may be right later
                self._fails(_text(error))

    async def _rest(self) -> None:
        """Pause after a failure, until a connection shows that the other server is there. A success needs no pause."""
        if self._is_to_pause:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause):
                    await self._was_used.wait()
            self._is_to_pause = False

    async def _until_needed(self) -> None:
        while len(self._spare) >= self._limits.spare or len(self._open) >= self._limits.kept_of_party:
            self._changed.clear()
            await self._changed.wait()

    async def _dial(self) -> None:
        """Open one connection. Raises OSError; ValueError, of which NotAPeer is one."""
        sock, address = await self._connected()
        try:
            stream = _UsedStream(sock, self._gateway.context_for(self.wanted.keys))
            async with asyncio.timeout(self._limits.handshake_seconds):
                await stream.handshake()
            peer = self._gateway.peer_behind(stream.leaf, self.wanted.keys)
            if stream.protocol != DIAL:
                raise NotAPeer("its server does not take connections for its own requests: its release is too old")
        except BaseException:
            sock.close()
            raise
        task = self._gateway.serve(sock, stream, peer, address, lambda: self._is_no_longer_kept(task))
        self._watch(task, stream)

    def _is_no_longer_kept(self, task: asyncio.Task[None]) -> None:
        """Leave a connection out that carries a stream: as many as its quota allows are no reason to keep no other."""
        self._open.discard(task)
        self._changed.set()

    def _watch(self, task: asyncio.Task[None], stream: _UsedStream) -> None:
        begun = self._loop.time()
        self._spare.add(task)
        self._open.add(task)

        async def until_used() -> None:
            await stream.used.wait()
            self._pause = 0.0
            self._was_used.set()
            self._spare.discard(task)
            self._changed.set()

        watching = asyncio.create_task(until_used())

        def end(_: asyncio.Task[None]) -> None:
            watching.cancel()
            self._open.discard(task)
            is_its_doing = not task.cancelled() and not stream.used.is_set()
            if is_its_doing and self._loop.time() - begun < self._limits.unused_seconds / 2:
                why = _text(stream.failure) if stream.failure else ""
                self._fails(why or "its server ends the connections that are kept open for it")
            elif is_its_doing:
                self._pause = 0.0
            self._spare.discard(task)
            self._changed.set()

        task.add_done_callback(end)

    async def _connected(self) -> tuple[socket.socket, str]:
        """Return a TCP connection, and the address to which it leads. Raises OSError, ValueError."""
        return await connected(*self.wanted.place, self._limits.use_seconds)

    def _fails(self, text: str) -> None:
        limits = self._limits
        if not self._is_to_pause:             # connections that fail together are one failure
            self._pause = min(max(limits.redial_seconds, 2 * self._pause), limits.longest_redial_seconds)
            self._is_to_pause = True
            self._was_used.clear()
        self._note(self.wanted.host, f"party {self.wanted.party_id}: {text}")


def _text(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no connection in time"
    return describe_cause(error) or str(error) or type(error).__name__
