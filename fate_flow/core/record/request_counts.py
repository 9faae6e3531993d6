"""Requests between parties that have no entry of their own: one entry for each kind, party, direction and hour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fate_flow.core.record.window_counts import Counted

HOUR_MS = 3_600_000


class Direction(StrEnum):
    """Who has asked whom."""

    SENT = "sent"
    RECEIVED = "received"


@dataclass(frozen=True)
class Requests(Counted):
    """How many requests between this party and another one that have no entry of their own, within an hour. `what`:
    their kind. `party_id`: empty for those of which no key has proved who sent them. `is_answered`: false for those
    that were sent, and got no answer."""

    party_id: str
    what: str
    direction: Direction
    is_answered: bool
