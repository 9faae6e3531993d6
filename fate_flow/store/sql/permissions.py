"""Grants: what jobs of other parties may use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fate_flow.core.access.permission import Kind, Thing
from fate_flow.store.database.access_models import PermissionRow
from fate_flow.store.database.queries import hit, insert_new
from fate_flow.store.sql.unit import SqlUnitOfWork


class Permissions(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def grant(self, party_id: str, things: Iterable[Thing]) -> None:
        for thing in things:
            values = {
                "f_party_id": party_id, "f_kind": thing.kind.value, "f_namespace": thing.namespace,
                "f_name": thing.name,
            }  # fmt: skip
            insert_new(self._database, PermissionRow, values, _permission_is(party_id, thing))

    def revoke(self, party_id: str, things: Iterable[Thing]) -> None:
        for thing in things:
            hit(PermissionRow.delete().where(_permission_is(party_id, thing)))

    def granted(self, party_id: str) -> frozenset[Thing]:
        row = PermissionRow
        found = row.select(row.f_kind, row.f_name, row.f_namespace).where(row.f_party_id == party_id).tuples()
        return frozenset(Thing(Kind(kind), name, namespace) for kind, name, namespace in found)


def _permission_is(party_id: str, thing: Thing) -> Any:
    row = PermissionRow
    is_thing = (row.f_kind == thing.kind.value) & (row.f_namespace == thing.namespace) & (row.f_name == thing.name)
    return (row.f_party_id == party_id) & is_thing
