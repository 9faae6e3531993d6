"""Callers whose key the gateway does not verify: the application does, or believes a name because the operator says so.

They come without TLS: from a proxy of this machine that has ended it, or over the listener for peers that speak plain
v1. Or they are workers of this party, which show no certificate (`workers/listener.py`). All that is limited for peers
with a known key is limited for them. But a party that such a caller names is a claim, so a caller's share is that of
the name at its address, and all of these callers together have a share, too.
"""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import suppress
from dataclasses import replace
from enum import Enum

import h11

from fate_flow.core.wire.v1.envelope import SRC_PARTY_ID
from fate_flow.gateway.limits import Limits

_PIECE = 64 * 1024
_DISCARDED = 256 * 1024          # of what a refused caller still sends
_SOURCE = SRC_PARTY_ID.lower().encode()
_PARTY_ID = re.compile(rb"[0-9]{1,20}")


class Unproved(Enum):
    """How such a caller comes; the value is what the application is told."""

    PLAIN = b"plain"
    PROXY = b"proxy"
    WORKER = b"worker"           # of this party, on another host; its token says which one


def limits_of_unproved(limits: Limits) -> Limits:
    """Return what the callers of one listener may take. They may be many, with invented names."""
    return replace(
        limits, connections=256, connections_of_party=limits.requests_of_party, memory_bytes=64 * 1024,
        application_requests=max(1, limits.application_requests // 2),
        stored_bytes=4 * limits.stored_bytes_of_party,
    )  # fmt: skip


def claimed_by(request: h11.Request, origin: str) -> str:
    """Return whose share a request takes: that of the party it names, at this address."""
    named = next((value for name, value in request.headers if name == _SOURCE), b"")
    party_id = named.decode() if _PARTY_ID.fullmatch(named) else "without an id"
    return f"{party_id} at {origin}"


class OpenStream:
    """A connection without TLS; the same methods as those of a `TlsStream`, each of which raises OSError if it
    breaks."""

    version = ""
    tls = None

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()

    @property
    def sock(self) -> socket.socket:
        return self._socket

    async def receive(self) -> bytes:
        """Return what comes next; b"" at the end."""
        return await self._loop.sock_recv(self._socket, _PIECE)

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def finish(self, seconds: float) -> None:
        """End this direction, and discard what the caller still sends, within this time: otherwise the kernel would
        throw away what it has not read yet."""
        with suppress(OSError):          # a TimeoutError is one
            async with asyncio.timeout(seconds):
                self._socket.shutdown(socket.SHUT_WR)
                left = _DISCARDED
                while left > 0 and (data := await self._loop.sock_recv(self._socket, _PIECE)):
                    left -= len(data)
