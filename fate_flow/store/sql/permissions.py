"""Grants: what jobs of other parties may use, and how far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fate_flow.core.access.limits import DAY, Grants
from fate_flow.core.access.permission import Kind, Thing
from fate_flow.store.database.access_models import PartyLimitsRow, PermissionRow, TableUseRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import hit, insert_new
from fate_flow.store.grant_limits import party_limits, party_limits_text, table_limits, table_limits_text
from fate_flow.store.sql.unit import SqlUnitOfWork


class Permissions(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def grant(self, party_id: str, things: Iterable[Thing]) -> None:
        for thing in things:
            values = {
                "f_party_id": party_id, "f_kind": _kind_in_row(thing), "f_namespace": thing.namespace,
                "f_name": thing.name,
            }  # fmt: skip
            insert_new(self._database, PermissionRow, values, _permission_is(party_id, thing))

    def revoke(self, party_id: str, things: Iterable[Thing]) -> None:
        for thing in things:
            hit(PermissionRow.delete().where(_permission_is(party_id, thing)))

    def granted(self, party_id: str) -> frozenset[Thing]:
        return frozenset(self._granted(party_id))

    def _granted(self, party_id: str) -> dict[Thing, str | None]:
        """Return each granted thing with the text of its limits."""
        found = _GRANTED.rows(self._database, party_id)
        return {Thing(_kind_of_row(kind, namespace), name, namespace): text for kind, name, namespace, text in found}

    def grants(self, party_id: str) -> Grants:
        found = self._granted(party_id)
        tables = {thing: table_limits(text) for thing, text in found.items() if text is not None}
        of_party = _LIMITS.row(self._database, party_id)
        if of_party is None:
            return Grants(frozenset(found), tables)
        text, by, at = of_party
        return Grants(frozenset(found), tables, party_limits(text), by, at)

    def replace_grants(self, party_id: str, grants: Grants) -> None:
        self.revoke(party_id, self.granted(party_id) - grants.things)
        self.grant(party_id, sorted(grants.things, key=str))
        for thing in grants.things:
            text = table_limits_text(grants.limits_of(thing))
            hit(PermissionRow.update(f_limits=text).where(_permission_is(party_id, thing)))
        values = {"f_limits": party_limits_text(grants.limits), "f_by": grants.by, "f_time": grants.at}
        is_it = PartyLimitsRow.f_party_id == party_id
        if not insert_new(self._database, PartyLimitsRow, {"f_party_id": party_id, **values}, is_it):
            hit(PartyLimitsRow.update(**values).where(is_it))

    def grantees(self) -> tuple[str, ...]:
        models = (PermissionRow, PartyLimitsRow)
        return tuple(sorted({one for row in models for (one,) in row.select(row.f_party_id).distinct().tuples()}))

    def use_table(self, party_id: str, table: Thing, share: str, at: int, most: int) -> bool:
        # The row of the grant is locked first, so that two processes cannot both take the last use.
        hit(PermissionRow.update(f_name=PermissionRow.f_name).where(_permission_is(party_id, table)))
        row, uses = TableUseRow, _uses_of(party_id, table)
        hit(row.delete().where(uses & (row.f_time <= at - DAY)))
        if row.select().where(uses & (row.f_share != share)).count() >= most:
            return False
        values = {
            "f_party_id": party_id, "f_namespace": table.namespace, "f_name": table.name, "f_share": share,
            "f_time": at,
        }  # fmt: skip
        insert_new(self._database, row, values, uses & (row.f_share == share))
        return True

    def uses_of_table(self, party_id: str, table: Thing, since: int) -> int:
        found: int = TableUseRow.select().where(_uses_of(party_id, table) & (TableUseRow.f_time > since)).count()
        return found


def _kind_in_row(thing: Thing) -> str:
    """Return the kind that is stored. Streams of a component are stored as a component with a direction, because the
    table that users have takes no other kinds."""
    kind = Kind.COMPONENT if thing.kind is Kind.STREAM else thing.kind
    return str(kind.value)


def _kind_of_row(kind: str, namespace: str) -> Kind:
    return Kind.STREAM if kind == Kind.COMPONENT.value and namespace else Kind(kind)


def _permission_is(party_id: str, thing: Thing) -> Any:
    row = PermissionRow
    is_thing = (row.f_kind == _kind_in_row(thing)) & (row.f_namespace == thing.namespace) & (row.f_name == thing.name)
    return (row.f_party_id == party_id) & is_thing


def _uses_of(party_id: str, table: Thing) -> Any:
    row = TableUseRow
    return (row.f_party_id == party_id) & (row.f_namespace == table.namespace) & (row.f_name == table.name)


def _granted(party_id: str) -> Any:
    row = PermissionRow
    return row.select(row.f_kind, row.f_name, row.f_namespace, row.f_limits).where(row.f_party_id == party_id)


def _limits(party_id: str) -> Any:
    row = PartyLimitsRow
    return row.select(row.f_limits, row.f_by, row.f_time).where(row.f_party_id == party_id)


_GRANTED, _LIMITS = Prepared(_granted, 1), Prepared(_limits, 1)
