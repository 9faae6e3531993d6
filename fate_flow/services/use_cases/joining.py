"""Parties that join this one: their keys, their address and what both sides saw are stored at once."""

from __future__ import annotations

from typing import Any

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.joined_party import JoinedParty, described
from fate_flow.core.access.key_list import KeyList, SignedKeyList
from fate_flow.core.access.known_keys import known_keys
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Context
from fate_flow.services.context.recording import record_act_in
from fate_flow.services.use_cases.keys import put_key_list
from fate_flow.store.contract.transaction import Transaction


def save_joined_party(
    context: Context, party: JoinedParty, keys: KeyList, signed: SignedKeyList, root_id: str
) -> None:
    """Save a party whose keys are proved by an invitation. Raises Conflict if its keys must not take the place of those
    that are here: a party that was revoked stays so, and another root key is never taken silently."""

    def save(tx: Transaction) -> None:
        put_key_list(tx, keys, signed, root_id, True, party.joined_by, context.clock())
        tx.put_joined_party(party)
        record_act_in(context, tx, f"party {party.party_id} joined", party.joined_by, fingerprint_of(root_id))

    context.write(save, is_repeatable=True)
    text = f"party {party.party_id} at {party.address} has joined; its root key: {fingerprint_of(root_id)}"
    context.record.emit(Event.DETECT_NOTE, text=f"{text} (by {party.joined_by})")


def described_parties(context: Context) -> dict[str, dict[str, Any]]:
    """Return what operators see of each party whose key list was ever saved here, by party id."""

    def look(tx: Transaction) -> dict[str, dict[str, Any]]:
        joined, now = {one.party_id: one for one in tx.joined_parties()}, context.clock()
        contacts = tx.contacts()
        return {
            keys.party_id: described(
                keys, joined.get(keys.party_id), [one for one in contacts if one.party_id == keys.party_id], now
            )
            for keys in tx.all_party_keys()
        }

    return context.read(look)


def keys_of_parties(context: Context) -> dict[str, list[dict[str, Any]]]:
    """Return all keys, present and past, of each party whose key list was ever saved here, by party id."""
    return context.read(lambda tx: {
        keys.party_id: known_keys(keys, tx.replaced_key_lists(keys.party_id)) for keys in tx.all_party_keys()
    })
