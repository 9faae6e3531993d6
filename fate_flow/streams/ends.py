"""The two ends of a stream on an event loop: the socket of a worker, and the connection to another gateway.

They are protocols with callbacks, not readers with buffers of their own: every byte is copied as rarely as possible.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from fate_flow.core.streams.frame_pace import FramePace
from fate_flow.core.streams.stream import Stream
from fate_flow.gateway.tls_stream import TlsParts

_PIECE = 256 * 1024
_COUNTED_AT_ONCE = 64                  # frames
_WAITS = 16 * 1024
"""Bytes that a transport may have for a worker before the stream holds back more: from Python 3.12 on, a transport
keeps each piece for itself, however small it is."""


class _End(asyncio.Protocol):
    """What both ends have in common. `stream` is set before the first byte is read."""

    stream: Stream

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()       # done when the socket is closed
        self._transport: asyncio.Transport | None = None
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's own signature
        if not self.over.done():
            self.over.set_result(None)

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def pause_reading(self) -> None:
        if not self._is_paused and not self.transport.is_closing():
            self._is_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused and not self.transport.is_closing():
            self._is_paused = False
            self.transport.resume_reading()

    def write(self, data: bytes | memoryview) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)

    def write_eof(self) -> None:
        if not self.transport.is_closing() and self.transport.can_write_eof():
            self.transport.write_eof()

    def close(self) -> None:
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()


def reset_at_close(sock: socket.socket, is_reset: bool = True) -> None:
    """Let whoever is at the other end see an error when this socket is closed, and not an end of data; or no longer."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", is_reset, 0))


class WorkerEnd(_End):
    """The socket of a worker. Until both directions have ended it is reset however it is closed, also by the kernel
    when this process is killed: a worker must not take that for the end of its data."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(_WAITS)
        reset_at_close(transport.get_extra_info("socket"))

    def close(self) -> None:
        reset_at_close(self.transport.get_extra_info("socket"), is_reset=False)
        super().close()

    def abort(self) -> None:
        reset_at_close(self.transport.get_extra_info("socket"))
        super().abort()

    def data_received(self, data: bytes) -> None:
        self.stream.from_worker(data)

    def eof_received(self) -> bool:
        self.stream.worker_ends()
        return True                    # the other direction stays open

    def pause_writing(self) -> None:
        self.stream.worker_is_full(True)

    def resume_writing(self) -> None:
        self.stream.worker_is_full(False)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if hasattr(self, "stream"):
            self.stream.worker_is_gone("the worker has ended its connection")


class LineEnd(_End):
    """The connection to another gateway; `tls`: the state of its TLS after the handshake, None without TLS. `pace`: of
    the frames of its party."""

    def __init__(self, tls: TlsParts | None, now: Callable[[], float], pace: FramePace | None = None) -> None:
        super().__init__()
        self._tls = tls
        self._now = now
        self._pace = pace or FramePace(now())
        self._uncounted = 0            # frames
        self._waits = False            # until further frames are taken

    def begin(self, leftover: bytes) -> None:
        """Take what had come before this was connected, and read from now on."""
        self._took(self.stream.from_line(leftover))
        self._read_on()

    def data_received(self, data: bytes) -> None:
        self.stream.heard(self._now())
        if self._tls is None:
            self._took(self.stream.from_line(data))
            return
        self._tls.incoming.write(data)
        self.read_decrypted()

    def _took(self, frames: int) -> None:
        """Wait before further frames are taken, if these were many."""
        self._uncounted += frames
        if self._uncounted < _COUNTED_AT_ONCE and not self.stream.has_more:
            return
        seconds, self._uncounted = self._pace.spend(self._now(), self._uncounted), 0
        if (seconds or self.stream.has_more) and not self.stream.is_over:
            self._waits = True
            self.pause_reading()
            self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._waits = False
        self.stream.heard(self._now())         # nothing was read meanwhile
        if self.stream.has_more:
            self._took(self.stream.go_on())
        self._read_on()

    def _read_on(self) -> None:
        if not self._waits:
            self.read_decrypted()
        if not self._waits:
            self.resume_reading()

    def read_decrypted(self) -> None:
        """Take what was decrypted, also what had come before the upgrade was answered."""
        if self._tls is None:
            return
        try:
            while not self._waits and not self.stream.is_over and (data := self._tls.connection.read(_PIECE)):
                self._took(self.stream.from_line(data))
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self.stream.line_is_gone(_GONE)
        except ssl.SSLError as error:
            self.stream.line_is_gone(f"the connection to the other server has broken: {error.reason}")
        self._flush()

    def write(self, data: bytes | memoryview) -> None:
        if self._tls is None:
            super().write(data)
        elif not self.transport.is_closing():
            view = memoryview(data)
            while view:
                view = view[self._tls.connection.write(view) :]
            self._flush()

    def _flush(self) -> None:
        assert self._tls is not None
        if self._tls.outgoing.pending and not self.transport.is_closing():
            self.transport.write(self._tls.outgoing.read())

    def eof_received(self) -> bool:
        self.stream.line_is_gone(_GONE)
        return False

    def pause_writing(self) -> None:
        self.stream.line_is_full(True)

    def resume_writing(self) -> None:
        self.stream.line_is_full(False)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if hasattr(self, "stream"):          # or the attempt has ended while this was connected
            self.stream.line_is_gone(_GONE)


_GONE = "the connection to the other server has ended"
