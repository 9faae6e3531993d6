"""What a peer says and nobody has signed: which messages this party has acknowledged to it.

Its word counts in its first answer, and once more a minute later: an acknowledgement may still have been on its way to
it when a backup was restored here. When a log has begun anew by it, it counts no more. So a liar can make a log begin
anew once in each run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container
from dataclasses import dataclass, field

from fate_flow.core.wire.v1.witnessing import AS_BEFORE, AskedHeld

SETTLED_SECONDS = 60.0       # after which no request is under way that an earlier process has answered
_AGAIN_SECONDS = 10.0        # after a peer has not answered


@dataclass
class UnsignedWord:
    """Whose word about acknowledgements counts. Times are those of a steady clock. May be shared by threads."""

    _asked: dict[str, AskedHeld] = field(default_factory=dict)     # by party id, those whose word may still count
    _again_at: dict[str, float] = field(default_factory=dict)      # of those that have answered once
    _is_over: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def question(self, party_id: str, newest_signed: Callable[[], str]) -> AskedHeld:
        """Return what to ask a peer: the second time the same, since what was signed meanwhile says nothing about what
        was lost before."""
        with self._lock:
            asked = AS_BEFORE if party_id in self._is_over else self._asked.get(party_id)
        if asked is None:
            asked = AskedHeld(newest_signed())
            with self._lock:
                self._asked[party_id] = asked
        return asked

    def is_first(self, party_id: str) -> bool:
        """Return whether this peer has not answered yet."""
        with self._lock:
            return party_id not in self._is_over and party_id not in self._again_at

    def counts(self, party_id: str, now: float) -> bool:
        with self._lock:
            return party_id not in self._is_over and self._again_at.get(party_id, now) <= now

    def is_taken(self, party_id: str, now: float, has_begun_anew: bool) -> None:
        """Note that the peer has answered; `has_begun_anew`: a log has, by this answer."""
        with self._lock:
            if has_begun_anew or self._again_at.get(party_id, now + 1) <= now:
                self._end(party_id)
            elif party_id not in self._is_over:
                self._again_at.setdefault(party_id, now + SETTLED_SECONDS)

    def is_silent(self, party_id: str, now: float) -> None:
        with self._lock:
            if self._again_at.get(party_id, now + 1) <= now:
                self._again_at[party_id] = now + _AGAIN_SECONDS

    def says_nothing(self, party_id: str) -> None:
        """Note that the peer keeps no record: one that has answered before is not asked for its word once more."""
        with self._lock:
            if party_id in self._again_at:
                self._end(party_id)

    def due_at(self, party_id: str) -> float | None:
        """Return when the peer has to be asked once more; None if it has not to be."""
        with self._lock:
            return self._again_at.get(party_id)

    def are_due(self, parties: Container[str], now: float) -> tuple[str, ...]:
        """Return those of these peers that have to be asked once more now."""
        with self._lock:
            return tuple(one for one, at in self._again_at.items() if at <= now and one in parties)

    def _end(self, party_id: str) -> None:
        self._is_over.add(party_id)
        self._again_at.pop(party_id, None)
        self._asked.pop(party_id, None)
