"""Wake-ups between the processes of one server.

A bell is a pair of packet sockets made before the fork: no path, no port, so no other user can ring it. Any process
may ring, one listens. Packets rather than datagrams: of those the kernel keeps ten (`net.unix.max_dgram_qlen`), and a
burst of workers that end together would be lost. A ring beyond what the buffer holds is lost all the same; a payload is
a hint, never the only place where a fact stands.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress

_PAYLOAD_BYTES = 4096
_EMPTY = b"."  # a packet of no bytes would read as the end of the stream
_DRAIN_AT_MOST = 1024  # rings taken in one wait: who never stops ringing must not hold the listener


class Bell:
    """Rung by many processes, heard by one; made before they are forked."""

    def __init__(self) -> None:
        self._heard, self._rung = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._heard.setblocking(False)
        self._rung.setblocking(False)

    @property
    def listener(self) -> socket.socket:
        """The listening end, for who waits in another way."""
        return self._heard

    @property
    def ringer(self) -> socket.socket:
        """The end to ring, for processes that know nothing of this class."""
        return self._rung

    def fileno(self) -> int:
        """The listening end, for a `select` over several things."""
        return self._heard.fileno()

    def ring(self, payload: bytes = b"") -> None:
        """Wake the listener; a full buffer or a listener that is gone loses the ring in silence."""
        if len(payload) > _PAYLOAD_BYTES:
            raise ValueError(f"payload of {len(payload)} bytes: a bell carries {_PAYLOAD_BYTES} at most")
        with suppress(OSError):
            self._rung.send(payload or _EMPTY)

    def wait(self, timeout_seconds: float) -> list[bytes]:
        """The payloads of all rings that are pending; [] when none came within the time."""
        poll = select.poll()
        poll.register(self._heard, select.POLLIN)
        if not poll.poll(max(0.0, timeout_seconds) * 1000):
            return []
        return self._drain()

    def close(self) -> None:
        """Give up both ends in this process; the others keep theirs."""
        self._heard.close()
        self._rung.close()

    def _drain(self) -> list[bytes]:
        rings: list[bytes] = []
        with suppress(OSError):  # BlockingIOError: nothing is left
            while len(rings) < _DRAIN_AT_MOST:
                rings.append(self._heard.recv(_PAYLOAD_BYTES))
        return rings
