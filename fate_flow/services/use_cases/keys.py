"""The public keys of other parties, which clients of this party save and delete."""

from __future__ import annotations

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import KeyList, KeyState, PartyKeys, SignedKeyList, follows
from fate_flow.core.access.site import SiteKey
from fate_flow.core.model.errors import Conflict, NotFound
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Context
from fate_flow.services.context.recording import record_act_in
from fate_flow.services.use_cases.who_asked import with_client
from fate_flow.store.contract.transaction import Transaction

_ANY = "a client"
"""Stands for the client where requests need not be signed."""


def save_key(context: Context, key: SiteKey, replaces: str, by: str = "") -> bool:
    """Save the key that the requests of a party are checked with from now on; return whether it had no key before.

    `replaces` is the id of the saved key if there is another one; empty if there is none. Raises Conflict if that is
    not so."""

    def save(tx: Transaction) -> SiteKey | None:
        keys = tx.party_keys(key.party_id)
        if keys is not None and keys.state is not KeyState.REMOVED:
            raise Conflict(
                f"party_id: party {key.party_id} has a key list here (number {keys.number}, {keys.state.value}): save "
                "its newest list instead"
            )
        old = tx.site_key(key.party_id)
        if old is not None and old.key_id == key.key_id:
            return old
        if (old.key_id if old else "") != replaces:
            raise Conflict(_objection(key.party_id, old, replaces))
        at = context.clock()
        if not (tx.replace_site_key(key, old.key_id, at) if old else tx.add_site_key(key, at)):
            raise Conflict(f"party_id: another key of party {key.party_id} was saved just now: look at it first")
        record_act_in(context, tx, f"key of party {key.party_id} saved", by, key.key_id)
        return old

    before = context.write(save, is_repeatable=True)
    if before is None or before.key_id != key.key_id:
        replaced = f", instead of {before.key_id}" if before else ""
        _note(context, f"key {key.key_id} of party {key.party_id} was saved{replaced}", by)
    return before is None


def save_key_list(
    context: Context, new: KeyList, signed: SignedKeyList, root_id: str, is_compared: bool, by: str
) -> bool:  # fmt: skip
    """Save the key list of a party, whose signature holds; return whether the party had none here before.

    `is_compared`: whether `by` has compared the root key's fingerprint with the party. Raises Conflict for a list that
    must not take the place of the saved one."""

    def save(tx: Transaction) -> PartyKeys | None:
        old = put_key_list(tx, new, signed, root_id, is_compared, by or _ANY, context.clock())
        if old is None or old.signed != signed:
            what = f"key list {new.number} of party {new.party_id} saved"
            record_act_in(context, tx, what, by, fingerprint_of(root_id))
        return old

    before = context.write(save, is_repeatable=True)
    if before is None or before.signed != signed:
        text = f"key list {new.number} of party {new.party_id} was saved; its root key: {fingerprint_of(root_id)}"
        _note(context, text, by)
    return before is None


def put_key_list(
    tx: Transaction, new: KeyList, signed: SignedKeyList, root_id: str, is_compared: bool, by: str, at: int
) -> PartyKeys | None:  # fmt: skip
    """Put a key list in its place; return what was stored of the party before. Raises Conflict."""
    old = tx.party_keys(new.party_id)
    if not follows(old, new, signed, is_compared):
        return old
    has_joined = old is not None and old.state is KeyState.JOINED
    state_by, state_at = (old.state_by, old.state_at) if old and has_joined else (by, at)
    keys = PartyKeys(new.party_id, new.number, root_id, signed, at, KeyState.JOINED, state_by, state_at)
    if not (tx.replace_party_keys(keys, old) if old else tx.add_party_keys(keys)):
        raise Conflict(f"party_id: another key list of party {new.party_id} was saved just now: look at it first")
    tx.drop_site_key(new.party_id)           # the list has the keys from now on
    return old


def delete_key(context: Context, party_id: str, by: str) -> None:
    """Delete the keys of a party: none of them is accepted from now on. Raises NotFound."""

    def delete(tx: Transaction) -> str:
        keys, key = tx.party_keys(party_id), tx.site_key(party_id)
        record_act_in(context, tx, f"keys of party {party_id} deleted", by, "")
        if key is not None and tx.drop_site_key(party_id):
            return f"key {key.key_id} of party {party_id} was deleted"
        if keys is None or keys.state is KeyState.REMOVED:
            raise NotFound(f"party_id: no public key of party {party_id} is saved here (flow key save)")
        if not tx.move_party_keys(party_id, keys.state, KeyState.REMOVED, by or _ANY, context.clock()):
            raise Conflict(f"party_id: the key list of party {party_id} was changed just now: look at it first")
        tx.drop_joined_party(party_id)
        return f"key list {keys.number} of party {party_id} was deleted"

    _note(context, context.write(delete), by)


def _note(context: Context, text: str, by: str) -> None:
    context.record.emit(Event.DETECT_NOTE, text=with_client(text, by))


def _objection(party_id: str, old: SiteKey | None, replaces: str) -> str:
    if old is None:
        return f"replaces: no public key of party {party_id} is saved here, so there is none to replace"
    meant = f", not {replaces}" if replaces else ""
    return (
        f"party_id: party {party_id} has the key {old.key_id} here{meant}; to replace it, put \"replaces\": with "
        "that id beside party_id and key"
    )
