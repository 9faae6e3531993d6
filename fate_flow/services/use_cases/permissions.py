"""Grants: which components and tables the jobs of other parties may use here."""

from __future__ import annotations

from collections.abc import Sequence

from fate_flow.core.access.permission import EVERYTHING, Thing
from fate_flow.core.model.errors import Conflict
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.use_cases.units import Units
from fate_flow.services.use_cases.who_asked import note_act


class Permissions:
    """Grants of this party to other parties."""

    def __init__(self, units: Units) -> None:
        self._units = units

    def grant(self, party_id: str, things: Sequence[Thing], by: str = "") -> None:
        """Allow jobs of this party to use these things here."""

        def grant(unit: UnitOfWork) -> None:
            unit.tx.grant(party_id, things)
            self._note_permission(unit, f"party {party_id} was granted", things, by)

        self._units.carry_out(grant)

    def revoke(self, party_id: str, things: Sequence[Thing], by: str = "") -> None:
        """Revoke grants. No worker that needs them starts any more; running ones go on. Raises Conflict for a thing
        that was not granted."""

        def revoke(unit: UnitOfWork) -> None:
            granted = unit.tx.granted(party_id)
            lacking = [thing for thing in things if thing not in granted and thing not in EVERYTHING.values()]
            if lacking:
                raise Conflict(f"party {party_id} was not granted {lacking[0]}; flow privilege query shows what it was")
            kinds = {thing.kind for thing in things if thing in EVERYTHING.values()}
            unit.tx.revoke(party_id, [one for one in granted if one in things or one.kind in kinds])
            self._note_permission(unit, f"party {party_id} is no longer granted", things, by)

        self._units.carry_out(revoke, is_repeatable=False)

    def _note_permission(self, unit: UnitOfWork, message: str, things: Sequence[Thing], by: str) -> None:
        note_act(unit, message, f"{message}: {', '.join(map(str, things))}", by)
