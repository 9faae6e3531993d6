"""Permissions, in memory; the counterpart of `sql/permissions.py`."""

from __future__ import annotations

from collections.abc import Iterable

from fate_flow.core.access.permission import Thing
from fate_flow.store.memory.unit import MemoryUnitOfWork


class Permissions(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def grant(self, party_id: str, things: Iterable[Thing]) -> None:
        for thing in things:
            self._rows.permissions.put((party_id, thing), thing)

    def revoke(self, party_id: str, things: Iterable[Thing]) -> None:
        for thing in things:
            self._rows.permissions.drop((party_id, thing))

    def granted(self, party_id: str) -> frozenset[Thing]:
        return frozenset(thing for owner, thing in self._rows.permissions.rows if owner == party_id)
