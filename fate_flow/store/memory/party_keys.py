"""Keys of other parties, in memory; the counterpart of `sql/party_keys.py`."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.access.joined_party import DIRECTIONS, Contact, JoinedParty
from fate_flow.core.access.key_list import MOST_REPLACED, KeyState, PartyKeys, ReplacedKeyList
from fate_flow.core.access.site import SiteKey
from fate_flow.store.memory.tables import refuse
from fate_flow.store.memory.unit import MemoryUnitOfWork


class KeysOfParties(MemoryUnitOfWork):
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

    def party_keys(self, party_id: str) -> PartyKeys | None:
        return self._rows.party_keys.rows.get(party_id)

    def all_party_keys(self) -> tuple[PartyKeys, ...]:
        rows = self._rows.party_keys.rows
        return tuple(rows[party_id] for party_id in sorted(rows))

    def add_party_keys(self, keys: PartyKeys) -> bool:
        if keys.party_id in self._rows.party_keys.rows:
            return False
        self._rows.party_keys.put(keys.party_id, keys)
        return True

    def replace_party_keys(self, keys: PartyKeys, old: PartyKeys) -> bool:
        found = self._rows.party_keys.rows.get(keys.party_id)
        if found is None or (found.number, found.root_id, found.state) != (old.number, old.root_id, old.state):
            return False
        self._rows.party_keys.put(keys.party_id, keys)
        replaced = ReplacedKeyList(old.signed, old.received_at, keys.received_at)
        self._rows.old_party_keys.put(next(self._rows.key_list_numbers), (old.party_id, replaced))
        of_it = sorted(number for number, (owner, _) in self._rows.old_party_keys.rows.items() if owner == old.party_id)
        for number in of_it[:-MOST_REPLACED]:
            self._rows.old_party_keys.drop(number)
        return True

    def move_party_keys(self, party_id: str, old: KeyState, new: KeyState, by: str, at: int) -> bool:
        found = self._rows.party_keys.rows.get(party_id)
        if found is None or found.state is not old:
            return False
        self._rows.party_keys.put(party_id, replace(found, state=new, state_by=by, state_at=at))
        return True

    def replaced_key_lists(self, party_id: str) -> tuple[ReplacedKeyList, ...]:
        found = sorted(self._rows.old_party_keys.rows.items())
        return tuple(replaced for _, (owner, replaced) in found if owner == party_id)

    def put_joined_party(self, party: JoinedParty) -> None:
        self._rows.joined_parties.put(party.party_id, party)

    def drop_joined_party(self, party_id: str) -> bool:
        return self._rows.joined_parties.drop(party_id)

    def note_contact(self, contact: Contact) -> None:
        refuse("ck_party_contact_direction", contact.direction not in DIRECTIONS)
        self._rows.contacts.put((contact.party_id, contact.direction), contact)

    def contacts(self) -> tuple[Contact, ...]:
        return tuple(one for _, one in sorted(self._rows.contacts.rows.items()))

    def joined_parties(self) -> tuple[JoinedParty, ...]:
        keys, rows = self._rows.party_keys.rows, self._rows.joined_parties.rows
        return tuple(
            rows[one] for one in sorted(rows) if one in keys and keys[one].state is KeyState.JOINED
        )
