"""A log as it is stored: its entries, the batches in which they got their indexes, and its head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fate_flow.core.record.tree import Edge, leaf_hash


@dataclass(frozen=True)
class StoredEntry:
    """An entry with its place. `epoch` is 0, and `index` -1, until it is sealed."""

    id: int                          # counts up in the order of writing
    log: str
    content: bytes
    kind: str
    at: int
    job_id: str = ""
    salt: str = ""                   # hex; empty if it has no commitments, or if the salt was erased
    text: str = ""                   # what it commits to as `message`; may be erased
    epoch: int = 0
    index: int = -1

    @property
    def is_sealed(self) -> bool:
        return self.epoch > 0


@dataclass(frozen=True)
class Head:
    """How far a log has got: in which epoch, its size, and the right edge of its tree."""

    log: str
    epoch: int = 1
    edge: Edge = field(default_factory=Edge)

    @property
    def size(self) -> int:
        return self.edge.size


@dataclass(frozen=True)
class Batch:
    """Entries that got their indexes in one transaction: those from `first` on, by the ids of their rows."""

    log: str
    epoch: int
    first: int
    ids: tuple[int, ...]
    hashes: tuple[bytes, ...]        # of the leaves
    at: int                          # milliseconds since 1970

    @property
    def end(self) -> int:
        return self.first + len(self.hashes)


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint that was signed here, or that this party has cosigned, with all its signatures."""

    epoch: int
    size: int
    note: str
    at: int
    edge: Edge | None = None         # of the tree of this size; None for a log of another party


def next_batch(head: Head, entries: Sequence[StoredEntry], at: int) -> Batch:
    """Return the batch that gives these entries the next indexes of their log. Their stored bytes are hashed."""
    hashes = tuple(leaf_hash(one.content) for one in entries)
    return Batch(head.log, head.epoch, head.size, tuple(one.id for one in entries), hashes, at)


def head_after(head: Head, batch: Batch) -> Head:
    return Head(head.log, head.epoch, head.edge.with_leaves(batch.hashes))
