"""Entries get their places in the order of writing, and heads are signed only over what was sealed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from fate_flow.core.model.frozen import changed
from fate_flow.core.record.checkpoint import checked_checkpoint
from fate_flow.core.record.commitment import opens
from fate_flow.core.record.entry import OWN_LOG, log_with, read_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.note import NoteKey, read_note
from fate_flow.relay.wakeup import QuietWakeup
from fate_flow.server.periodic.record_sealer import RecordSealer
from fate_flow.services.record.checkpoints import PAGE, Damaged, hash_again, sign_heads
from fate_flow.services.record.sealing import MOST_AT_ONCE, seal_new
from fate_flow.store.memory.store import MemoryStore
from tests.kit.core.signers import has_signed
from tests.kit.notifications.subscribers import OPS, notifications, notified
from tests.kit.services.hand_server import HandServer
from tests.kit.services.records import OWN, ROOT, SIGNER, add, an_entry, salts, sign, without_peers
from tests.kit.store.sqlite_in_memory import sqlite_in_memory

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


def test_the_log_of_statements_has_no_entry_and_no_salt() -> None:
    store, logged = sqlite_in_memory(), list[str]()
    store.database.log_sql = lambda sql, values: logged.append(f"{sql} {values}")
    add(store, [an_entry("a", text="a name")])

    with store.reading() as tx:
        (entry,) = tx.sealed_entries(OWN_LOG, 1, 0, 9)
    assert (entry.text, entry.index) == ("a name", 0)
    assert any("t_record_batch" in line for line in logged), "other statements are logged"
    for secret in (entry.salt, entry.text, entry.content.decode()):
        assert not any(secret in line for line in logged)


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
    _flip(store, 4, b'"d"', b'"e"')

    with pytest.raises(Damaged) as raised:
        sign(store)
    assert (raised.value.log, raised.value.index) == (OWN_LOG, 3)
    with store.reading() as tx:
        newest = tx.newest_checkpoint(OWN_LOG, 1)
    assert newest is not None
    assert newest.size == 2


class _CountingStore:
    """Counts how many stored entries each transaction reads; `writes` are those that writers wait for."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.reads: list[int] = []
        self.writes: list[int] = []

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with self._store.reading() as tx:
            yield _CountingTransaction(tx, self.reads)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with self._store.transaction() as tx:
            yield _CountingTransaction(tx, self.writes)


class _CountingTransaction:
    def __init__(self, tx: Any, counts: list[int]) -> None:
        self._tx, self._counts = tx, counts
        counts.append(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def sealed_entries(self, log: str, epoch: int, first: int, most: int) -> tuple[StoredEntry, ...]:
        found: tuple[StoredEntry, ...] = self._tx.sealed_entries(log, epoch, first, most)
        self._counts[-1] += len(found)
        return found


def test_a_long_log_that_was_never_signed_is_hashed_in_short_transactions() -> None:
    memory = MemoryStore()
    add(memory, [an_entry(str(number)) for number in range(MOST_AT_ONCE)])
    add(memory, [an_entry(str(number)) for number in range(MOST_AT_ONCE)])
    add(memory, [an_entry("last")])
    store = _CountingStore(memory)
    context = HandServer(store=store).context
    store.reads.clear()
    store.writes.clear()

    RecordSealer(context, without_peers(context), lambda: True, lambda: None, lambda: 0.0, QuietWakeup()).sign()

    assert (sum(store.reads), sum(store.writes)) == (2 * MOST_AT_ONCE + 1, 0)
    assert max(store.reads) == MOST_AT_ONCE
    with memory.reading() as tx:
        newest = tx.newest_checkpoint(OWN_LOG, 1)
    assert newest is not None
    assert newest.size == 2 * MOST_AT_ONCE + 1


def test_what_comes_while_logs_are_hashed_is_sealed_after_a_page_and_hashed_when_it_is_signed() -> None:
    store = MemoryStore()
    for log in (OWN_LOG, WITH):
        add(store, [an_entry(str(number), log) for number in range(PAGE // 2)])
    context = HandServer(store=store).context
    come = count()

    def add_one() -> bool:
        with store.transaction() as tx:
            tx.add_to_record([an_entry(f"come {next(come)}")])
        return True

    hashed = hash_again(context, context.clock, add_one)
    assert hashed == {(OWN_LOG, 1): PAGE // 2, (WITH, 1): PAGE // 2}
    assert next(come) == 2, "there was a question for each log"
    with store.reading() as tx:
        assert tx.unsealed_entries(1) == ()
    _flip(store, PAGE + 1, b"come 0", b"come 9")
    with pytest.raises(Damaged) as raised, store.transaction() as tx:
        sign_heads(tx, SIGNER, 1, salts, hashed or {})
    assert raised.value.index == PAGE // 2


def test_what_comes_does_not_wait_for_the_end_of_many_short_logs() -> None:
    store = MemoryStore()
    add(store, [an_entry("a", log_with(str(10_000 + number))) for number in range(60)])
    context = HandServer(store=store).context
    waiting = list[int]()

    def add_one() -> bool:
        with store.transaction() as tx:
            tx.add_to_record([an_entry("c")])
            waiting.append(len(tx.unsealed_entries(100)))
        return True

    assert len(hash_again(context, context.clock, add_one) or ()) == 60
    assert len(waiting) == 60
    assert max(waiting) == 20


def test_a_few_entries_that_come_while_logs_are_hashed_are_sealed_by_the_transaction_that_signs() -> None:
    memory = MemoryStore()
    add(memory, [an_entry("a"), an_entry("b", WITH)])
    store = _CountingStore(memory)
    context = HandServer(store=store).context
    store.writes.clear()

    def add_one() -> bool:
        with memory.transaction() as tx:
            tx.add_to_record([an_entry("c")])
        return True

    assert hash_again(context, context.clock, add_one) == {(OWN_LOG, 1): 1, (WITH, 1): 1}
    assert store.writes == []
    with memory.transaction() as tx:
        found = sign_heads(tx, SIGNER, 1, salts)
    assert max(one.size for one in found) == 3


def test_a_server_that_lost_its_lease_hashes_no_further_and_signs_nothing() -> None:
    store = MemoryStore()
    add(store, [an_entry("a")])

    context = HandServer(store=store).context
    RecordSealer(context, without_peers(context), lambda: False, lambda: None, lambda: 0.0, QuietWakeup()).sign()

    with store.reading() as tx:
        assert tx.newest_checkpoint(OWN_LOG, 1) is None


def test_people_are_notified_of_a_damaged_record_once() -> None:
    store = MemoryStore()
    add(store, [an_entry("a")])
    server = notified(HandServer(store=store))
    _flip(store, 1, b'"a"', b'"b"')
    sealer = RecordSealer(
        server.context, without_peers(server.context), lambda: True, lambda: None, lambda: 0.0, QuietWakeup()
    )  # fmt: skip
    for _ in range(2):
        sealer.sign()

    (found,) = [one.notification for one in notifications(server) if one.target == OPS]
    assert found.sentence == "The record of this party is damaged: entry 0 of its log own is not what was sealed."


def _flip(store: MemoryStore, entry_id: int, old: bytes, new: bytes) -> None:
    row = store._rows.record.rows[entry_id]
    with store.transaction():
        store._rows.record.put(entry_id, changed(row, content=row.content.replace(old, new)))
