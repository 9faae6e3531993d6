"""Cosignatures of peers: by which keys they are made, and how one is kept beside a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import WITNESS, ed25519_in
from fate_flow.core.access.replaced_keys import root_ids, signing_keys
from fate_flow.core.record.checkpoint import cosigned_at
from fate_flow.core.record.note import COSIGNATURE, BadNote, Check, Note, NoteKey, read_signatures
from fate_flow.core.record.witness import witness_name
from fate_flow.store.contract.transaction import Transaction

LOG = logging.getLogger(__name__)


def with_cosignature(note: Note, text: str, keys: Sequence[NoteKey], check: Check) -> Note | None:
    """Return the note with what a witness has answered, instead of what it said before; None if the answer has no
    cosignature of these keys that holds."""
    try:
        given = read_signatures(text)
        for key in keys:
            mine = tuple(one for one in given if (one.name, one.key_id) == (key.name, key.key_id))
            if mine and cosigned_at(Note(note.text, mine), key, check) is not None:
                others = tuple(one for one in note.signatures if (one.name, one.key_id) != (key.name, key.key_id))
                return Note(note.text, (*others, *mine))
    except BadNote as error:
        LOG.warning("a cosignature is not kept: %s", error)
    return None


def keys_of_witness(tx: Transaction, party_id: str) -> Sequence[NoteKey]:
    """Return the keys by which this peer cosigns."""
    keys = tx.party_keys(party_id)
    return _note_keys(keys.root_ids(), keys.listed(WITNESS)) if keys is not None else ()


def witness_keys(tx: Transaction) -> Mapping[str, Sequence[NoteKey]]:
    """Return the keys by which peers cosign or have cosigned, as their key lists say, by party id."""
    found = {}
    for keys in tx.all_party_keys():
        replaced = tx.replaced_key_lists(keys.party_id)
        found[keys.party_id] = _note_keys(root_ids(keys, replaced), signing_keys(keys, replaced, WITNESS))
    return found


def _note_keys(roots: Sequence[str], pems: Sequence[str]) -> Sequence[NoteKey]:
    raw = [ed25519_in(pem) for pem in pems]
    return [
        NoteKey(witness_name(fingerprint_of(root)), one, COSIGNATURE) for root in roots for one in raw
        if one is not None
    ]  # fmt: skip
