"""Callers whose key nobody knows yet: while an invitation is open, they reach the one route by which parties join."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import h11

from fate_flow.core.access.joining import JOIN, MOST_BYTES
from fate_flow.gateway.limits import MIB, Limits
from fate_flow.gateway.refusals import Refused

_TARGET = f"/v1{JOIN}".encode()
_SECONDS = 60.0
_MOST, _MOST_OF_ADDRESS = 60, 12      # requests within _SECONDS; an operator needs one or two


def limits_of_strangers(limits: Limits) -> Limits:
    """Return what all strangers together may take; they are one party to `Shares`."""
    return replace(
        limits, connections_of_party=8, requests_of_party=4, body_bytes=2 * MOST_BYTES, stored_bytes_of_party=2 * MIB,
        application_requests=2, application_requests_of_party=2, idle_seconds=limits.head_seconds,
    )  # fmt: skip


class JoinRate:
    """How often strangers may ask. `clock` returns seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked: deque[tuple[float, str]] = deque()

    def take(self, origin: str) -> None:
        """Count a request from this address. Raises Refused if there were too many."""
        now = self._clock()
        while self._asked and now - self._asked[0][0] >= _SECONDS:
            self._asked.popleft()
        of_address = sum(one == origin for _, one in self._asked)
        if len(self._asked) >= _MOST or of_address >= _MOST_OF_ADDRESS:
            raise Refused(429, "too many parties try to join: try again in a minute")
        self._asked.append((now, origin))


def check_target(request: h11.Request) -> None:
    """Raise Refused unless the request is one to join."""
    if (request.method, request.target) != (b"POST", _TARGET):
        raise Refused(404, "without a certificate, a caller can only join by an invitation")
