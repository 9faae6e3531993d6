"""The connections that this party keeps open to others, if it has no port of its own.

Each other party gets as many connections as it uses at once, and some spare ones. Requests come over them as over
connections that were accepted here (`peer_connection.py`); only who opens the connection is different.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from fate_flow.gateway.limits import Limits
from fate_flow.gateway.tls_stream import TlsStream
from fate_flow.peers.tls import DIAL, NotAPeer, PeerKey


@dataclass(frozen=True)
class Wanted:
    """A party to dial: its https address, and how its server is recognised."""

    party_id: str
    url: str
    keys: tuple[PeerKey, ...]

    @property
    def place(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 443


class Serves(Protocol):
    """What a gateway does with connections that were opened here."""

    def context_for(self, keys: Sequence[PeerKey]) -> ssl.SSLContext: ...

    def peer_behind(self, leaf: bytes | None, keys: Sequence[PeerKey]) -> PeerKey:
        """Raises NotAPeer."""
        ...

    def serve(self, sock: socket.socket, stream: TlsStream, peer: PeerKey, address: str) -> asyncio.Task[None]:
        """Serve requests over a connection of this peer, in a task that closes it."""
        ...


class _UsedStream(TlsStream):
    """Says when the first request begins."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, is_used: Callable[[], None]) -> None:
        super().__init__(sock, context, is_client=True)
        self._is_used = is_used

    async def receive(self) -> bytes:
        data = await super().receive()
        if data:
            self._is_used()
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
        self._pause = 0.0

    async def run(self) -> None:
        """Keep connections open until this task is canceled; those that are open then stay."""
        while True:
            if self._pause:
                await asyncio.sleep(self._pause)
            await self._until_needed()
            try:
                await self._dial()
            except (OSError, NotAPeer) as error:
                self._fails(_text(error))

    async def _until_needed(self) -> None:
        while len(self._spare) >= self._limits.spare or len(self._open) >= self._limits.kept_of_party:
            self._changed.clear()
            await self._changed.wait()

    async def _dial(self) -> None:
        """Open one connection. Raises OSError, NotAPeer."""
        sock, address = await self._connected()
        try:
            used = asyncio.Event()
            stream = _UsedStream(sock, self._gateway.context_for(self.wanted.keys), used.set)
            async with asyncio.timeout(self._limits.handshake_seconds):
                await stream.handshake()
            peer = self._gateway.peer_behind(stream.leaf, self.wanted.keys)
            if stream.protocol != DIAL:
                raise NotAPeer("its server does not take connections for its own requests: its release is too old")
        except BaseException:
            sock.close()
            raise
        task = self._gateway.serve(sock, stream, peer, address)
        self._watch(task, used)

    def _watch(self, task: asyncio.Task[None], used: asyncio.Event) -> None:
        begun = self._loop.time()
        self._spare.add(task)
        self._open.add(task)

        async def until_used() -> None:
            await used.wait()
            self._pause = 0.0
            self._spare.discard(task)
            self._changed.set()

        watching = asyncio.create_task(until_used())

        def end(_: asyncio.Task[None]) -> None:
            watching.cancel()
            self._open.discard(task)
            is_its_doing = not task.cancelled() and not used.is_set()
            if is_its_doing and self._loop.time() - begun < self._limits.unused_seconds / 2:
                self._fails("its server ends the connections that are kept open for it")
            elif is_its_doing:
                self._pause = 0.0
            self._spare.discard(task)
            self._changed.set()

        task.add_done_callback(end)

    async def _connected(self) -> tuple[socket.socket, str]:
        """Return a TCP connection, and the address to which it leads. Raises OSError."""
        host, port = self.wanted.place
        failure: OSError = OSError("the name of its host has no address")
        async with asyncio.timeout(self._limits.use_seconds):
            for family, kind, protocol, _, address in await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                sock = socket.socket(family, kind, protocol)
                sock.setblocking(False)
                try:
                    await self._loop.sock_connect(sock, address)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    return sock, str(address[0])
                except OSError as error:
                    sock.close()
                    failure = error
                except BaseException:
                    sock.close()
                    raise
        raise failure

    def _fails(self, text: str) -> None:
        limits = self._limits
        self._pause = min(max(limits.redial_seconds, 2 * self._pause), limits.longest_redial_seconds)
        self._note(self.wanted.place[0], f"party {self.wanted.party_id}: {text}")


def _text(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no connection in time"
    if isinstance(error, ssl.SSLError):
        return f"no TLS connection ({error.reason or error.strerror})"
    if isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return str(error)
