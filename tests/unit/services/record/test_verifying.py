"""What verifying says of a log that is whole, and of each way to tamper with it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fate_flow.core.record.entry import OWN_LOG
from fate_flow.core.record.note import read_note
from fate_flow.services.record.verifying import State
from fate_flow.store.memory.store import MemoryStore
from tests.kit.services.records import KEYS, SEEN_AT, add, an_entry, sign, verified
from tests.kit.services.tampering import TOTAL, WAYS, Rows, Way, a_log, alter_beside


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


def tampered(way: Way, seed: int) -> tuple[Rows, int]:
    rows = Rows(a_log())
    return rows, way(rows, Random(seed))


@pytest.mark.parametrize("way", WAYS)
def test_tampering_is_named_at_its_first_entry(way: Way) -> None:
    for seed in range(60):
        rows, first = tampered(way, seed)
        found = verified(rows.store)

        assert found.state is State.BROKEN, seed
        assert found.broken_at == first, (seed, found.why)


@pytest.mark.parametrize("way", [one for one in WAYS if one is not alter_beside])
def test_tampering_that_recomputes_all_hashes_contradicts_a_signature(way: Way) -> None:
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
