"""Entries get their places in the order of writing, and heads are signed only over what was sealed."""

from __future__ import annotations

import pytest

from fate_flow.core.model.frozen import changed
from fate_flow.core.record.checkpoint import checked_checkpoint
from fate_flow.core.record.commitment import opens
from fate_flow.core.record.entry import OWN_LOG, log_with, read_entry
from fate_flow.core.record.note import NoteKey, read_note
from fate_flow.services.record.checkpoints import Damaged
from fate_flow.services.record.sealing import MOST_AT_ONCE, seal_new
from fate_flow.store.memory.store import MemoryStore
from tests.kit.core.signers import has_signed
from tests.kit.services.records import OWN, ROOT, add, an_entry, sign

WITH = log_with("10000")


def test_each_log_gets_its_own_indexes() -> None:
    store = MemoryStore()
    add(store, [an_entry("a"), an_entry("b", WITH), an_entry("c")])
    add(store, [an_entry("d")])

    with store.reading() as tx:
        assert [one.size for one in tx.record_heads()] == [3, 1]
        own = tx.sealed_entries(OWN_LOG, 1, 0, 10)
        assert tx.unsealed_entries(1) == ()
    assert [(one.index, read_entry(one.content)["what"]) for one in own] == [(0, "a"), (1, "c"), (2, "d")]


def test_a_flood_is_sealed_in_parts() -> None:
    store = MemoryStore()
    with store.transaction() as tx:
        tx.add_to_record([an_entry(str(number)) for number in range(MOST_AT_ONCE + 1)])
        assert [seal_new(tx, 1) for _ in range(3)] == [MOST_AT_ONCE, 1, 0]


def test_each_log_that_has_grown_is_signed_under_its_own_origin() -> None:
    store = MemoryStore()
    add(store, [an_entry("a"), an_entry("b", WITH)])

    with store.reading() as tx:
        assert tx.newest_checkpoint(OWN_LOG, 1) is None
    assert len(sign(store)) == 2
    with store.reading() as tx:
        for head in tx.record_heads():
            origin = f"{ROOT}/{head.log}/1"
            newest = tx.newest_checkpoint(head.log, 1)
            assert newest is not None
            found = checked_checkpoint(read_note(newest.note), NoteKey(origin, OWN.key.key), has_signed)
            assert (found.size, found.root) == (head.size, head.edge.root)


def test_the_own_log_is_committed_to_in_each_log_with_another_party() -> None:
    store = MemoryStore()
    add(store, [an_entry("a"), an_entry("b", WITH)])
    sign(store)

    with store.reading() as tx:
        last = tx.sealed_entries(WITH, 1, 1, 10)[-1]
        own = tx.newest_checkpoint(OWN_LOG, 1)
    assert own is not None
    assert last.text == read_note(own.note).text
    assert opens(read_entry(last.content)["own"], "own", bytes.fromhex(last.salt), last.text.encode())


def test_nothing_new_is_not_signed_again() -> None:
    store = MemoryStore()
    add(store, [an_entry("a"), an_entry("b", WITH)])
    sign(store)

    assert sign(store) == ()


def test_a_flipped_bit_is_damage_at_an_index_and_is_not_signed() -> None:
    store = MemoryStore()
    add(store, [an_entry("a"), an_entry("b")])
    sign(store)
    add(store, [an_entry("c"), an_entry("d")])
    row = store._rows.record.rows[4]
    with store.transaction():
        store._rows.record.put(4, changed(row, content=row.content.replace(b'"d"', b'"e"')))

    with pytest.raises(Damaged) as raised:
        sign(store)
    assert (raised.value.log, raised.value.index) == (OWN_LOG, 3)
    with store.reading() as tx:
        newest = tx.newest_checkpoint(OWN_LOG, 1)
    assert newest is not None
    assert newest.size == 2
