"""A log in a memory store, and each way in which somebody with access to the database tampers with its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from fate_flow.core.model.frozen import changed
from fate_flow.core.record.entry import OWN_LOG
from fate_flow.core.record.log import Batch, Head, StoredEntry
from fate_flow.core.record.tree import Edge, leaf_hash
from fate_flow.store.memory.store import MemoryStore
from tests.kit.services.records import add, an_entry, cosign_newest, sign

SIZES = (5, 3, 6, 4)
TOTAL = sum(SIZES)


def a_log() -> MemoryStore:
    """Four batches, a checkpoint after each two, the first of them cosigned."""
    store = MemoryStore()
    for number, size in enumerate(SIZES):
        add(store, [an_entry(f"{number}.{one}", text=f"text {one}") for one in range(size)])
        if number % 2:
            sign(store)
        if number == 1:
            cosign_newest(store)
    return store


@dataclass
class Rows:
    """The rows of a store, for somebody who changes them."""

    store: MemoryStore

    @property
    def entries(self) -> list[StoredEntry]:
        rows = self.store._rows.record.rows.values()
        return sorted((one for one in rows if one.is_sealed), key=lambda one: one.index)

    def put(self, entry: StoredEntry) -> None:
        with self.store.transaction():
            self.store._rows.record.put(entry.id, entry)

    def drop(self, entry: StoredEntry) -> None:
        with self.store.transaction():
            self.store._rows.record.drop(entry.id)

    def drop_log(self, log: str) -> None:
        """Remove all that is stored of a log."""
        rows = self.store._rows
        for epoch in {key[1] for key in rows.record_batches.rows if key[0] == log}:
            self.drop_epoch(log, epoch)
        with self.store.transaction():
            rows.record_heads.drop(log)

    def drop_epoch(self, log: str, epoch: int, first: int = 0) -> None:
        """Remove the entries of an epoch from this one on, with their batches and what was signed of them."""
        rows = self.store._rows
        with self.store.transaction():
            for entry in list(rows.record.rows.values()):
                if (entry.log, entry.epoch) == (log, epoch) and entry.index >= first:
                    rows.record.drop(entry.id)
            for key, batch in list(rows.record_batches.rows.items()):
                if key[:2] == (log, epoch) and batch.first >= first:
                    rows.record_batches.drop(key)
            for key, mark in list(rows.checkpoints.rows.items()):
                if key[:2] == (log, epoch) and mark.size > first:
                    rows.checkpoints.drop(key)

    def seal_anew(self) -> None:
        """Let batches and head fit the entries that are there."""
        rows = self.store._rows
        entries = self.entries
        hashes = tuple(leaf_hash(one.content) for one in entries)
        with self.store.transaction():
            for key in list(rows.record_batches.rows):
                rows.record_batches.drop(key)
            ids = tuple(one.id for one in entries)
            rows.record_batches.put((OWN_LOG, 1, 0), Batch(OWN_LOG, 1, 0, ids, hashes, 1))
            rows.record_heads.put(OWN_LOG, Head(OWN_LOG, 1, Edge().with_leaves(hashes)))


Way = Callable[[Rows, Random], int]
"""Tampers, and returns the index of the first entry that is not as it was."""


def alter(rows: Rows, random: Random) -> int:
    entry = random.choice(rows.entries)
    at = random.randrange(len(entry.content))
    content = entry.content[:at] + bytes([entry.content[at] ^ 1 << random.randrange(7)]) + entry.content[at + 1 :]
    rows.put(changed(entry, content=content))
    return entry.index


def alter_beside(rows: Rows, random: Random) -> int:
    entry = random.choice(rows.entries)
    change = random.choice([{"kind": "status"}, {"at": 8}, {"job_id": "j2"}, {"text": "other"}, {"salt": "00" * 32}])
    rows.put(changed(entry, **change))
    return entry.index


def drop(rows: Rows, random: Random) -> int:
    entry = random.choice(rows.entries)
    rows.drop(entry)
    return entry.index


def drop_and_close_the_gap(rows: Rows, random: Random) -> int:
    entry = random.choice(rows.entries)
    rows.drop(entry)
    for later in rows.entries:
        if later.index > entry.index:
            rows.put(changed(later, index=later.index - 1))
    return entry.index


def insert(rows: Rows, random: Random) -> int:
    at = random.randrange(TOTAL)
    for later in reversed(rows.entries):
        if later.index >= at:
            rows.put(changed(later, index=later.index + 1))
    new = an_entry(f"inserted {random.random()}".replace(".", ""))
    rows.put(StoredEntry(1_000, OWN_LOG, new.content, "act", 7, "j1", epoch=1, index=at))
    return at


def swap(rows: Rows, random: Random) -> int:
    one, other = sorted(random.sample(rows.entries, 2), key=lambda entry: entry.index)
    rows.put(changed(one, index=other.index))
    rows.put(changed(other, index=one.index))
    return one.index


def duplicate(rows: Rows, random: Random) -> int:
    one, other = random.sample(rows.entries, 2)
    rows.put(changed(other, content=one.content, kind=one.kind, text=one.text, salt=one.salt))
    return other.index


def truncate(rows: Rows, random: Random) -> int:
    first = random.randrange(TOTAL)
    for entry in rows.entries[first:]:
        rows.drop(entry)
    return first


def fork(rows: Rows, random: Random) -> int:
    """From an entry on, another past."""
    first = random.randrange(TOTAL)
    for entry in rows.entries[first:]:
        rows.put(changed(entry, content=an_entry(f"past {random.randrange(2**30)}").content, text="", salt=""))
    return first


WAYS: tuple[Way, ...] = (alter, alter_beside, drop, drop_and_close_the_gap, insert, swap, duplicate, truncate)
