"""Connections to the application that have served a request and may serve another one.

A connection that is kept serves requests with one identity alone, those of one key. So whatever an application or a
peer might leave on it reaches nobody else.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

from fate_flow.gateway.limits import Limits


@dataclass(frozen=True)
class _Kept:
    identity: bytes
    sock: socket.socket
    since: float


class KeptConnections:
    """`clock` returns seconds that only grow."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._kept: list[_Kept] = []           # the longest unused one first

    def take(self, identity: bytes) -> socket.socket | None:
        """Return the connection that has served a request with this identity last; None if there is none to be used."""
        while self._kept and self._clock() - self._kept[0].since > self._limits.kept_seconds:
            self._kept.pop(0).sock.close()
        for one in [found for found in reversed(self._kept) if found.identity == identity]:
            self._kept.remove(one)
            if is_silent(one.sock):
                return one.sock
            one.sock.close()
        return None

    def give(self, identity: bytes, sock: socket.socket) -> None:
        """Keep a connection on which everything was sent and received that belongs to its last request."""
        self._kept.append(_Kept(identity, sock, self._clock()))
        if len(self._kept) > self._limits.kept_connections:
            self._kept.pop(0).sock.close()

    def close(self) -> None:
        while self._kept:
            self._kept.pop().sock.close()


def is_silent(sock: socket.socket) -> bool:
    """Return whether the other end has neither ended this connection nor sent anything that nobody asked for."""
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
