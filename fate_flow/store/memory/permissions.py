"""Permissions, in memory; the counterpart of `sql/permissions.py`."""

from __future__ import annotations

from collections.abc import Iterable

from fate_flow.core.access.limits import DAY, Grants
from fate_flow.core.access.permission import Thing
from fate_flow.store.grant_limits import party_limits, party_limits_text, table_limits, table_limits_text
from fate_flow.store.memory.unit import MemoryUnitOfWork


class Permissions(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def grant(self, party_id: str, things: Iterable[Thing]) -> None:
        for thing in things:
            if (party_id, thing) not in self._rows.permissions.rows:
                self._rows.permissions.put((party_id, thing), (thing, None))

    def revoke(self, party_id: str, things: Iterable[Thing]) -> None:
        for thing in things:
            self._rows.permissions.drop((party_id, thing))

    def granted(self, party_id: str) -> frozenset[Thing]:
        return frozenset(thing for owner, thing in self._rows.permissions.rows if owner == party_id)

    def grants(self, party_id: str) -> Grants:
        found = {
            thing: text for (owner, thing), (_, text) in self._rows.permissions.rows.items() if owner == party_id
        }
        tables = {thing: table_limits(text) for thing, text in found.items() if text is not None}
        of_party = self._rows.party_limits.rows.get(party_id)
        if of_party is None:
            return Grants(frozenset(found), tables)
        text, by, at = of_party
        return Grants(frozenset(found), tables, party_limits(text), by, at)

    def replace_grants(self, party_id: str, grants: Grants) -> None:
        self.revoke(party_id, self.granted(party_id) - grants.things)
        for thing in grants.things:
            text = table_limits_text(grants.limits_of(thing))
            self._rows.permissions.put((party_id, thing), (thing, text))
        self._rows.party_limits.put(party_id, (party_limits_text(grants.limits), grants.by, grants.at))

    def grantees(self) -> tuple[str, ...]:
        owners = {owner for owner, _ in self._rows.permissions.rows}
        return tuple(sorted(owners | self._rows.party_limits.rows.keys()))

    def use_table(self, party_id: str, table: Thing, share: str, at: int, most: int) -> bool:
        uses = self._rows.table_uses
        for key, since in tuple(uses.rows.items()):
            if key[:2] == (party_id, table) and since <= at - DAY:
                uses.drop(key)
        others = sum(1 for key in uses.rows if key[:2] == (party_id, table) and key[2] != share)
        if others >= most:
            return False
        if (party_id, table, share) not in uses.rows:
            uses.put((party_id, table, share), at)
        return True

    def uses_of_table(self, party_id: str, table: Thing, since: int) -> int:
        rows = self._rows.table_uses.rows
        return sum(1 for key, at in rows.items() if key[:2] == (party_id, table) and at > since)
