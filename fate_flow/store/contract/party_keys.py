"""The store contract for the keys of other parties."""

from __future__ import annotations

from typing import Protocol

from fate_flow.core.access.joined_party import Contact, JoinedParty
from fate_flow.core.access.key_list import MESSAGE, KeyState, PartyKeys, ReplacedKeyList, key_id_of
from fate_flow.core.access.site import SiteKey


class KeysOfParties(Protocol):
    """Part of `contract.Transaction`. A party has a key list, or a message key that was saved alone (`SiteKey`)."""

    def site_key(self, party_id: str) -> SiteKey | None: ...

    def add_site_key(self, key: SiteKey, at: int) -> bool:
        """Add the key of a party; False if the party has one."""

    def replace_site_key(self, key: SiteKey, old_key_id: str, at: int) -> bool:
        """Replace the key `old_key_id` of a party; False if the party has no key, or another one."""

    def drop_site_key(self, party_id: str) -> bool:
        """Remove the key of a party; False if it has none."""

    def party_keys(self, party_id: str) -> PartyKeys | None:
        """Return the newest key list of a party, in whatever state the party is; None if it never had one here."""

    def all_party_keys(self) -> tuple[PartyKeys, ...]:
        """Return what `party_keys` returns, for all parties, by party id as text."""

    def add_party_keys(self, keys: PartyKeys) -> bool:
        """Add the first key list of a party; False if the party has one."""

    def replace_party_keys(self, keys: PartyKeys, old: PartyKeys) -> bool:
        """Replace the list and the state of a party, and keep the old list; False if it has moved on from `old`. Of the
        lists that were replaced, only the newest MOST_REPLACED stay."""

    def move_party_keys(self, party_id: str, old: KeyState, new: KeyState, by: str, at: int) -> bool:
        """Change the state of a party; False if it was not in the state `old`, or has no list."""

    def replaced_key_lists(self, party_id: str) -> tuple[ReplacedKeyList, ...]:
        """Return the lists that newer ones have replaced, oldest first."""

    def put_joined_party(self, party: JoinedParty) -> None:
        """Store what is known of a joined party, in place of what was known of it before."""

    def drop_joined_party(self, party_id: str) -> bool:
        """Forget what is known of a joined party besides its keys; False if nothing is."""

    def note_contact(self, contact: Contact) -> None:
        """Store the last contact with a party in one direction."""

    def contacts(self) -> tuple[Contact, ...]:
        """Return the last contacts, by party id as text and direction."""

    def joined_parties(self) -> tuple[JoinedParty, ...]:
        """Return the parties that have joined and whose keys count, by party id as text."""


def message_keys(tx: KeysOfParties, party_id: str, now: int) -> tuple[SiteKey, ...]:
    """Return the keys that may sign requests of a party: those of its key list, or the one that was saved alone."""
    found = tx.party_keys(party_id)
    if found is not None and found.state is not KeyState.REMOVED:
        return tuple(SiteKey(party_id, key_id_of(pem), pem) for pem in found.valid(MESSAGE, now))
    alone = tx.site_key(party_id)
    return (alone,) if alone is not None else ()
