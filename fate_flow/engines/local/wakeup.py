"""Datagrams that wake another process. A lost one costs one poll, so no sender waits for long."""

from __future__ import annotations

import json
import select
import socket
from typing import Any


def wake(wakeup: socket.socket, message: dict[str, Any], *, patience_seconds: float = 0.0) -> bool:
    """Send a message; False if the socket did not take it within `patience_seconds`."""
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
        # Other processes share the open socket, so its timeout and blocking mode must not change.
        wakeup.send(datagram, socket.MSG_DONTWAIT)
    except OSError:
        return False
    return True
