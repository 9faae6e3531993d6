"""Comparing this party's log about another party with the log of that one, which a file has as a whole.

The newest head of the other log is kept. If a later file has another past for that size, the other party has signed two
pasts, and both signatures are here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import RECORD, KeyState, read_key_list
from fate_flow.core.model.errors import NotFound
from fate_flow.core.record.bundle import BadBundle, ProvedEntry, check_entry, read_bundle
from fate_flow.core.record.checkpoint import Checkpoint, read_checkpoint
from fate_flow.core.record.comparison import Finding, Side, compare, equivocations
from fate_flow.core.record.entry import Kind, log_with, read_entry
from fate_flow.core.record.log import StoredCheckpoint
from fate_flow.core.record.note import Check, NoteKey
from fate_flow.core.record.policy import Policy
from fate_flow.core.record.tree import leaf_hash, root_of
from fate_flow.store.contract.transaction import Transaction

_PAGE = 1_000


@dataclass(frozen=True)
class TheirLog:
    """The whole log of another party about this one, as it has signed it."""

    party_id: str
    head: Checkpoint
    note: str
    entries: Mapping[int, Mapping[str, Any]]
    leaves: Sequence[bytes]


def read_their_log(
    party_id: str, own: str, root: str, keys: Sequence[bytes], entries: Sequence[ProvedEntry], check: Check
) -> TheirLog:
    """Check the entries of a file, and return the log. `root`: the fingerprint of the other party's root key; `keys`:
    its record keys. Raises BadBundle if an entry is not proved, or if one is missing."""
    if not entries:
        raise BadBundle("the file has no entries")
    note = entries[0].proof.checkpoint
    origin = note.text.partition("\n")[0]
    if not origin.startswith(f"{root}/{log_with(own)}/"):
        raise BadBundle(f"the file has the log {origin}, and not that of party {party_id} ({root}) with this party")
    signer = next((key for key in keys if note.of(NoteKey(origin, key))), None)
    if signer is None:
        raise BadBundle(f"no record key of party {party_id} that is saved here has signed the log {origin}")
    policy = Policy({origin: NoteKey(origin, signer)})
    for index, one in enumerate(entries):
        if one.proof.checkpoint.text != note.text or one.proof.index != index:
            raise BadBundle(f"the file does not have the whole log: entry {index} is missing")
        check_entry(one, policy, check)
    head = read_checkpoint(note.text)
    if head.size != len(entries):
        raise BadBundle(f"the file does not have the whole log: entry {len(entries)} is missing")
    contents = {index: read_entry(one.content) for index, one in enumerate(entries)}
    return TheirLog(party_id, head, str(note), contents, [leaf_hash(one.content) for one in entries])


def reconcile_file(
    tx: Transaction, own: str, party_id: str, text: str, check: Check, raw_of: Callable[[str], bytes], at: int
) -> tuple[Finding, ...]:
    """Compare the log with a party with its log about this one, which `audit prove -p` has written there. `raw_of`
    returns the bytes of a public key in PEM.

    Raises NotFound if no key list of the party is here; BadBundle if the file does not have its whole log, signed."""
    keys = tx.party_keys(party_id)
    if keys is None or keys.state is KeyState.REMOVED:
        raise NotFound(f"no key list of party {party_id} is saved here (fate_flow party join, flow key save)")
    raw = [raw_of(key.pem) for key in read_key_list(keys.signed.content).keys if key.use == RECORD]
    theirs = read_their_log(party_id, own, fingerprint_of(keys.root_id), raw, read_bundle(text), check)
    return reconcile(tx, own, theirs, at)


def reconcile(tx: Transaction, own: str, theirs: TheirLog, at: int) -> tuple[Finding, ...]:
    """Return what both logs say about each message, and whether the other party has signed two pasts; keep its head."""
    found = equivocations(_heads(tx, theirs), theirs.party_id)
    if not found:
        _keep(tx, theirs, at)
    ours = _side(own, dict(_own_entries(tx, log_with(theirs.party_id))))
    return (*found, *compare(ours, _side(theirs.party_id, theirs.entries)))


def _side(party_id: str, entries: Mapping[int, Mapping[str, Any]]) -> Side:
    """Return the log of a party. One of a later epoch says in its first entry that what was before may be lost."""
    return Side(party_id, entries, any(one["kind"] == Kind.EPOCH for one in entries.values()))


def _heads(tx: Transaction, theirs: TheirLog) -> list[Checkpoint]:
    """Return the head that is kept of this log, and what the file has for its size."""
    kept = tx.witnessed(theirs.head.origin)
    if kept is None:
        return []
    head = read_checkpoint(kept.note.partition("\n\n")[0] + "\n")
    if head.size > theirs.head.size:
        return []                        # an older state of the log; whether it is the same past cannot be seen
    return [head, Checkpoint(head.origin, head.size, root_of(theirs.leaves[: head.size]))]


def _keep(tx: Transaction, theirs: TheirLog, at: int) -> None:
    kept = tx.witnessed(theirs.head.origin)
    old = kept.size if kept else 0
    if theirs.head.size > old:
        tx.put_witnessed(theirs.head.origin, old, StoredCheckpoint(0, theirs.head.size, theirs.note, at))


def _own_entries(tx: Transaction, log: str) -> list[tuple[int, Mapping[str, Any]]]:
    head = tx.record_head(log)
    found: list[tuple[int, Mapping[str, Any]]] = []
    while len(found) < head.size:
        page = tx.sealed_entries(log, head.epoch, len(found), _PAGE)
        if not page:
            break
        found += [(one.index, read_entry(one.content)) for one in page]
    return found
