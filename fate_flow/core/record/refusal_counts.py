"""Refusals by caller and minute: a flood of them becomes one entry of the record a minute, not one for each.

Those that could not be written are kept, without their minute: a database that is away for long takes no more memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

MINUTE_MS = 60_000
_MOST = 1_000                    # callers and kinds in one minute; the others of it are counted together
_MOST_ADDRESSES = 100            # addresses and kinds in one minute; the others of it are counted together
_KEPT = -1                       # stands for the minutes of those that could not be written


class Cause(StrEnum):
    """Why the gateway has refused somebody, who may have sent no request at all."""

    CONNECTIONS = "connections"  # too many of them at once
    HANDSHAKE = "handshake"      # no TLS connection has come about, for another reason than the key
    KEY = "key"                  # the certificate has no key that is known and valid
    REQUEST = "request"          # the answer is the gateway's own; `retcode` is its HTTP status


@dataclass(frozen=True)
class Refusals:
    """How often one caller was refused within a minute, or for longer if it could not be written then. `party_id`:
    empty if no key has proved it. `route`: `party`, `client`, `worker` or `page`: for whom the refused route or
    listener is. `retcode`: 0 if there was no answer. `first` and `last`: milliseconds since 1970. `cause`: of a refusal
    of the gateway. `address`: from where an unproved caller came to the gateway; empty for all others together."""

    party_id: str
    route: str
    retcode: int
    count: int
    first: int
    last: int
    cause: str = ""
    address: str = ""


_Key = tuple[int, str, str, int, str, str]


class RefusalCounts:
    """Counts refusals. Threads that share it hold a lock."""

    def __init__(self) -> None:
        self._of: dict[_Key, Refusals] = {}
        self._named: Counter[int] = Counter()        # values with an address, by minute

    def note(self, party_id: str, route: str, retcode: int, at: int, cause: str = "", address: str = "") -> None:
        """Count a refusal at this time, in milliseconds since 1970."""
        self._add(at // MINUTE_MS, Refusals(party_id, route, retcode, 1, at, at, cause, address))

    def put_back(self, taken: Iterable[Refusals]) -> None:
        """Count again those that were taken, and could not be written."""
        for one in taken:
            self._add(_KEPT, one)

    def _add(self, minute: int, one: Refusals) -> None:
        key = self._key((minute, one.party_id, one.route, one.retcode, one.cause, one.address))
        old = self._of.get(key)
        if old is None:
            self._of[key] = replace(one, party_id=key[1], address=key[5])
            self._named[minute] += bool(key[5])
        else:
            self._of[key] = replace(
                old, count=old.count + one.count, first=min(old.first, one.first), last=max(old.last, one.last)
            )

    def _key(self, key: _Key) -> _Key:
        """Return what a refusal is counted under: a new caller, if there are many, under that of all others."""
        if key in self._of:
            return key
        minute, party_id, route, retcode, cause, address = key
        if address and self._named[minute] >= _MOST_ADDRESSES:
            address = ""
        if len(self._of) >= _MOST:
            party_id = address = ""
        return minute, party_id, route, retcode, cause, address

    def take(self, at: int) -> tuple[Refusals, ...]:
        """Return those of all minutes but the present one, and count them no more."""
        return self._take([key for key in self._of if key[0] != at // MINUTE_MS])

    def take_all(self) -> tuple[Refusals, ...]:
        """Return those of the present minute, too, and count them no more."""
        return self._take(list(self._of))

    def _take(self, keys: list[_Key]) -> tuple[Refusals, ...]:
        for minute in {key[0] for key in keys}:
            self._named.pop(minute, None)
        return tuple(self._of.pop(key) for key in keys)

    def is_empty(self) -> bool:
        return not self._of
