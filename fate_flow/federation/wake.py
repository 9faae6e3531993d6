"""Wake-ups between the processes of one server.

A bell is a pair of datagram sockets made before the fork: no path, no port, so no other user can ring it. Any
process may ring, one listens. The kernel keeps few datagrams (`net.unix.max_dgram_qlen`, often 10) and a ring
beyond them is lost. That is meant: who listens has not looked at the earlier ones yet, and looks at everything
when it does. A payload is therefore a hint, never the only place where a fact stands.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress

_PAYLOAD_BYTES = 4096
_DRAIN_AT_MOST = 1024  # rings taken in one wait: who never stops ringing must not hold the listener


class Bell:
    """Rung by many processes, heard by one; made before they are forked."""

    def __init__(self) -> None:
        self._heard, self._rung = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._heard.setblocking(False)
        self._rung.setblocking(False)

    def fileno(self) -> int:
        """The listening end, for a `select` over several things."""
        return self._heard.fileno()

    def ring(self, payload: bytes = b"") -> None:
        """Wake the listener; a full buffer or a listener that is gone loses the ring in silence."""
        if len(payload) > _PAYLOAD_BYTES:
            raise ValueError(f"payload of {len(payload)} bytes: a bell carries {_PAYLOAD_BYTES} at most")
        with suppress(OSError):
            self._rung.send(payload)

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
