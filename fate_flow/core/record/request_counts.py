"""Requests between parties that have no entry of their own: one entry for each kind, party, direction and hour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from fate_flow.core.record.window_counts import Counted, WindowCounts

HOUR_MS = 3_600_000
_MOST = 1_000                    # parties and kinds in one hour; the others of it are counted together


class Direction(StrEnum):
    """Who has asked whom."""

    SENT = "sent"
    RECEIVED = "received"


@dataclass(frozen=True)
class Requests(Counted):
    """How many requests between this party and another one that have no entry of their own, within an hour. `what`:
    their kind; `is_answered`: false for those that were sent and got no answer."""

    party_id: str
    what: str
    direction: Direction
    is_answered: bool


class RequestCounts(WindowCounts[Requests]):
    """Counts requests by hour."""

    def __init__(self) -> None:
        super().__init__(HOUR_MS)

    def _counted_as(self, window: int, alike: Requests) -> Requests:
        """Who may say that it is any party invents no more than so many."""
        is_new = (window, alike) not in self._of
        return replace(alike, party_id="") if is_new and len(self._of) >= _MOST else alike
