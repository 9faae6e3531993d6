"""Which partners people are notified of as silent: once for each silence, also over a restart of the scheduler."""

from __future__ import annotations

from collections.abc import Iterable

from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.notifications.notification import Occasion
from fate_flow.services.context.notifying import notify_of_answer, notify_of_silence
from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import UnitOfWork


class Silences:
    """A party counts as silent once it has not answered, or not reached this server, for the time that the
    configuration says. It counts as answering again once that has lasted as long: people hear of a connection that
    comes and goes once, and a new scheduler, which begins without troubles, takes nothing back."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._answers_since: dict[str, int] = {}      # steady time, by a party of whose silence people know

    def look(self, unit: UnitOfWork, troubles: Iterable[PeerTrouble]) -> None:
        """Notify people of partners that have fallen silent, and of those that answer again. Call this at each poll."""
        subscribers = self._context.subscribers
        if not subscribers.wants(Occasion.PARTNER_SILENT):
            return
        known, silent = unit.tx.noted_silences(), {one.party_id: one for one in troubles if not one.is_over}
        for party_id, trouble in silent.items():
            self._answers_since.pop(party_id, None)
            lasts = unit.steady - (trouble.silent_since or trouble.cut_off_since)
            if party_id not in known and lasts >= subscribers.silence:
                unit.tx.note_silence(party_id, unit.now)
                notify_of_silence(
                    self._context, unit.tx, party_id, lasts // 1000, unit.now, is_cut_off=not trouble.silent_since
                )
        for party_id in known.keys() - silent.keys():
            since = self._answers_since.setdefault(party_id, unit.steady)
            if unit.steady - since >= subscribers.silence:
                unit.tx.note_silence(party_id, 0)
                notify_of_answer(self._context, unit.tx, party_id, known[party_id], unit.now)
