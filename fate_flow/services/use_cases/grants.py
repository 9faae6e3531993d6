"""Grants as a whole: what a file of grants would change, and the change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fate_flow.core.access.limits import DAY, Grants, described
from fate_flow.core.access.permission import Thing
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Context
from fate_flow.services.context.recording import record_act
from fate_flow.services.context.unit_of_work import UnitOfWork, unit_of_work
from fate_flow.store.contract.transaction import Transaction


@dataclass(frozen=True)
class GrantChange:
    """One line of a party's grants that comes or goes."""

    party_id: str
    is_new: bool
    text: str

    def __str__(self) -> str:
        return f"{'+' if self.is_new else '-'} {self.party_id}: {self.text}"


@dataclass(frozen=True)
class GrantsInForce:
    """The grants of a party, and how often each table with a limit was used in the last 24 hours."""

    grants: Grants
    uses: Mapping[Thing, int]


class GrantFiles:
    """The use cases of `fate_flow grants`, for a process outside the server."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def in_force(self) -> dict[str, GrantsInForce]:
        """Return the grants by party id, in the order of the ids."""
        return self._context.read(self._in_force)

    def _in_force(self, tx: Transaction) -> dict[str, GrantsInForce]:
        since = self._context.clock() - DAY
        found = {}
        for party_id in sorted(tx.grantees(), key=int):
            grants = tx.grants(party_id)
            limited = [table for table, one in grants.tables.items() if one.uses_a_day is not None]
            uses = {table: tx.uses_of_table(party_id, table, since) for table in limited}
            found[party_id] = GrantsInForce(grants, uses)
        return found

    def changes(self, wanted: Mapping[str, Grants]) -> tuple[GrantChange, ...]:
        """Return what `apply` would change, and write nothing."""
        return self._context.read(lambda tx: _changes(tx, wanted))

    def apply(self, wanted: Mapping[str, Grants], by: str) -> tuple[GrantChange, ...]:
        """Give each of these parties exactly these grants, all in one transaction, and return what has changed.

        Workers that run already go on; the next one that needs what was revoked does not start."""

        def once() -> tuple[GrantChange, ...]:
            with unit_of_work(self._context) as unit:
                return self._apply(unit, wanted, by)

        return self._context.retry(once)

    def _apply(self, unit: UnitOfWork, wanted: Mapping[str, Grants], by: str) -> tuple[GrantChange, ...]:
        found = _changes(unit.tx, wanted)
        for party_id in dict.fromkeys(one.party_id for one in found):
            unit.tx.replace_grants(party_id, replace(wanted[party_id], by=by, at=unit.now))
            changes = "; ".join(str(one) for one in found if one.party_id == party_id)
            record_act(unit, f"grants of party {party_id} changed", by, text=changes)
        for one in found:
            unit.note(Event.DETECT_NOTE, text=f"grants changed by {by}: {one}")
        return found


def _changes(tx: Transaction, wanted: Mapping[str, Grants]) -> tuple[GrantChange, ...]:
    found: list[GrantChange] = []
    for party_id in sorted(wanted, key=int):
        old, new = described(tx.grants(party_id)), described(wanted[party_id])
        found += [GrantChange(party_id, False, text) for key, text in old.items() if key not in new]
        found += [GrantChange(party_id, True, text) for key, text in new.items() if key not in old]
    return tuple(found)
