"""The store contract for the public keys of other parties."""

from __future__ import annotations

from typing import Protocol

from fate_flow.core.access.site import SiteKey


class SiteKeys(Protocol):
    """Part of `contract.Transaction`."""

    def site_key(self, party_id: str) -> SiteKey | None: ...

    def add_site_key(self, key: SiteKey, at: int) -> bool:
        """Add the key of a party; False if the party has one."""

    def replace_site_key(self, key: SiteKey, old_key_id: str, at: int) -> bool:
        """Replace the key `old_key_id` of a party; False if the party has no key, or another one."""

    def drop_site_key(self, party_id: str) -> bool:
        """Remove the key of a party; False if it has none."""
