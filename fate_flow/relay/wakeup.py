"""Wake-ups between the processes of one server.

A `Wakeup` is a pair of packet sockets made before the fork: it has no path and no port, so no other user can write to
it. Any process may send; one process listens. It uses packets because the kernel keeps only ten datagrams
(`net.unix.max_dgram_qlen`), so a burst of workers that end together would lose some. A wake-up that does not fit into
the buffer is lost all the same: the payload is a hint, and every fact is stored elsewhere.
"""

from __future__ import annotations

import mmap
import select
import socket
from contextlib import suppress

_PAYLOAD_BYTES = 4096
_EMPTY = b"."  # a packet of no bytes would read as the end of the stream
_AWAKE, _CALLED = 0, 1
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


class QuietWakeup(Wakeup):
    """Wake-ups for a listener that stays awake for a while, and is sent none meanwhile.

    A wake-up between two processes takes a processor away from those who work: on two cores it costs a step of a job
    half a millisecond or more. A listener that is awake asks `was_called`, in shared memory, as often as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self._shared = mmap.mmap(-1, 2)          # whether the listener is awake, and was called; shared by a fork

    def wake(self, payload: bytes = b"") -> None:
        """Call the listener, and wake it unless it has been woken since its last `listen`."""
        self._shared[_CALLED] = 1
        if not self._shared[_AWAKE]:
            self._shared[_AWAKE] = 1
            super().wake(payload)

    def listen(self) -> None:
        """Let the next call wake the listener. It asks `was_called` once more afterwards."""
        self._shared[_AWAKE] = 0

    def was_called(self) -> bool:
        """Return whether the listener was called since it asked last. It asks before it looks at the facts."""
        if not self._shared[_CALLED]:
            return False                 # a mark that is not set is not cleared: it may be set at this moment
        self._shared[_CALLED] = 0
        return True
