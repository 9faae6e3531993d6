"""What is wrong with the ways to and from other parties, kept where every process of this server finds it.

A party is silent since the first request that it did not answer, and cut off since it first said, in the answer to a
heartbeat, that it cannot reach this server. The process that schedules writes both down and forgets them when it
begins: it measures anew.
"""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.peer import LONGEST_ERROR, PeerTrouble, WayBack
from fate_flow.core.text.phrases import sanitized
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.store.contract.transaction import Transaction


class PeerWatch:
    def __init__(self) -> None:
        self._suspects: frozenset[str] = frozenset()      # parties of which a trouble may be stored

    def check(self, tx: Transaction) -> None:
        """To be called now and then: what another thread or a rolled back transaction has left is found."""
        self._suspects = frozenset(tx.peer_troubles())

    def is_suspect(self, party_id: str) -> bool:
        """Whether it is new that this party answers, and reaches this server."""
        return party_id in self._suspects

    def troubles(self, unit: UnitOfWork) -> tuple[PeerTrouble, ...]:
        return tuple(unit.tx.peer_troubles().values()) if self._suspects else ()

    def fails(self, unit: UnitOfWork, party_id: str, seconds: float, error: str) -> None:
        """It has not answered for so many seconds."""
        self._suspects |= {party_id}
        known, why = _known(unit, party_id), sanitized(error, LONGEST_ERROR)
        since = known.silent_since or max(1, unit.steady - int(seconds * 1000))
        if (known.silent_since, known.silence) != (since, why):
            unit.tx.note_trouble(replace(known, silent_since=since, silence=why))

    def answers(self, unit: UnitOfWork, party_id: str) -> None:
        """It has answered."""
        known = _known(unit, party_id)
        if known.silent_since:
            unit.tx.note_trouble(known.without_silence())

    def way_back(self, unit: UnitOfWork, party_id: str, way_back: WayBack | None) -> PeerTrouble:
        """What it says of its way to this server: what is wrong with it since when."""
        known = _known(unit, party_id)
        if way_back is None:
            found = PeerTrouble(party_id)
        else:
            self._suspects |= {party_id}
            since = known.cut_off_since or max(1, unit.steady)
            found = replace(known.without_silence(), cut_off_since=since, cut_off=way_back.error)
        if found != known:
            unit.tx.note_trouble(found)
        return found

    def forget_way_back(self, unit: UnitOfWork, trouble: PeerTrouble) -> None:
        """Nobody asks the party any more: how long it is cut off is counted anew once somebody does."""
        if trouble.cut_off_since:
            unit.tx.note_trouble(replace(trouble, cut_off_since=0, cut_off=""))


def _known(unit: UnitOfWork, party_id: str) -> PeerTrouble:
    return unit.tx.peer_troubles().get(party_id) or PeerTrouble(party_id)
