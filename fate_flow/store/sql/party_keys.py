"""Keys of other parties."""

from __future__ import annotations

from typing import Any

from fate_flow.core.access.joined_party import Contact, JoinedParty
from fate_flow.core.access.key_list import MOST_REPLACED, KeyState, PartyKeys, ReplacedKeyList, SignedKeyList
from fate_flow.core.access.site import SiteKey
from fate_flow.store.database.access_models import (
    JoinedPartyRow,
    OldPartyKeyRow,
    PartyContactRow,
    PartyKeyRow,
    SiteKeyRow,
)
from fate_flow.store.database.prepared import Prepared, insert
from fate_flow.store.database.queries import hit, insert_new
from fate_flow.store.sql.unit import SqlUnitOfWork

_COLUMNS = (
    PartyKeyRow.f_party_id, PartyKeyRow.f_number, PartyKeyRow.f_root_id, PartyKeyRow.f_root_key, PartyKeyRow.f_content,
    PartyKeyRow.f_signature, PartyKeyRow.f_received_at, PartyKeyRow.f_state, PartyKeyRow.f_state_by,
    PartyKeyRow.f_state_at,
)  # fmt: skip


class KeysOfParties(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def site_key(self, party_id: str) -> SiteKey | None:
        found = _SITE_KEY.row(self._database, party_id)
        return SiteKey(party_id, *found) if found else None

    def add_site_key(self, key: SiteKey, at: int) -> bool:
        values = {"f_party_id": key.party_id, "f_key": key.pem, "f_key_id": key.key_id, "f_update_time": at}
        return insert_new(self._database, SiteKeyRow, values, _key_of(key.party_id))

    def replace_site_key(self, key: SiteKey, old_key_id: str, at: int) -> bool:
        change = SiteKeyRow.update(f_key=key.pem, f_key_id=key.key_id, f_update_time=at)
        return hit(change.where(_key_of(key.party_id) & (SiteKeyRow.f_key_id == old_key_id)))

    def drop_site_key(self, party_id: str) -> bool:
        return hit(SiteKeyRow.delete().where(_key_of(party_id)))

    def party_keys(self, party_id: str) -> PartyKeys | None:
        found = _PARTY_KEYS.row(self._database, party_id)
        return _keys_of(found) if found else None

    def all_party_keys(self) -> tuple[PartyKeys, ...]:
        return tuple(map(_keys_of, _ALL_PARTY_KEYS.rows(self._database)))

    def add_party_keys(self, keys: PartyKeys) -> bool:
        return insert_new(self._database, PartyKeyRow, _values(keys), _row_of(keys.party_id))

    def replace_party_keys(self, keys: PartyKeys, old: PartyKeys) -> bool:
        row = PartyKeyRow
        is_old = (row.f_number == old.number) & (row.f_root_id == old.root_id) & (row.f_state == old.state.value)
        if not hit(row.update(**_values(keys)).where(_row_of(keys.party_id) & is_old)):
            return False
        values = {
            "f_party_id": old.party_id, "f_root_key": old.signed.root_key, "f_content": old.signed.content,
            "f_signature": old.signed.signature, "f_received_at": old.received_at, "f_replaced_at": keys.received_at,
        }
        insert(self._database, OldPartyKeyRow, values)
        self._drop_oldest(old.party_id)
        return True

    def _drop_oldest(self, party_id: str) -> None:
        row = OldPartyKeyRow
        is_of_it = row.f_party_id == party_id
        too_many = row.select(row.f_id).where(is_of_it).order_by(row.f_id.desc()).offset(MOST_REPLACED).limit(1)
        if (newest := too_many.scalar()) is not None:
            row.delete().where(is_of_it & (row.f_id <= newest)).execute()

    def move_party_keys(self, party_id: str, old: KeyState, new: KeyState, by: str, at: int) -> bool:
        change = PartyKeyRow.update(f_state=new.value, f_state_by=by, f_state_at=at)
        return hit(change.where(_row_of(party_id) & (PartyKeyRow.f_state == old.value)))

    def replaced_key_lists(self, party_id: str) -> tuple[ReplacedKeyList, ...]:
        row = OldPartyKeyRow
        columns = (row.f_root_key, row.f_content, row.f_signature, row.f_received_at, row.f_replaced_at)
        found = row.select(*columns).where(row.f_party_id == party_id).order_by(row.f_id).tuples()
        return tuple(ReplacedKeyList(SignedKeyList(*one[:3]), *one[3:]) for one in found)

    def put_joined_party(self, party: JoinedParty) -> None:
        row = JoinedPartyRow
        values = {
            "f_address": party.address, "f_phrase": party.phrase, "f_joined_at": party.joined_at,
            "f_joined_by": party.joined_by, "f_clock_offset": party.clock_offset,
        }  # fmt: skip
        is_it = row.f_party_id == party.party_id
        if not insert_new(self._database, row, {"f_party_id": party.party_id, **values}, is_it):
            row.update(**values).where(is_it).execute()

    def drop_joined_party(self, party_id: str) -> bool:
        return hit(JoinedPartyRow.delete().where(JoinedPartyRow.f_party_id == party_id))

    def note_contact(self, contact: Contact) -> None:
        row = PartyContactRow
        values = {"f_time": contact.at, "f_tls": contact.tls, "f_key_id": contact.key_id}
        is_it = (row.f_party_id == contact.party_id) & (row.f_direction == contact.direction)
        names = {"f_party_id": contact.party_id, "f_direction": contact.direction}
        if not hit(row.update(**values).where(is_it)):
            insert_new(self._database, row, {**names, **values}, is_it)

    def contacts(self) -> tuple[Contact, ...]:
        row = PartyContactRow
        columns = (row.f_party_id, row.f_direction, row.f_time, row.f_tls, row.f_key_id)
        return tuple(Contact(*one) for one in row.select(*columns).order_by(row.f_party_id, row.f_direction).tuples())

    def joined_parties(self) -> tuple[JoinedParty, ...]:
        return tuple(JoinedParty(*one) for one in _JOINED_PARTIES.rows(self._database))


def _row_of(party_id: str) -> Any:
    return PartyKeyRow.f_party_id == party_id


def _keys_of(row: tuple[Any, ...]) -> PartyKeys:
    party_id, number, root_id, root_key, content, signature, received_at, state, by, at = row
    signed = SignedKeyList(root_key, content, signature)
    return PartyKeys(party_id, number, root_id, signed, received_at, KeyState(state), by, at)


def _values(keys: PartyKeys) -> dict[str, str | int]:
    return {
        "f_party_id": keys.party_id, "f_number": keys.number, "f_root_id": keys.root_id,
        "f_root_key": keys.signed.root_key, "f_content": keys.signed.content, "f_signature": keys.signed.signature,
        "f_received_at": keys.received_at, "f_state": keys.state.value, "f_state_by": keys.state_by,
        "f_state_at": keys.state_at,
    }  # fmt: skip


def _key_of(party_id: str) -> Any:
    return SiteKeyRow.f_party_id == party_id


def _joined_parties() -> Any:
    row = JoinedPartyRow
    columns = (row.f_party_id, row.f_address, row.f_phrase, row.f_joined_at, row.f_joined_by, row.f_clock_offset)
    has_keys = (PartyKeyRow.f_party_id == row.f_party_id) & (PartyKeyRow.f_state == KeyState.JOINED.value)
    return row.select(*columns).join(PartyKeyRow, on=has_keys).order_by(row.f_party_id)


_SITE_KEY = Prepared(
    lambda party_id: SiteKeyRow.select(SiteKeyRow.f_key_id, SiteKeyRow.f_key).where(_key_of(party_id)), 1
)
_PARTY_KEYS = Prepared(lambda party_id: PartyKeyRow.select(*_COLUMNS).where(_row_of(party_id)), 1)
_ALL_PARTY_KEYS = Prepared(lambda: PartyKeyRow.select(*_COLUMNS).order_by(PartyKeyRow.f_party_id), 0)
_JOINED_PARTIES = Prepared(_joined_parties, 0)
