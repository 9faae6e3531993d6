"""The public keys of other parties, which clients of this party save and delete."""

from __future__ import annotations

from fate_flow.core.access.site import SiteKey
from fate_flow.core.model.errors import Conflict, NotFound
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Context
from fate_flow.store.contract.transaction import Transaction


def save_key(context: Context, key: SiteKey, replaces: str) -> bool:
    """Save the key that the requests of a party are checked with from now on; return whether it had no key before.

    `replaces` is the id of the saved key if there is another one; empty if there is none. Raises Conflict if that is
    not so."""

    def save(tx: Transaction) -> SiteKey | None:
        old = tx.site_key(key.party_id)
        if old is not None and old.key_id == key.key_id:
            return old
        if (old.key_id if old else "") != replaces:
            raise Conflict(_objection(key.party_id, old, replaces))
        at = context.clock()
        if not (tx.replace_site_key(key, old.key_id, at) if old else tx.add_site_key(key, at)):
            raise Conflict(f"party_id: another key of party {key.party_id} was saved just now: look at it first")
        return old

    before = context.write(save, is_repeatable=True)
    if before is None or before.key_id != key.key_id:
        replaced = f", instead of {before.key_id}" if before else ""
        context.record.emit(Event.DETECT_NOTE, text=f"key {key.key_id} of party {key.party_id} was saved{replaced}")
    return before is None


def delete_key(context: Context, party_id: str) -> None:
    """Delete the key of a party: its signatures are not accepted from now on. Raises NotFound."""

    def delete(tx: Transaction) -> SiteKey:
        found = tx.site_key(party_id)
        if found is None or not tx.drop_site_key(party_id):
            raise NotFound(f"party_id: no public key of party {party_id} is saved here (flow key save)")
        return found

    found = context.write(delete)
    context.record.emit(Event.DETECT_NOTE, text=f"key {found.key_id} of party {party_id} was deleted")


def _objection(party_id: str, old: SiteKey | None, replaces: str) -> str:
    if old is None:
        return f"replaces: no public key of party {party_id} is saved here, so there is none to replace"
    meant = f", not {replaces}" if replaces else ""
    return (
        f"party_id: party {party_id} has the key {old.key_id} here{meant}; to replace it, put \"replaces\": with "
        "that id beside party_id and key"
    )
