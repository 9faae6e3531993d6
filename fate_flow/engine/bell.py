"""The bell: datagrams that wake another process. One that is lost costs a poll, so nobody waits for long."""

from __future__ import annotations

import json
import select
import socket
from typing import Any


def ring(bell: socket.socket, message: dict[str, Any], *, patience_seconds: float = 0.0) -> bool:
    """False when nobody took the message within so long."""
    datagram = json.dumps(message).encode()
    if _send(bell, datagram):
        return True
    if patience_seconds <= 0:
        return False
    poller = select.poll()
    poller.register(bell, select.POLLOUT)
    poller.poll(patience_seconds * 1000)
    return _send(bell, datagram)


def _send(bell: socket.socket, datagram: bytes) -> bool:
    try:
        # Other processes share the open socket: its own time-out and blocking mode must stay as they are.
        bell.send(datagram, socket.MSG_DONTWAIT)
    except OSError:
        return False
    return True
