"""Public keys of other parties, in memory; the counterpart of `sql/site_keys.py`."""

from __future__ import annotations

from fate_flow.core.access.site import SiteKey
from fate_flow.store.memory.unit import MemoryUnitOfWork


class SiteKeys(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def site_key(self, party_id: str) -> SiteKey | None:
        return self._rows.site_keys.rows.get(party_id)

    def add_site_key(self, key: SiteKey, at: int) -> bool:  # noqa: ARG002
        if key.party_id in self._rows.site_keys.rows:
            return False
        self._rows.site_keys.put(key.party_id, key)
        return True

    def replace_site_key(self, key: SiteKey, old_key_id: str, at: int) -> bool:  # noqa: ARG002
        old = self._rows.site_keys.rows.get(key.party_id)
        if old is None or old.key_id != old_key_id:
            return False
        self._rows.site_keys.put(key.party_id, key)
        return True

    def drop_site_key(self, party_id: str) -> bool:
        return self._rows.site_keys.drop(party_id)
