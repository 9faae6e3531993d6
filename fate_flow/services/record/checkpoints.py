"""Checkpoints: what this party signs about its logs, and what it commits to in the logs with others.

Before a head is signed, the stored bytes of the entries since the last checkpoint are hashed again. So a bit that has
flipped on the disk is found as damage, at an index, and is not signed. A log that was never signed may be long, and
writers wait for the transaction that signs: `hash_again` hashes before it, page by page, in transactions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeVar

from fate_flow.core.record.checkpoint import Checkpoint, read_count
from fate_flow.core.record.commitment import commitment
from fate_flow.core.record.entry import OWN_LOG, Kind, NewEntry, new_entry, other_party
from fate_flow.core.record.log import Head, StoredCheckpoint
from fate_flow.core.record.note import NoteKey, Sign, read_note, sign_note
from fate_flow.core.record.tree import Edge, leaf_hash
from fate_flow.services.record.entries import FreshSalt
from fate_flow.services.record.epochs import open_next_epoch
from fate_flow.services.record.sealing import MOST_AT_ONCE, put_seals, seal_new, seals_of
from fate_flow.store.contract.transaction import Transaction

T = TypeVar("T")

PAGE = 1_000                 # entries that one transaction hashes
_OF_A_TRANSACTION = 50       # how many entries are hashed in the time that it takes beside them, about
ANOTHER_ROOT = "the root key of this party was replaced"

Hashed = Mapping[tuple[str, int], int]
"""By log and epoch: how many of its first entries were found as they were sealed."""
_NOTHING: Hashed = MappingProxyType({})


class Damaged(Exception):
    """The stored bytes of an entry are others than those that were sealed."""

    def __init__(self, log: str, epoch: int, index: int) -> None:
        self.log, self.epoch, self.index = log, epoch, index
        super().__init__(f"log {log}, epoch {epoch}: entry {index} is not what was sealed")


@dataclass(frozen=True)
class LogSigner:
    """The record key of this party. `root`: the fingerprint of its root key, by which others know it."""

    root: str
    key: bytes                       # public, 32 bytes
    sign: Sign
    earlier: Sequence[bytes] = ()    # public keys that it has replaced

    def key_of(self, origin: str) -> NoteKey:
        return NoteKey(origin, self.key)


def origin_of(root: str, log: str, epoch: int) -> str:
    """Return the name of a log for everybody. `root`: the fingerprint of the root key of its party."""
    return f"{root}/{log}/{epoch}"


def place_in(origin: str) -> tuple[str, str, int]:
    """Return the root key, the log and the epoch in the name of a log. Raises BadNote.

    The record key signs nothing but heads of this party's logs. So its signature is enough, whichever root key this
    party was known by then."""
    beginning, _, number = origin.rpartition("/")
    root, _, log = beginning.partition("/")
    return root, log, read_count(number)


def any_log(_: str) -> bool:
    return True


def no_own_log(log: str) -> bool:
    return log != OWN_LOG


def sign_heads(
    tx: Transaction, signer: LogSigner, at: int, fresh_salt: FreshSalt, hashed: Hashed = _NOTHING,
    may_sign: Callable[[str], bool] = any_log,
) -> tuple[StoredCheckpoint, ...]:  # fmt: skip
    """Seal what is new, commit to the own log in the logs with others, and sign the head of each log that has grown and
    may be signed. If the root key was replaced, each log goes on in the next epoch, once what there was is signed.

    `hashed`: what `hash_again` has returned; those entries are not hashed here. Raises Damaged."""
    while seal_new(tx, at):
        pass
    for head in tx.record_heads():
        if may_sign(head.log):
            _leave_old_root(tx, signer, head, at, hashed)
    commitments = tuple(_commitments(tx, signer.root, at, fresh_salt)) if may_sign(OWN_LOG) else ()
    tx.add_to_record(commitments)
    while commitments and seal_new(tx, at):
        pass
    heads = [head for head in tx.record_heads() if may_sign(head.log) and _has_grown(tx, head)]
    return tuple(_sign(tx, signer, head, at, hashed) for head in heads)


class Transactions(Protocol):
    """Runs functions, each in a transaction of its own."""

    def read(self, observe: Callable[[Transaction], T]) -> T: ...

    def write(self, act: Callable[[Transaction], T]) -> T: ...


def hash_again(
    transactions: Transactions, clock: Callable[[], int], goes_on: Callable[[], bool],
    may_sign: Callable[[str], bool] = any_log,
) -> Hashed | None:  # fmt: skip
    """Seal what is new, and hash what was not signed yet of these logs, in transactions of at most a page each.

    Return None if `goes_on` says no in between. Raises Damaged."""
    found, since_sealed = {}, 0
    for head in (one for one in _sealed(transactions, clock) if may_sign(one.log)):
        first = transactions.read(partial(_signed_size, head=head))
        while first < head.size:
            if not goes_on():
                return None
            transactions.read(partial(check_page, log=head.log, epoch=head.epoch, first=first, size=head.size))
            hashed = min(PAGE, head.size - first)
            first += hashed
            since_sealed += hashed + _OF_A_TRANSACTION
            if since_sealed >= PAGE:         # entries do not wait for the end of a long log, or of many short ones
                _sealed(transactions, clock)
                since_sealed = 0
        found[head.log, head.epoch] = first
    return found


def _sealed(transactions: Transactions, clock: Callable[[], int]) -> tuple[Head, ...]:
    """Seal what is new; return the heads of all logs."""
    while seals := transactions.read(lambda tx: seals_of(tx, tx.unsealed_entries(MOST_AT_ONCE), clock())):
        if not transactions.write(partial(put_seals, seals=seals)):
            break
    return transactions.read(lambda tx: tx.record_heads())


def _has_grown(tx: Transaction, head: Head) -> bool:
    return head.size > _signed_size(tx, head)


def _is_cosigned(tx: Transaction, head: Head) -> bool:
    newest = tx.newest_checkpoint(head.log, head.epoch)
    return newest is not None and len(read_note(newest.note).signatures) > 1


def _signed_size(tx: Transaction, head: Head) -> int:
    newest = tx.newest_checkpoint(head.log, head.epoch)
    return newest.size if newest else 0


def _commitments(tx: Transaction, root: str, at: int, fresh_salt: FreshSalt) -> Iterator[NewEntry]:
    """Yield an entry for each log with another party, if the own log has grown since the last ones.

    A log whose last checkpoint nobody has cosigned gets none unless it has grown by itself: otherwise the log with a
    party that is gone would grow for ever."""
    own = tx.record_head(OWN_LOG)
    if not _has_grown(tx, own):
        return
    text = Checkpoint(origin_of(root, OWN_LOG, own.epoch), own.size, own.edge.root).text()
    for head in tx.record_heads():
        if other_party(head.log) and (_has_grown(tx, head) or _is_cosigned(tx, head)):
            salt = fresh_salt()
            fields = {"own": commitment("own", bytes.fromhex(salt), text.encode())}
            yield new_entry(head.log, Kind.HEAD, at, fields, salt=salt, text=text)


def _leave_old_root(tx: Transaction, signer: LogSigner, head: Head, at: int, hashed: Hashed) -> None:
    """Begin the next epoch if this one is named by a root key that was replaced: what others hold of a log is found
    by its name, so a log keeps its name."""
    newest = tx.newest_checkpoint(head.log, head.epoch)
    root = signer.root if newest is None else place_in(newest.note.partition("\n")[0])[0]
    if root != signer.root:
        if _has_grown(tx, head):
            _sign(tx, replace(signer, root=root), head, at, hashed)
        open_next_epoch(tx, head.log, at, ANOTHER_ROOT)


def _sign(tx: Transaction, signer: LogSigner, head: Head, at: int, hashed: Hashed) -> StoredCheckpoint:
    check_stored(tx, head, max(_signed_size(tx, head), hashed.get((head.log, head.epoch), 0)))
    origin = origin_of(signer.root, head.log, head.epoch)
    note = sign_note(Checkpoint(origin, head.size, head.edge.root).text(), signer.key_of(origin), signer.sign)
    found = StoredCheckpoint(head.epoch, head.size, str(note), at, head.edge)
    tx.put_checkpoint(head.log, found)
    return found


def check_stored(tx: Transaction, head: Head, first: int) -> None:
    """Hash the stored entries from this index on, and compare them with what was sealed. Raises Damaged."""
    while first < head.size:
        check_page(tx, head.log, head.epoch, first, head.size)
        first += PAGE


def check_page(tx: Transaction, log: str, epoch: int, first: int, size: int) -> None:
    """Hash some stored entries from this index on, at most as many as `PAGE`. `size`: of the epoch. Raises Damaged."""
    entries = tx.sealed_entries(log, epoch, first, PAGE)
    hashes = sealed_hashes(tx, Head(log, epoch), first, PAGE)
    for place in range(min(PAGE, size - first)):
        entry = entries[place] if place < len(entries) else None
        is_right = entry is not None and entry.index == first + place and place < len(hashes)
        if not is_right or leaf_hash(entries[place].content) != hashes[place]:
            raise Damaged(log, epoch, first + place)


def sealed_hashes(tx: Transaction, head: Head, first: int, most: int) -> tuple[bytes, ...]:
    """Return the leaf hashes that batches have from this index on, as far as they follow each other."""
    found: list[bytes] = []
    for batch in tx.batches(head.log, head.epoch, first, most):
        if batch.first > first + len(found):
            break
        found += batch.hashes[first + len(found) - batch.first :]
        if len(found) >= most:
            break
    return tuple(found[:most])


def edge_at(tx: Transaction, head: Head, size: int, edge: Edge | None = None) -> Edge:
    """Return the tree of the first entries of an epoch, by the leaf hashes that batches have; that of fewer, if there
    are not as many. `edge`: of still fewer, from which it goes on. The hashes are not held all at once."""
    edge = edge or Edge()
    while edge.size < size and (leaves := sealed_hashes(tx, head, edge.size, min(PAGE, size - edge.size))):
        edge = edge.with_leaves(leaves)
    return edge
