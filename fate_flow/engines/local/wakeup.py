"""Datagrams that wake another process. A lost one costs one poll, so nobody waits for long."""

from __future__ import annotations

import json
import select
import socket
from typing import Any


def wake(wakeup: socket.socket, message: dict[str, Any], *, patience_seconds: float = 0.0) -> bool:
    """False when nobody took the message within so long."""
    datagram = json.dumps(message).encode()
    if _send(wakeup, datagram):
        return True
    if patience_seconds <= 0:
        return False
    poller = select.poll()
    poller.register(wakeup, select.POLLOUT)
    poller.poll(patience_seconds * 1000)
    return _send(wakeup, datagram)


def _send(wakeup: socket.socket, datagram: bytes) -> bool:
    try:
        # Other processes share the open socket: its own time-out and blocking mode must stay as they are.
        wakeup.send(datagram, socket.MSG_DONTWAIT)
    except OSError:
        return False
    return True
