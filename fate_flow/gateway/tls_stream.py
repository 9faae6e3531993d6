"""One TLS connection on an event loop.

asyncio's own TLS keeps a buffer of 256 KiB for each connection, and reads ahead into it. Here nothing is read unless
somebody waits for it, so that a peer whose requests do not fit yet costs its socket alone.

At most one task receives, and one sends.
"""

from __future__ import annotations

import asyncio
import copy
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

PIECE = 16 * 1024             # a TLS record has no more
_DISCARDED = 256 * 1024       # of what a refused peer still sends

T = TypeVar("T")


@dataclass(frozen=True)
class TlsParts:
    """The state of a TLS connection, for somebody else who goes on with it."""

    connection: ssl.SSLObject
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO


class TlsStream:
    """A connection that this process has accepted, or opened (`is_client`). All methods raise OSError if it breaks;
    `ssl.SSLError` is one."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, *, is_client: bool = False, name: str | None = None
    ) -> None:  # fmt: skip
        """`name`: of the server, if it is to be found in its certificate."""
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=not is_client, server_hostname=name)
        self._flushing = asyncio.Lock()

    def moved(self) -> TlsStream:
        """Return this connection for somebody else, who closes it. Nothing may be under way here; the socket of this
        object is closed from now on."""
        other = copy.copy(self)
        other._socket = socket.socket(fileno=self._socket.detach())
        other._socket.setblocking(False)
        return other

    async def handshake(self) -> None:
        await self._run(self._tls.do_handshake)

    @property
    def leaf(self) -> bytes | None:
        """The certificate (DER) that the peer has shown; None if it has shown none."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def version(self) -> str:
        """The version of TLS after the handshake."""
        return self._tls.version() or ""

    @property
    def sock(self) -> socket.socket:
        return self._socket

    @property
    def tls(self) -> TlsParts:
        """What somebody goes on with who reads and writes `sock` from now on."""
        return TlsParts(self._tls, self._incoming, self._outgoing)

    @property
    def protocol(self) -> str | None:
        """What both sides have agreed on (ALPN); None if they had nothing in common."""
        return self._tls.selected_alpn_protocol()

    async def receive(self) -> bytes:
        """Return what comes next; b"" at the end."""
        try:
            return await self._run(lambda: self._tls.read(PIECE))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""         # whether a message was complete is seen by its framing

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view[:PIECE]) :]
            await self._flush()

    async def finish(self, seconds: float) -> None:
        """End this direction, and discard what the peer still sends: otherwise the kernel would throw away what it
        has not read yet. Ends when the peer closes, or has sent too much, or after `seconds`."""
        with suppress(OSError):            # TimeoutError is one
            async with asyncio.timeout(seconds):
                with suppress(ssl.SSLError):
                    self._tls.unwrap()     # writes our end; that of the peer is not waited for
                await self._flush()
                self._socket.shutdown(socket.SHUT_WR)
                left = _DISCARDED
                while left > 0 and (data := await self._loop.sock_recv(self._socket, PIECE)):
                    left -= len(data)

    async def _run(self, operation: Callable[[], T]) -> T:
        while True:
            try:
                result = operation()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._loop.sock_recv(self._socket, PIECE)
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            except ssl.SSLError:
                with suppress(OSError):
                    await self._flush()        # the alert that says why
                raise
            else:
                await self._flush()
                return result

    async def _flush(self) -> None:
        if self._outgoing.pending:
            async with self._flushing:         # what is sent first is also read first
                await self._loop.sock_sendall(self._socket, self._outgoing.read())
