"""Refusals by caller and minute: a flood of them becomes one entry of the record a minute, not one for each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum

from fate_flow.core.record.window_counts import MINUTE_MS, Counted, WindowCounts

_MOST = 1_000                    # callers and kinds in one minute; the others of it are counted together
_MOST_ADDRESSES = 100            # addresses and kinds in one minute; the others of it are counted together


class Cause(StrEnum):
    """Why the gateway has refused somebody, who may have sent no request at all."""

    CONNECTIONS = "connections"  # too many of them at once
    HANDSHAKE = "handshake"      # no TLS connection has come about, for another reason than the key
    KEY = "key"                  # the certificate has no key that is known and valid
    REQUEST = "request"          # the answer is the gateway's own; `retcode` is its HTTP status


@dataclass(frozen=True)
class Refusals(Counted):
    """How often one caller was refused within a minute, or for longer if it could not be written then. `party_id`:
    empty if no key has proved it. `route`: `party`, `client`, `worker` or `page`: for whom the refused route or
    listener is. `retcode`: 0 if there was no answer. `cause`: of a refusal of the gateway. `address`: from where an
    unproved caller came to the gateway; empty for all others together."""

    party_id: str
    route: str
    retcode: int
    cause: str = ""
    address: str = ""


class RefusalCounts(WindowCounts[Refusals]):
    """Counts refusals by minute."""

    def __init__(self) -> None:
        super().__init__(MINUTE_MS)
        self._named: Counter[int] = Counter()        # values with an address, by minute

    def _counted_as(self, window: int, alike: Refusals) -> Refusals:
        """A new caller, if there are many, is counted as all others."""
        if (window, alike) in self._of:
            return alike
        if alike.address and self._named[window] >= _MOST_ADDRESSES:
            alike = replace(alike, address="")
        if len(self._of) >= _MOST:
            alike = replace(alike, party_id="", address="")
        if (window, alike) not in self._of:
            self._named[window] += bool(alike.address)
        return alike

    def _take(self, keys: list[tuple[int, Refusals]]) -> tuple[Refusals, ...]:
        for window in {key[0] for key in keys}:
            self._named.pop(window, None)
        return super()._take(keys)
