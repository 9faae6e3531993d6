"""Refusals by caller and minute: a flood of them becomes one entry of the record a minute, not one for each."""

from __future__ import annotations

from dataclasses import dataclass, replace

MINUTE_MS = 60_000
_MOST = 1_000                    # callers and kinds in one minute; the others of it are counted together


@dataclass(frozen=True)
class Refusals:
    """How many requests of one caller were refused within a minute. `party_id`: empty if no key has proved it.
    `route`: `party` or `client`: for whom the refused route is. `first` and `last`: milliseconds since 1970."""

    party_id: str
    route: str
    retcode: int
    count: int
    first: int
    last: int


class RefusalCounts:
    """Counts refusals. Threads that share it hold a lock."""

    def __init__(self) -> None:
        self._of: dict[tuple[int, str, str, int], Refusals] = {}

    def note(self, party_id: str, route: str, retcode: int, at: int) -> None:
        """Count a refusal at this time, in milliseconds since 1970."""
        key = (at // MINUTE_MS, party_id, route, retcode)
        if key not in self._of and len(self._of) >= _MOST:
            key = (at // MINUTE_MS, "", route, retcode)
        old = self._of.get(key)
        self._of[key] = (
            Refusals(key[1], route, retcode, 1, at, at) if old is None
            else replace(old, count=old.count + 1, first=min(old.first, at), last=max(old.last, at))
        )  # fmt: skip

    def take(self, at: int) -> tuple[Refusals, ...]:
        """Return those of all minutes but the present one, and count them no more."""
        over = [key for key in self._of if key[0] != at // MINUTE_MS]
        return tuple(self._of.pop(key) for key in over)

    def is_empty(self) -> bool:
        return not self._of
