"""Comparing this party's log about another party with the log of that one: a file has it as a whole, or the other party
hands it out.

A log that has begun anew has several epochs, each with a head of its own. The newest head of each is kept. If a later
file has another past for that size, the other party has signed two pasts, and both signatures are here. So it has if a
later epoch says of an earlier one, under its signature, what that one is not. A file that leaves out an epoch with a
kept head is refused, unless a later epoch says that what the head covers was lost; also if it has that epoch under
another root key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import RECORD, KeyState
from fate_flow.core.access.replaced_keys import root_ids, signing_keys
from fate_flow.core.model.errors import NotFound
from fate_flow.core.record.checkpoint import Checkpoint, checked_checkpoint, read_checkpoint
from fate_flow.core.record.comparison import ALL, About, Finding, Place, Side, compare, equivocations
from fate_flow.core.record.entry import BadEntry, log_with, read_entry
from fate_flow.core.record.log import StoredCheckpoint
from fate_flow.core.record.note import BadNote, Check, Note, NoteKey, read_note
from fate_flow.core.record.offline.bundle import BadBundle
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.core.record.proof import ProvedEntry
from fate_flow.core.record.tree import consistency_proof, hash_by, leaf_hash, root_of
from fate_flow.core.text.phrases import counted
from fate_flow.services.record.checkpoints import place_in
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
    _roots: dict[int, bytes] = field(default_factory=dict, compare=False, repr=False)

    def root_at(self, size: int) -> bytes:
        """Return the root of its first entries. It is computed once for each size."""
        if size not in self._roots:
            self._roots[size] = root_of(self.leaves[:size])
        return self._roots[size]

    def shown_at(self, size: int) -> tuple[bytes, ...]:
        """Return what shows a third person the root of its first entries: that root and the proof that the signed head
        goes on from it; nothing for the size of that head."""
        if size == self.head.size:
            return ()
        return (self.root_at(size), *consistency_proof(size, self.head.size, hash_by(self.leaves)))


@dataclass(frozen=True)
class TheirLog:
    """The log of another party about this one, as it has signed it: its epochs, the oldest first. `names`: with which
    its origins may begin, one for each root key by which that party is known, the present one first."""

    party_id: str
    epochs: Sequence[TheirEpoch]
    names: Sequence[str]

    @property
    def entries(self) -> Mapping[Place, Mapping[str, Any]]:
        return {(one.number, index): entry for one in self.epochs for index, entry in enumerate(one.entries)}


@dataclass(frozen=True)
class WholeEpoch:
    """All entries of an epoch, and the checkpoint that covers them. Nobody has checked anything of it yet."""

    note: Note
    contents: Sequence[bytes]

    @property
    def origin(self) -> str:
        return self.note.text.partition("\n")[0]


@dataclass(frozen=True)
class LogReader:
    """Reads the log of another party about this one. `roots`: the fingerprints of its root keys, the present one first;
    `keys`: its record keys; `held`: texts of its heads that are kept here, which a key has signed that counted then."""

    party_id: str
    own: str
    roots: Sequence[str]
    keys: Sequence[bytes]
    check: Check
    held: AbstractSet[str] = frozenset()

    @classmethod
    def of(
        cls, tx: Transaction, own: str, party_id: str, check: Check, raw_of: Callable[[str], bytes]
    ) -> LogReader:  # fmt: skip
        """`raw_of` returns the bytes of a public key in PEM. Raises NotFound if no key list of the party is here."""
        keys = tx.party_keys(party_id)
        if keys is None or keys.state is KeyState.REMOVED:
            raise NotFound(f"no key list of party {party_id} is saved here (fate_flow party join, flow key save)")
        replaced = tx.replaced_key_lists(party_id)
        raw = [raw_of(pem) for pem in signing_keys(keys, replaced, RECORD)]
        roots = [fingerprint_of(one) for one in root_ids(keys, replaced)]
        held = frozenset(read_note(note).text for note in _kept(tx, _names(roots, own)))
        return cls(party_id, own, roots, raw, check, held)

    def read(self, epochs: Iterable[WholeEpoch]) -> TheirLog:
        """Check the signature of each epoch, and that it covers these entries. Raises BadBundle."""
        found = [self._epoch(one) for one in epochs]
        if not found:
            raise BadBundle("the log has no entries")
        for before, after in pairwise(found):
            if after.number <= before.number:
                raise BadBundle(f"the log is not in order: epoch {after.number} follows {before.number}")
        return TheirLog(self.party_id, found, _names(self.roots, self.own))

    def _epoch(self, one: WholeEpoch) -> TheirEpoch:
        number, origin = self._number(one.origin), one.origin
        leaves = [leaf_hash(content) for content in one.contents]
        try:
            head = self._head(one)
            entries = [read_entry(content) for content in one.contents]
        except (BadNote, BadEntry) as error:
            raise BadBundle(f"the log {origin}: {error}") from error
        if not head.size:
            raise BadBundle(f"the log {origin} has no entries")
        if len(leaves) < head.size:
            where = f" in epoch {number}" if number > 1 else ""
            raise BadBundle(f"this is not the whole log{where}: entry {len(leaves)} is missing")
        if len(leaves) > head.size or root_of(leaves) != head.root:
            raise BadBundle(f"the log {origin}: its {head.size} entries are not those that were signed")
        return TheirEpoch(number, head, str(one.note), entries, leaves)

    def _head(self, one: WholeEpoch) -> Checkpoint:
        key = next((key for key in self.keys if one.note.of(NoteKey(one.origin, key))), None)
        if key is not None:
            return checked_checkpoint(one.note, NoteKey(one.origin, key), self.check)
        if one.note.text in self.held:
            return read_checkpoint(one.note.text)
        raise BadBundle(f"no record key of party {self.party_id} that is saved here has signed the log {one.origin}")

    def _number(self, origin: str) -> int:
        try:
            root, log, epoch = place_in(origin)
        except BadNote as error:
            raise BadBundle(f"the log {origin}: has no number of an epoch: {error}") from error
        if root not in self.roots or log != log_with(self.own):
            raise BadBundle(f"{origin} is not the log of party {self.party_id} ({self.roots[0]}) with this party")
        return epoch


def epochs_in(entries: Iterable[ProvedEntry]) -> Iterator[WholeEpoch]:
    """Yield the epochs in a file that `audit prove -p` has written. Raises BadBundle if an entry is missing, or is not
    the one that its proof is of: so the first one is named."""
    for origin, group in groupby(entries, lambda one: one.origin):
        listed = list(group)
        for index, one in enumerate(listed):
            if one.proof.checkpoint.text != listed[0].proof.checkpoint.text or one.proof.index != index:
                raise BadBundle(f"the file does not have the whole log {origin}: entry {index} is missing")
            try:
                is_shown = one.proof.shows(one.content)
            except BadNote as error:
                raise BadBundle(f"log {origin}, entry {index}: {error}") from error
            if not is_shown:
                raise BadBundle(f"log {origin}, entry {index}: the proof is of another entry")
        yield WholeEpoch(listed[0].proof.checkpoint, [one.content for one in listed])


def messages_in_both(tx: Transaction, own: str, theirs: TheirLog, about: About = ALL) -> tuple[Finding, ...]:
    """Return what both logs say about each message that is asked for. Older epochs of both logs count, as far as they
    are there."""
    ours = Side(own, _own_entries(tx, log_with(theirs.party_id)))
    return compare(ours, Side(theirs.party_id, theirs.entries), about)


def contradictions(tx: Transaction, theirs: TheirLog) -> tuple[Finding, ...]:
    """Return whether the other party has signed two pasts, by the heads that are kept here. Raises BadBundle if its log
    has no epoch of which a head is kept."""
    found = equivocations(_heads(tx, theirs), theirs.party_id)
    if not found:
        _check_epochs(tx, theirs)
    return found


def keep_heads(tx: Transaction, theirs: TheirLog, at: int) -> tuple[Finding, ...]:
    """Return what `contradictions` returns, and keep the heads of the log if that is nothing, otherwise both signed
    checkpoints as evidence. Raises BadBundle."""
    found = contradictions(tx, theirs)
    for one in theirs.epochs:
        if not found:
            _keep(tx, one, at)
        elif (kept := _contradicted(tx, one)) is not None:
            shown = one.shown_at(kept.size)
            tx.add_evidence(
                Evidence(theirs.party_id, True, one.head.origin, kept.size, kept.note, one.note, at, shown)
            )
    return found


def _contradicted(tx: Transaction, theirs: TheirEpoch) -> StoredCheckpoint | None:
    """Return the kept head of an epoch that is no beginning of what the other party shows now; None if it is one."""
    kept = tx.witnessed(theirs.head.origin)
    if kept is None or kept.size > theirs.head.size:
        return None
    return kept if read_checkpoint(read_note(kept.note).text).root != theirs.root_at(kept.size) else None


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
            yield Checkpoint(head.origin, head.size, one.root_at(head.size))


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


def _names(roots: Sequence[str], own: str) -> tuple[str, ...]:
    return tuple(f"{root}/{log_with(own)}/" for root in roots)


def _kept(tx: Transaction, names: Sequence[str]) -> tuple[str, ...]:
    """Return the heads that are kept of logs whose names begin so."""
    return tuple(note for name in names for note in tx.witnessed_below(name))


def _check_epochs(tx: Transaction, theirs: TheirLog) -> None:
    """Raise BadBundle if an epoch is missing of which a head is kept, and which no later epoch calls lost."""
    origins = {one.head.origin for one in theirs.epochs}
    for note in _kept(tx, theirs.names):
        kept = read_checkpoint(read_note(note).text)
        root, _, number = place_in(kept.origin)
        if kept.size and kept.origin not in origins and not _is_called_lost(theirs, number, kept.size):
            of_root = f" under the root key {root}" if not kept.origin.startswith(theirs.names[0]) else ""
            raise BadBundle(
                f"the file does not have the whole log: epoch {number}{of_root} is missing, and party "
                f"{theirs.party_id} has signed {counted(kept.size, 'entry', 'entries')} of it, as a head that is kept "
                "here says"
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
