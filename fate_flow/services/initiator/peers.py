"""Troubles with the connections to and from other parties, stored for all processes of this server.

A party is silent since the first request that it did not answer. It is cut off since it first answered a heartbeat
with the statement that it cannot reach this server, but no longer than it says. The scheduler process stores both. A
new scheduler deletes them and measures again.
"""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.history import HistoryLevel, Silence
from fate_flow.core.model.peer import LONGEST_ERROR, PeerTrouble
from fate_flow.core.model.status import SeatStatus
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.heartbeat import WayBack
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.store.contract.transaction import Transaction

LEAST_NOTED = 5.0
"""Seconds of silence that the histories of jobs have: a request that is lost is no silence."""
_NOTHING_THERE = frozenset({
    SeatStatus.JOINING, SeatStatus.JOINED, SeatStatus.REFUSED, SeatStatus.LEFT, SeatStatus.UNCONFIRMED,
})  # fmt: skip


class PeerWatch:
    def __init__(self) -> None:
        self._suspects: frozenset[str] = frozenset()      # parties of which a trouble may be stored
        self._noted: frozenset[str] = frozenset()         # parties whose silence is in the histories of jobs

    def check(self, tx: Transaction) -> None:
        """Read the stored troubles again, because another thread or a rolled-back transaction may have changed them."""
        self._suspects = frozenset(tx.peer_troubles())

    @property
    def suspects(self) -> frozenset[str]:
        """The parties of which a trouble may be stored."""
        return self._suspects

    def is_suspect(self, party_id: str) -> bool:
        """Return whether a trouble of this party may be stored."""
        return party_id in self._suspects

    def troubles(self, unit: UnitOfWork) -> tuple[PeerTrouble, ...]:
        return tuple(unit.tx.peer_troubles().values()) if self._suspects else ()

    def fails(self, unit: UnitOfWork, party_id: str, seconds: float, error: str) -> None:
        """Store that the party has not answered for so many seconds."""
        self._suspects |= {party_id}
        known, why = _known(unit, party_id), sanitized(error, LONGEST_ERROR)
        since = known.silent_since or max(1, unit.steady - int(seconds * 1000))
        if (known.silent_since, known.silence) != (since, why):
            unit.tx.note_trouble(replace(known, silent_since=since, silence=why))
        if seconds >= LEAST_NOTED and party_id not in self._noted:
            self._noted |= {party_id}
            _note(unit, party_id, Silence.BEGUN, f"for {seconds:.0f} s: {why}")

    def answers(self, unit: UnitOfWork, party_id: str) -> None:
        """Store that the party has answered."""
        known = _known(unit, party_id)
        if known.silent_since:
            unit.tx.note_trouble(known.without_silence())
        self._note_answer(unit, party_id)

    def way_back(self, unit: UnitOfWork, party_id: str, way_back: WayBack | None) -> PeerTrouble:
        """Store the party's statement about its connection to this server, and return the trouble."""
        known = _known(unit, party_id)
        self._note_answer(unit, party_id)
        if way_back is None:
            found = PeerTrouble(party_id)
        else:
            self._suspects |= {party_id}
            since = known.cut_off_since or max(1, unit.steady)
            if way_back.seconds:       # it has reached this server since the statement before, if that was long ago
                since = max(since, unit.steady - int(way_back.seconds * 1000))
            found = replace(known.without_silence(), cut_off_since=since, cut_off=way_back.error)
        if found != known:
            unit.tx.note_trouble(found)
        return found

    def forget(self, unit: UnitOfWork, party_id: str) -> None:
        """Forget the trouble of a party that gets no heartbeats any more: it has no address here, or was revoked."""
        unit.tx.note_trouble(PeerTrouble(party_id))

    def _note_answer(self, unit: UnitOfWork, party_id: str) -> None:
        if party_id in self._noted:
            self._noted -= {party_id}
            _note(unit, party_id, Silence.OVER)


def _note(unit: UnitOfWork, party_id: str, what: Silence, message: str = "") -> None:
    """Write a silence into the history of each job that the party holds cores or runs tasks for."""
    for seat in unit.tx.seats_at(party_id):
        if seat.status not in _NOTHING_THERE:
            unit.moves(HistoryLevel.SILENCE, seat.job_id, None, what, party=seat.party, message=message)


def _known(unit: UnitOfWork, party_id: str) -> PeerTrouble:
    return unit.tx.peer_troubles().get(party_id) or PeerTrouble(party_id)
