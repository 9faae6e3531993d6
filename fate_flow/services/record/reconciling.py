"""Comparing this party's log about another party with the log of that one, which a file has as a whole.

A log that has begun anew has several epochs, each with a head of its own. The newest head of each is kept. If a later
file has another past for that size, the other party has signed two pasts, and both signatures are here. So it has if a
later epoch says of an earlier one, under its signature, what that one is not. A file that leaves out an epoch with a
kept head is refused, unless a later epoch says that what the head covers was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import RECORD, KeyState, read_key_list
from fate_flow.core.model.errors import NotFound
from fate_flow.core.record.bundle import BadBundle, ProvedEntry, check_entry, read_bundle
from fate_flow.core.record.checkpoint import Checkpoint, read_checkpoint, read_count
from fate_flow.core.record.comparison import Finding, Place, Side, compare, equivocations
from fate_flow.core.record.entry import log_with, read_entry
from fate_flow.core.record.log import StoredCheckpoint
from fate_flow.core.record.note import BadNote, Check, NoteKey, read_note
from fate_flow.core.record.policy import Policy
from fate_flow.core.record.tree import leaf_hash, root_of
from fate_flow.core.text.phrases import counted
from fate_flow.services.record.epochs import Ended, ended_in
from fate_flow.services.record.reading import sealed_in
from fate_flow.store.contract.transaction import Transaction


@dataclass(frozen=True)
class TheirEpoch:
    """One epoch of the log of another party about this one, as far as that party has signed it."""

    number: int
    head: Checkpoint
    note: str
    entries: Sequence[Mapping[str, Any]]
    leaves: Sequence[bytes]


@dataclass(frozen=True)
class TheirLog:
    """The log of another party about this one, as it has signed it: its epochs, the oldest first."""

    party_id: str
    epochs: Sequence[TheirEpoch]

    @property
    def entries(self) -> Mapping[Place, Mapping[str, Any]]:
        return {(one.number, index): entry for one in self.epochs for index, entry in enumerate(one.entries)}


def read_their_log(
    party_id: str, own: str, root: str, keys: Sequence[bytes], entries: Sequence[ProvedEntry], check: Check
) -> TheirLog:
    """Check the entries of a file, and return the log. `root`: the fingerprint of the other party's root key; `keys`:
    its record keys. Raises BadBundle if an entry is not proved, or if one is missing."""
    if not entries:
        raise BadBundle("the file has no entries")
    beginning, epochs = f"{root}/{log_with(own)}/", list[TheirEpoch]()
    for origin, group in groupby(entries, _origin_of):
        if not origin.startswith(beginning):
            raise BadBundle(
                f"the file has the log {origin}, and not that of party {party_id} ({root}) with this party"
            )  # fmt: skip
        try:
            number = read_count(origin.removeprefix(beginning))
        except BadNote as error:
            raise BadBundle(f"the log {origin}: has no number of an epoch: {error}") from error
        epochs.append(_read_epoch(party_id, number, keys, list(group), check))
    for before, after in pairwise(epochs):
        if after.number <= before.number:
            raise BadBundle(f"the file does not have the log in order: epoch {after.number} follows {before.number}")
    return TheirLog(party_id, epochs)


def _origin_of(one: ProvedEntry) -> str:
    return one.proof.checkpoint.text.partition("\n")[0]


def _read_epoch(
    party_id: str, number: int, keys: Sequence[bytes], entries: Sequence[ProvedEntry], check: Check
) -> TheirEpoch:
    note, origin = entries[0].proof.checkpoint, _origin_of(entries[0])
    signer = next((key for key in keys if note.of(NoteKey(origin, key))), None)
    if signer is None:
        raise BadBundle(f"no record key of party {party_id} that is saved here has signed the log {origin}")
    policy = Policy({origin: NoteKey(origin, signer)})
    whole = "the file does not have the whole log" + (f" in epoch {number}" if number > 1 else "")
    for index, one in enumerate(entries):
        if one.proof.checkpoint.text != note.text or one.proof.index != index:
            raise BadBundle(f"{whole}: entry {index} is missing")
        check_entry(one, policy, check)
    head = read_checkpoint(note.text)
    if head.size != len(entries):
        raise BadBundle(f"{whole}: entry {len(entries)} is missing")
    contents = [read_entry(one.content) for one in entries]
    return TheirEpoch(number, head, str(note), contents, [leaf_hash(one.content) for one in entries])


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
    """Return what both logs say about each message, and whether the other party has signed two pasts; keep its heads.

    Older epochs of both logs count, as far as they are there. Raises BadBundle if the other log has no epoch of which a
    head is kept."""
    found = equivocations(_heads(tx, theirs), theirs.party_id)
    if not found:
        _check_epochs(tx, theirs)
        for one in theirs.epochs:
            _keep(tx, one, at)
    ours = _side(own, _own_entries(tx, log_with(theirs.party_id)))
    return (*found, *compare(ours, _side(theirs.party_id, theirs.entries)))


def _side(party_id: str, entries: Mapping[Place, Mapping[str, Any]]) -> Side:
    return Side(party_id, entries)


def _heads(tx: Transaction, theirs: TheirLog) -> Iterator[Checkpoint]:
    """Yield the heads that are kept of this log, those that its later epochs say that earlier ones had, and what the
    file has for each of their sizes."""
    for one in theirs.epochs:
        kept = tx.witnessed(one.head.origin)
        said = [read_checkpoint(kept.note.partition("\n\n")[0] + "\n")] if kept else []
        said += [Checkpoint(one.head.origin, *ended) for ended in _said_to_have_ended(theirs, one.number)]
        # A larger head is of a newer state of the log; whether it has the same past cannot be seen.
        for head in (head for head in said if head.size <= one.head.size):
            yield head
            yield Checkpoint(head.origin, head.size, root_of(one.leaves[: head.size]))


def _said_to_have_ended(theirs: TheirLog, number: int) -> Iterator[tuple[int, bytes]]:
    """Yield the size and root that later epochs say that this one has ended with."""
    for ended in _ended_after(theirs, number):
        if ended.epoch == number:
            yield ended.size, ended.root


def _ended_after(theirs: TheirLog, number: int) -> Iterator[Ended]:
    """Yield what the epochs after this one say of those before them."""
    for later in theirs.epochs:
        if later.number > number and (ended := ended_in(later.entries[0])):
            yield ended


def _check_epochs(tx: Transaction, theirs: TheirLog) -> None:
    """Raise BadBundle if an epoch is missing of which a head is kept, and which no later epoch calls lost."""
    numbers = {one.number for one in theirs.epochs}
    beginning = theirs.epochs[0].head.origin.rpartition("/")[0] + "/"
    for note in tx.witnessed_below(beginning):
        kept = read_checkpoint(read_note(note).text)
        number = read_count(kept.origin.removeprefix(beginning))
        if kept.size and number not in numbers and not _is_called_lost(theirs, number, kept.size):
            raise BadBundle(
                f"the file does not have the whole log: epoch {number} is missing, and party {theirs.party_id} has "
                f"signed {counted(kept.size, 'entry', 'entries')} of it, as a head that is kept here says"
            )


def _is_called_lost(theirs: TheirLog, number: int, size: int) -> bool:
    """Return whether a later epoch says that it has followed less than this size of this epoch, as after a backup of
    an older state was restored."""
    return any((ended.epoch, ended.size) < (number, size) for ended in _ended_after(theirs, number))


def _keep(tx: Transaction, theirs: TheirEpoch, at: int) -> None:
    kept = tx.witnessed(theirs.head.origin)
    old = kept.size if kept else 0
    if theirs.head.size > old:
        tx.put_witnessed(theirs.head.origin, old, StoredCheckpoint(0, theirs.head.size, theirs.note, at))


def _own_entries(tx: Transaction, log: str) -> dict[Place, Mapping[str, Any]]:
    return {
        (one.epoch, one.index): read_entry(one.content)
        for epoch in tx.record_epochs(log) for one in sealed_in(tx, log, epoch)
    }  # fmt: skip
