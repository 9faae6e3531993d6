"""Proofs of stored entries, up to the newest checkpoint of their log, and the files that carry them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from fate_flow.core.model.errors import JobNotFound, TooLarge
from fate_flow.core.record.checkpoint import Checkpoint
from fate_flow.core.record.entry import OWN_LOG, Kind, log_with, other_party
from fate_flow.core.record.log import Head, StoredCheckpoint, StoredEntry
from fate_flow.core.record.note import NoteKey, read_note
from fate_flow.core.record.offline.bundle import bundle_text
from fate_flow.core.record.proof import Anchor, EntryProof, ProvedEntry, committed_head
from fate_flow.core.record.tree import HashOf, consistency_proof, hash_by, inclusion_proof
from fate_flow.services.record.checkpoints import LogSigner, origin_of, sealed_hashes
from fate_flow.services.record.reading import PAGE, sealed_in, size_of
from fate_flow.store.contract.transaction import Transaction

MOST_PROVED = 10_000
"""Entries that a request proves: each takes some kilobytes in the file."""
MOST_HASHED = 200_000
"""Entries of logs that a request reads the hashes of: it holds a thread of the server meanwhile."""
_STEPS = 100
"""Checkpoints, and pages of entries, that are looked at for one that another party holds."""


def without_proof(tx: Transaction, entries: Iterable[StoredEntry]) -> tuple[int, int]:
    """Return how many entries `prove` leaves out: of those that will be signed, and of those of an earlier epoch, in
    which nothing is signed any more."""
    present = {head.log: head.epoch for head in tx.record_heads()}

    @cache
    def signed(log: str, epoch: int) -> int:
        newest = tx.newest_checkpoint(log, epoch)
        return newest.size if newest else 0

    left = [one for one in entries if not one.is_sealed or one.index >= signed(one.log, one.epoch)]
    never = sum(one.is_sealed and one.epoch < present.get(one.log, 0) for one in left)
    return len(left) - never, never


def prove(tx: Transaction, entries: Sequence[StoredEntry]) -> Iterator[ProvedEntry]:
    """Yield each entry with its proof, in order. An entry that no checkpoint covers yet is left out."""
    trees, marks = Trees(tx), checkpoints_of(tx, entries)
    for one in entries:
        mark = marks.get((one.log, one.epoch))
        if mark is not None and 0 <= one.index < mark.size:
            yield trees.prove(one, mark)


def checkpoints_of(tx: Transaction, entries: Iterable[StoredEntry]) -> Mapping[tuple[str, int], StoredCheckpoint]:
    """Return by which checkpoint of each log and epoch these entries are proved: the newest one that somebody has
    cosigned, if it covers all that are signed."""
    last, found = dict[tuple[str, int], int](), dict[tuple[str, int], StoredCheckpoint]()
    for one in entries:
        place = one.log, one.epoch
        newest = found.get(place) or (tx.newest_checkpoint(*place) if one.is_sealed else None)
        if newest is not None:
            found[place] = newest
            last[place] = max(last.get(place, 0), one.index if one.index < newest.size else 0)
    return {place: newest_cosigned(tx, *place, last[place]) or newest for place, newest in found.items()}


def newest_cosigned(tx: Transaction, log: str, epoch: int, index: int = 0) -> StoredCheckpoint | None:
    """Return the newest checkpoint that somebody has cosigned, and that covers this index; None if there is none among
    the newest ones."""
    below = 1 << 62
    for _ in range(_STEPS):
        mark = tx.newest_checkpoint(log, epoch, below)
        if mark is None or mark.size <= index:
            break
        if len(read_note(mark.note).signatures) > 1:
            return mark
        below = mark.size
    return None


class Trees:
    """Proofs of entries. The hashes of each log are read once, and those of its parts computed once."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._known: dict[tuple[str, int, int], HashOf] = {}

    def hash_of(self, log: str, mark: StoredCheckpoint) -> HashOf:
        """Return what gives the hashes of the tree of a checkpoint."""
        key = log, mark.epoch, mark.size
        if key not in self._known:
            leaves = sealed_hashes(self._tx, Head(log, mark.epoch), 0, mark.size)
            self._known[key] = cache(hash_by(leaves))
        return self._known[key]

    def prove(self, one: StoredEntry, mark: StoredCheckpoint) -> ProvedEntry:
        """Return an entry with its proof; the checkpoint covers it."""
        hashes = inclusion_proof(one.index, mark.size, self.hash_of(one.log, mark))
        proof = EntryProof(one.index, hashes, read_note(mark.note))
        return ProvedEntry(one.content, proof, one.salt if one.text else "", one.text)


def keys_of_logs(tx: Transaction, signer: LogSigner) -> Iterator[NoteKey]:
    """Yield the public keys by which proofs of this party's entries are checked, by the names of its logs: of each
    epoch the key of its newest checkpoint, which may have been replaced, and of the present ones also the key that
    signs the next one."""
    for head in tx.record_heads():
        for epoch in sorted({*tx.record_epochs(head.log), head.epoch}):
            marks = (tx.newest_checkpoint(head.log, epoch), newest_cosigned(tx, head.log, epoch))
            notes = [read_note(mark.note) for mark in marks if mark is not None]
            origin = notes[0].text.partition("\n")[0] if notes else origin_of(signer.root, head.log, epoch)
            keys = [NoteKey(origin, one) for one in (signer.key, *signer.earlier)]
            yield from (key for key in keys[1:] if any(note.of(key) for note in notes))
            if epoch == head.epoch or any(note.of(keys[0]) for note in notes):
                yield keys[0]


@dataclass(frozen=True)
class ProofFile:
    """The text of a file for a third person. Not in it are `left` entries that will be signed, and `never` of earlier
    epochs, in which nothing is signed any more."""

    text: str
    left: int
    never: int


def file_of_job(tx: Transaction, job_id: str, is_closed: bool) -> ProofFile:
    """Return the file with the entries about a job. `is_closed`: without the texts that entries commit to. Raises
    JobNotFound."""
    entries = tx.record_of_job(job_id)
    return _file(tx, entries, f"job {job_id}", is_closed, tuple(anchors_of(tx, entries)))


def file_of_party(tx: Transaction, party_id: str) -> ProofFile:
    """Return the file with the log with another party, all its epochs, the oldest first, without the texts. Raises
    JobNotFound."""
    log = log_with(party_id)
    entries = [one for epoch in tx.record_epochs(log) for one in sealed_in(tx, log, epoch)]
    return _file(tx, entries, f"party {party_id}", True)


def for_request(tx: Transaction, job_id: str, party_id: str, is_closed: bool) -> ProofFile:
    """Return the file about a job, or else with a party, unless that takes too long for a request. Raises TooLarge,
    JobNotFound."""
    entries = tx.record_of_job(job_id) if job_id else ()
    logs = {one.log for one in entries} if job_id else {log_with(party_id)}
    hashed = sum(size_of(tx, log) for log in logs)
    count = len(entries) if job_id else hashed
    if count > MOST_PROVED or hashed > MOST_HASHED:
        raise TooLarge(
            f"the file would have {count} entries, of logs with {hashed}, and a request proves at most {MOST_PROVED} "
            f"of at most {MOST_HASHED}: use fate_flow audit prove on the machine of the server"
        )
    return file_of_job(tx, job_id, is_closed) if job_id else file_of_party(tx, party_id)


def anchors_of(tx: Transaction, entries: Sequence[StoredEntry]) -> Iterator[Anchor]:
    """Yield what shows that other parties hold the entries of the own log among these: those with whose logs there are
    entries, too; if there is none, the one with the shortest log."""
    logs = sorted({one.log for one in entries if other_party(one.log)}) or [
        one.log for one in sorted(tx.record_heads(), key=lambda one: one.size) if other_party(one.log)
    ][:1]
    trees = Trees(tx)
    for (log, epoch), mark in checkpoints_of(tx, entries).items():
        if log == OWN_LOG:
            first = min(one.index for one in entries if (one.log, one.epoch) == (log, epoch))
            found = (_anchor(tx, trees, mark, first, one) for one in logs)
            yield from (one for one in found if one is not None)


def _anchor(tx: Transaction, trees: Trees, mark: StoredCheckpoint, first: int, log: str) -> Anchor | None:
    """Return the newest cosigned commitment in a log with another party to a head of the own log that is at most this
    checkpoint of it; None if there is none that covers this index."""
    origin = mark.note.partition("\n")[0]
    for epoch in reversed(tx.record_epochs(log)):
        held = newest_cosigned(tx, log, epoch)
        if held is None or held.note.partition("/")[0] != origin.partition("/")[0]:
            continue
        for entry, head in _commitments(tx, log, held):
            if head.origin == origin and first < head.size <= mark.size:
                hashes = consistency_proof(head.size, mark.size, trees.hash_of(OWN_LOG, mark))
                return Anchor(trees.prove(entry, held), hashes)
    return None


def _commitments(tx: Transaction, log: str, held: StoredCheckpoint) -> Iterator[tuple[StoredEntry, Checkpoint]]:
    """Yield the newest entries below a checkpoint that open to a head of the own log, the newest first."""
    for end in range(held.size, max(0, held.size - _STEPS * PAGE), -PAGE):
        for entry in reversed(tx.sealed_entries(log, held.epoch, max(0, end - PAGE), min(PAGE, end))):
            head = committed_head(entry.content, entry.salt, entry.text) if entry.kind == Kind.HEAD else None
            if head is not None:
                yield entry, head


def _file(
    tx: Transaction, entries: Sequence[StoredEntry], about: str, is_closed: bool, anchors: Sequence[Anchor] = ()
) -> ProofFile:
    if not entries:
        raise JobNotFound(f"nothing is recorded about {about}: is record.switch true, and the id right?")
    proved = [replace(one, salt="", text="") if is_closed else one for one in prove(tx, entries)]
    return ProofFile(bundle_text(proved, anchors), *without_proof(tx, entries))
