"""Wake-ups between the processes of one server.

A `Wakeup` is a pair of packet sockets made before the fork: it has no path and no port, so no other user can write to
it. Any process may send; one process listens. It uses packets because the kernel keeps only ten datagrams
(`net.unix.max_dgram_qlen`), so a burst of workers that end together would lose some. A wake-up that does not fit into
the buffer is lost all the same: the payload is a hint, and every fact is stored elsewhere.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress

_PAYLOAD_BYTES = 4096
_EMPTY = b"."  # a packet of no bytes would read as the end of the stream
_DRAIN_AT_MOST = 1024  # wake-ups taken in one wait: a process that never stops sending must not hold the listener


class Wakeup:
    """Many processes send, one receives; made before they are forked."""

    def __init__(self) -> None:
        self._receiver, self._sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._receiver.setblocking(False)
        self._sender.setblocking(False)

    @property
    def receiving_end(self) -> socket.socket:
        """The listening end, for a process that waits in another way."""
        return self._receiver

    @property
    def sending_end(self) -> socket.socket:
        """The sending end, for processes that do not use this class."""
        return self._sender

    def fileno(self) -> int:
        """Return the file descriptor of the listening end, for a `select` over several files."""
        return self._receiver.fileno()

    def wake(self, payload: bytes = b"") -> None:
        """Wake the listener. If the buffer is full or the listener is gone, the wake-up is lost without an error."""
        if len(payload) > _PAYLOAD_BYTES:
            raise ValueError(f"payload of {len(payload)} bytes: a wake-up carries {_PAYLOAD_BYTES} at most")
        with suppress(OSError):
            self._sender.send(payload or _EMPTY)

    def wait(self, timeout_seconds: float) -> list[bytes]:
        """Return the payloads of all pending wake-ups; [] if none came in time."""
        poll = select.poll()
        poll.register(self._receiver, select.POLLIN)
        if not poll.poll(max(0.0, timeout_seconds) * 1000):
            return []
        return self._drain()

    def close(self) -> None:
        """Close both ends in this process; other processes keep theirs."""
        self._receiver.close()
        self._sender.close()

    def _drain(self) -> list[bytes]:
        payloads: list[bytes] = []
        with suppress(OSError):  # BlockingIOError: nothing is left
            while len(payloads) < _DRAIN_AT_MOST:
                payloads.append(self._receiver.recv(_PAYLOAD_BYTES))
        return payloads
