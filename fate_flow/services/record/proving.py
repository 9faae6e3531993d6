"""Proofs of stored entries, up to the newest checkpoint of their log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

from fate_flow.core.record.bundle import ProvedEntry
from fate_flow.core.record.log import Head, StoredEntry
from fate_flow.core.record.note import Note, read_note
from fate_flow.core.record.proof import EntryProof
from fate_flow.core.record.tree import Subtree, hash_by, inclusion_proof
from fate_flow.services.record.checkpoints import sealed_hashes
from fate_flow.store.contract.transaction import Transaction


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
