"""What verifying says of a log that is whole, and of each way to tamper with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest

from fate_flow.core.model.frozen import changed
from fate_flow.core.record.entry import OWN_LOG
from fate_flow.core.record.log import Batch, Head, StoredEntry
from fate_flow.core.record.note import read_note
from fate_flow.core.record.tree import Edge, leaf_hash
from fate_flow.services.record.verifying import State
from fate_flow.store.memory.store import MemoryStore
from tests.kit.services.records import KEYS, SEEN_AT, add, an_entry, cosign_newest, sign, verified

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


def test_a_whole_log_is_anchored_up_to_what_somebody_else_has_signed() -> None:
    found = verified(a_log())

    assert (found.state, found.size, found.signed_to) == (State.ANCHORED, TOTAL, TOTAL)
    assert (found.anchored_to, found.anchored_by, found.anchored_at) == (8, "10000", SEEN_AT)


@pytest.mark.parametrize("keys", [None, replace(KEYS, witnesses=())])
def test_without_the_key_of_another_party_a_log_is_only_consistent_in_itself(keys: object) -> None:
    assert verified(a_log(), keys=keys).state is State.CONSISTENT  # type: ignore[arg-type]


def test_a_log_that_somebody_with_the_keys_wrote_anew_is_never_anchored() -> None:
    store = MemoryStore()
    add(store, [an_entry("another past")])
    sign(store)

    found = verified(store)
    assert (found.state, found.anchored_to) == (State.CONSISTENT, 0)


def test_a_log_without_entries_is_consistent() -> None:
    assert verified(MemoryStore()).state is State.CONSISTENT


def test_the_key_of_somebody_else_signs_nothing_here() -> None:
    found = verified(a_log(), keys=replace(KEYS, own=(bytes(32),)))

    assert (found.state, found.broken_at) == (State.BROKEN, 0)


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


def alter(rows: Rows, random: Random) -> int:
    """Each returns the index of the first entry that is not as it was."""
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


WAYS = [alter, alter_beside, drop, drop_and_close_the_gap, insert, swap, duplicate, truncate]


def tampered(way: Callable[[Rows, Random], int], seed: int) -> tuple[Rows, int]:
    rows = Rows(a_log())
    return rows, way(rows, Random(seed))


@pytest.mark.parametrize("way", WAYS)
def test_tampering_is_named_at_its_first_entry(way: Callable[[Rows, Random], int]) -> None:
    for seed in range(60):
        rows, first = tampered(way, seed)
        found = verified(rows.store)

        assert found.state is State.BROKEN, seed
        assert found.broken_at == first, (seed, found.why)


@pytest.mark.parametrize("way", [one for one in WAYS if one is not alter_beside])
def test_tampering_that_recomputes_all_hashes_contradicts_a_signature(way: Callable[[Rows, Random], int]) -> None:
    """Without the key. The entry is then named by the checkpoints around it, or by the end of what is there."""
    for seed in range(60):
        rows, first = tampered(way, seed)
        rows.seal_anew()
        found = verified(rows.store)

        assert found.state is State.BROKEN, seed
        assert found.broken_at in {first, 0 if first < 8 else 8, found.size}, (seed, found.why)


def test_an_old_cosignature_does_not_pass_for_one_of_another_checkpoint() -> None:
    store = a_log()
    with store.transaction() as tx:
        first, second = tx.checkpoints(OWN_LOG, 1)
        forged = read_note(second.note).with_signatures(read_note(first.note).signatures[1:])
        tx.put_checkpoint(OWN_LOG, replace(second, note=str(forged)))

    found = verified(store)
    assert (found.state, found.broken_at) == (State.BROKEN, TOTAL)
    assert "does not hold" in found.why


def test_what_is_added_after_the_last_checkpoint_counts_as_not_signed() -> None:
    store = a_log()
    add(store, [an_entry("new")])

    found = verified(store)
    assert (found.state, found.signed_to, found.size) == (State.ANCHORED, TOTAL, TOTAL + 1)


def test_a_checkpoint_that_was_removed_leaves_the_log_anchored_by_what_is_left() -> None:
    store = a_log()
    with store.transaction():
        store._rows.checkpoints.drop((OWN_LOG, 1, TOTAL))

    found = verified(store)
    assert (found.state, found.signed_to) == (State.ANCHORED, 8)
