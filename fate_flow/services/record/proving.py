"""Proofs of stored entries, up to the newest checkpoint of their log, and the files that carry them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from fate_flow.core.model.errors import JobNotFound, TooLarge
from fate_flow.core.record.bundle import ProvedEntry, bundle_text
from fate_flow.core.record.entry import log_with
from fate_flow.core.record.log import Head, StoredEntry
from fate_flow.core.record.note import Note, NoteKey, read_note
from fate_flow.core.record.proof import EntryProof
from fate_flow.core.record.tree import Subtree, hash_by, inclusion_proof
from fate_flow.services.record.checkpoints import LogSigner, origin_of, sealed_hashes
from fate_flow.services.record.reading import sealed_in, size_of
from fate_flow.store.contract.transaction import Transaction

MOST_PROVED = 10_000
"""Entries that a request proves: each takes some kilobytes in the file."""
MOST_HASHED = 200_000
"""Entries of logs that a request reads the hashes of: it holds a thread of the server meanwhile."""


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


def prove(tx: Transaction, entries: Iterable[StoredEntry]) -> Iterator[ProvedEntry]:
    """Yield each entry with its proof, in order. An entry that no checkpoint covers yet is left out.

    The hashes of each log are read once, and those of its parts computed once."""

    @cache
    def signed(log: str, epoch: int) -> tuple[int, Note, Callable[[Subtree], bytes]] | None:
        newest = tx.newest_checkpoint(log, epoch)
        if newest is None:
            return None
        leaves = sealed_hashes(tx, Head(log, epoch), 0, newest.size)
        return newest.size, read_note(newest.note), cache(hash_by(leaves))

    for one in entries:
        found = signed(one.log, one.epoch) if one.is_sealed else None
        if found is None or one.index >= found[0]:
            continue
        size, note, hash_of = found
        yield ProvedEntry(one.content, EntryProof(one.index, inclusion_proof(one.index, size, hash_of), note),
                          one.salt if one.text else "", one.text)


def keys_of_logs(tx: Transaction, signer: LogSigner) -> Iterator[NoteKey]:
    """Yield the public keys by which proofs of this party's entries are checked, by the names of its logs: of each
    epoch the key of its newest checkpoint, which may have been replaced, and of the present ones also the key that
    signs the next one."""
    for head in tx.record_heads():
        for epoch in sorted({*tx.record_epochs(head.log), head.epoch}):
            newest = tx.newest_checkpoint(head.log, epoch)
            note = read_note(newest.note) if newest else None
            origin = note.text.partition("\n")[0] if note else origin_of(signer.root, head.log, epoch)
            keys = [NoteKey(origin, one) for one in (signer.key, *signer.earlier)]
            yield from (key for key in keys[1:] if note and note.of(key))
            if epoch == head.epoch or (note and note.of(keys[0])):
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
    return _file(tx, tx.record_of_job(job_id), f"job {job_id}", is_closed)


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


def _file(tx: Transaction, entries: Sequence[StoredEntry], about: str, is_closed: bool) -> ProofFile:
    if not entries:
        raise JobNotFound(f"nothing is recorded about {about}: is record.switch true, and the id right?")
    proved = [replace(one, salt="", text="") if is_closed else one for one in prove(tx, entries)]
    return ProofFile(bundle_text(proved), *without_proof(tx, entries))
