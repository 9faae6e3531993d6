"""Public keys of other parties."""

from __future__ import annotations

from typing import Any

from fate_flow.core.access.site import SiteKey
from fate_flow.store.database.models import SiteKeyRow
from fate_flow.store.database.queries import hit, insert_new
from fate_flow.store.sql.unit import SqlUnitOfWork


class SiteKeys(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def site_key(self, party_id: str) -> SiteKey | None:
        row = SiteKeyRow
        found = row.select(row.f_key_id, row.f_key).where(_key_of(party_id)).tuples().first()
        return SiteKey(party_id, *found) if found else None

    def add_site_key(self, key: SiteKey, at: int) -> bool:
        values = {"f_party_id": key.party_id, "f_key": key.pem, "f_key_id": key.key_id, "f_update_time": at}
        return insert_new(self._database, SiteKeyRow, values, _key_of(key.party_id))

    def replace_site_key(self, key: SiteKey, old_key_id: str, at: int) -> bool:
        change = SiteKeyRow.update(f_key=key.pem, f_key_id=key.key_id, f_update_time=at)
        return hit(change.where(_key_of(key.party_id) & (SiteKeyRow.f_key_id == old_key_id)))

    def drop_site_key(self, party_id: str) -> bool:
        return hit(SiteKeyRow.delete().where(_key_of(party_id)))


def _key_of(party_id: str) -> Any:
    return SiteKeyRow.f_party_id == party_id
