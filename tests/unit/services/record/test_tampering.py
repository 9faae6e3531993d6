"""Tampering at random: with rows of a log, with a file, and on the wire. It is all named, and nobody else is accused.

`bin/test` tries some of each way. With `bin/test --heavy` it is 10,000 in all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest

from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.record.checkpoint import Checkpoint, checked_checkpoint
from fate_flow.core.record.comparison import Finding, Outcome, Place, Side, compare
from fate_flow.core.record.entry import OWN_LOG, log_with, read_entry
from fate_flow.core.record.log import StoredCheckpoint
from fate_flow.core.record.note import BadNote, sign_note
from fate_flow.core.record.offline.bundle import BadBundle, bundle_text, read_bundle
from fate_flow.core.record.proof import NewCheckpoint, ProvedEntry, read_new_checkpoint
from fate_flow.core.record.tree import Edge, consistency_proof, hash_by, leaf_hash
from fate_flow.core.record.witness import Seen, seen_in
from fate_flow.services.record.checkpoints import LogSigner, origin_of
from fate_flow.services.record.entries import of_answered, of_received, of_sent
from fate_flow.services.record.epochs import open_next_epoch
from fate_flow.services.record.proving import prove
from fate_flow.services.record.reading import sealed_in
from fate_flow.services.record.reconciling import LogReader, TheirLog, epochs_in, keep_heads, messages_in_both
from fate_flow.services.record.verifying import State
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.memory.store import MemoryStore
from tests.kit.core.signers import Signer, has_signed
from tests.kit.services.records import OWN, ROOT, SIGNER, add, an_entry, salts, sign, verified
from tests.kit.services.tampering import TOTAL, WAYS, Rows, Way, a_log, alter_beside, fork, truncate
from tests.kit.values import HOST, JOB_ID

ALL, SOME = 10_000, 500
AMOUNTS = [SOME, pytest.param(ALL, marks=pytest.mark.heavy)]
_OTHER = Signer("another")
_ANOTHER_KEY = LogSigner(ROOT, _OTHER.key.key, _OTHER.sign)


class _Undo(Exception):
    """Ends a transaction."""


@contextmanager
def undone(store: MemoryStore) -> Iterator[Transaction]:
    """A transaction of which nothing is kept."""
    with suppress(_Undo), store.transaction() as tx:
        yield tx
        raise _Undo


# ---------------------------------------------------------------------- the rows of a database

_OF_HASHES = tuple(one for one in WAYS if one is not alter_beside)


def as_it_is(rows: Rows) -> None:
    """Nothing else is changed."""


def recompute(rows: Rows) -> None:
    rows.seal_anew()


def sign_by_another_key(rows: Rows) -> None:
    rows.seal_anew()
    sign_anew(rows, _ANOTHER_KEY)


def sign_by_own_key(rows: Rows) -> None:
    rows.seal_anew()
    sign_anew(rows, SIGNER)


def sign_anew(rows: Rows, signer: LogSigner) -> None:
    """The only checkpoint is one of the log as it is now."""
    edge, origin = edge_of(rows), origin_of(ROOT, OWN_LOG, 1)
    with rows.store.transaction() as tx:
        for key in list(rows.store._rows.checkpoints.rows):
            rows.store._rows.checkpoints.drop(key)
        if edge.size:
            note = sign_note(Checkpoint(origin, edge.size, edge.root).text(), signer.key_of(origin), signer.sign)
            tx.put_checkpoint(OWN_LOG, StoredCheckpoint(1, edge.size, str(note), 1))


def edge_of(rows: Rows) -> Edge:
    return Edge().with_leaves(tuple(leaf_hash(one.content) for one in rows.entries))


CASES: Sequence[tuple[Way, Callable[[Rows], None]]] = [
    *((way, as_it_is) for way in (*WAYS, fork)),
    *((way, then) for then in (recompute, sign_by_another_key, sign_by_own_key) for way in (*_OF_HASHES, fork)),
]


@pytest.mark.parametrize("amount", AMOUNTS)
def test_rows_that_were_tampered_with_are_named(amount: int) -> None:
    store = a_log()
    kept = edge_of(Rows(store))
    for seed in range(amount * 4 // 10):
        way, then = CASES[seed % len(CASES)]
        with undone(store):
            rows = Rows(store)
            first = way(rows, Random(seed))
            then(rows)
            _check_rows(rows, first, then, kept, seed)
    assert verified(store).state is State.ANCHORED, "all was undone"


def _check_rows(rows: Rows, first: int, then: Callable[[Rows], None], kept: Edge, seed: int) -> None:
    found = verified(rows.store)
    if then is as_it_is:
        assert (found.state, found.broken_at) == (State.BROKEN, first), (seed, found.why)
    elif then is recompute:
        assert found.state is State.BROKEN, (seed, found.why)
        assert found.broken_at in {first, 0 if first < 8 else 8, found.size}, (seed, found.why)
    elif then is sign_by_another_key and rows.entries:
        assert found.state is State.BROKEN, (seed, found.why)
        assert found.broken_at in {0, first}, (seed, found.why)
    else:
        assert found.state is not State.ANCHORED, (seed, found.why)
        assert said_by_witness(rows, kept) is not Seen.CONTINUES, seed


def said_by_witness(rows: Rows, kept: Edge) -> Seen:
    """What a peer that has cosigned the log as it was says to the log as it is, with an honest proof."""
    new, leaves = edge_of(rows), tuple(leaf_hash(one.content) for one in rows.entries)
    proof = consistency_proof(kept.size, new.size, hash_by(leaves)) if kept.size <= new.size else ()
    note = sign_note("x\n", SIGNER.key_of("x"), SIGNER.sign)
    return seen_in(
        NewCheckpoint(min(kept.size, new.size), tuple(proof), note), Checkpoint("x", new.size, new.root),
        Checkpoint("x", kept.size, kept.root),
    )  # fmt: skip


# ---------------------------------------------------------------------- files

SIZE = 6


@cache
def a_file(past: str = "") -> str:
    """The whole log of party 10000 with party 9999, as its operator sends it. `past`: what the entries say."""
    store = MemoryStore()
    add(store, [an_entry(f"{past}{one}", log_with("9999")) for one in range(SIZE)])
    sign(store)
    with store.reading() as tx:
        return bundle_text([*prove(tx, tx.sealed_entries(log_with("9999"), 1, 0, SIZE))])


def read(text: str) -> TheirLog:
    return LogReader("10000", "9999", [ROOT], [OWN.key.key], has_signed).read(epochs_in(read_bundle(text).entries))


Listed = list[dict[str, str]]


def drop_one(listed: Listed, random: Random) -> int:
    at = random.randrange(SIZE)
    del listed[at]
    return at


def cut_the_end(listed: Listed, random: Random) -> int:
    at = random.randrange(1, SIZE)
    del listed[at:]
    return at


def double_one(listed: Listed, random: Random) -> int:
    at = random.randrange(SIZE)
    listed.insert(at, listed[at])
    return at + 1


def swap_two(listed: Listed, random: Random) -> int:
    one, other = sorted(random.sample(range(SIZE), 2))
    listed[one], listed[other] = listed[other], listed[one]
    return one


def insert_one(listed: Listed, random: Random) -> int:
    at = random.randrange(SIZE + 1)
    listed.insert(at, json.loads(a_file("other "))["entries"][random.randrange(SIZE)])
    return at


def change_one(listed: Listed, random: Random) -> int:
    at = random.randrange(SIZE)
    entry = json.loads(listed[at]["entry"])
    entry["at"] += random.randrange(1, 1_000)
    listed[at]["entry"] = json.dumps(entry, sort_keys=True, separators=(",", ":"))
    return at


OF_FILES = [drop_one, cut_the_end, double_one, swap_two, insert_one, change_one]


def reconcile(tx: Transaction, own: str, theirs: TheirLog, at: int) -> tuple[Finding, ...]:
    return (*keep_heads(tx, theirs, at), *messages_in_both(tx, own, theirs))


@pytest.mark.parametrize("amount", AMOUNTS)
def test_a_file_that_was_tampered_with_is_named_at_its_first_entry(amount: int) -> None:
    for seed in range(amount * 15 // 100):
        document, random = json.loads(a_file()), Random(seed)
        first = OF_FILES[seed % len(OF_FILES)](document["entries"], random)
        with pytest.raises(BadBundle) as refused:
            read(json.dumps(document))
        # A file that begins with an entry of another checkpoint is one of that checkpoint.
        assert f"entry {first}" in str(refused.value) or first == 0, (seed, str(refused.value))


@pytest.mark.parametrize("amount", AMOUNTS)
def test_a_letter_of_a_file_that_was_changed_is_refused_or_changes_nothing(amount: int) -> None:
    whole, text = read(a_file()), a_file()
    for seed in range(amount // 10):
        random = Random(seed)
        at = random.randrange(len(text))
        changed = text[:at] + chr(ord(text[at]) ^ 1 << random.randrange(7)) + text[at + 1 :]
        if seed % 5 == 4:
            changed = text[:at]                  # the end is missing
        with suppress(BadBundle):
            found = read(changed)
            assert found.epochs[0].head == whole.epochs[0].head, (seed, text[at], changed[at])
            assert found.entries == whole.entries, (seed, text[at], changed[at])


def test_a_file_that_its_own_party_has_signed_anew_has_two_pasts() -> None:
    with MemoryStore().transaction() as tx:
        assert not any(one.accused for one in reconcile(tx, "9999", read(a_file()), 1))
        found = reconcile(tx, "9999", read(a_file("another past ")), 2)
    assert [(one.outcome, one.accused) for one in found if one.accused] == [(Outcome.EQUIVOCATION, ("10000",))]


def a_file_of_two_epochs(past: str, present: str) -> str:
    """A file whose first epoch is of one past, and whose second epoch has followed another one."""
    def proved(said: str) -> list[ProvedEntry]:
        store = MemoryStore()
        add(store, [an_entry(f"{said}{one}", log_with("9999")) for one in range(SIZE)])
        sign(store)
        with store.transaction() as tx:
            open_next_epoch(tx, log_with("9999"), 1, "restored")
        sign(store)
        with store.reading() as tx:
            return [*prove(tx, [one for epoch in (1, 2) for one in sealed_in(tx, log_with("9999"), epoch)])]

    return bundle_text([*proved(past)[:SIZE], *proved(present)[SIZE:]])


@pytest.mark.parametrize(("past", "accused"), [("", []), ("another past ", [Outcome.EQUIVOCATION])])
def test_a_past_that_the_next_epoch_contradicts_is_one_of_two(past: str, accused: list[Outcome]) -> None:
    """Nothing of it was kept here before."""
    with MemoryStore().transaction() as tx:
        found = reconcile(tx, "9999", read(a_file_of_two_epochs(past, "")), 1)
    assert [one.outcome for one in found if one.accused] == accused


Epochs = Sequence[int]
_ALL_EPOCHS, _SECOND = (1, 1_000, 2_000), 1_000


def a_log_of_three_epochs(lost: int = 0) -> MemoryStore:
    """`lost`: how many entries of the second epoch a backup did not have that was restored then."""
    store, log = MemoryStore(), log_with("9999")
    for number, name in enumerate("abc"):
        if number:
            with store.transaction() as tx:
                open_next_epoch(tx, log, number * 1_000_000, "restored")
        kept = 4 - lost if number == 1 else 4
        if kept:
            add(store, [an_entry(f"{name}{one}", log) for one in range(kept)])
            if not (lost and number == 1):
                sign(store)
    return store


def of_epochs(store: MemoryStore, epochs: Epochs) -> TheirLog:
    with store.reading() as tx:
        entries = [one for epoch in epochs for one in sealed_in(tx, log_with("9999"), epoch)]
        return read(bundle_text([*prove(tx, entries)]))


@pytest.mark.parametrize("epochs", [(1, 2_000), (2_000,), (1, _SECOND), (1,)])
def test_a_file_without_a_signed_epoch_whose_head_is_kept_is_refused(epochs: Epochs) -> None:
    store = a_log_of_three_epochs()
    with MemoryStore().transaction() as tx:
        reconcile(tx, "9999", of_epochs(store, _ALL_EPOCHS), 1)
        missing = min(set(_ALL_EPOCHS) - set(epochs))
        with pytest.raises(BadBundle, match=f"epoch {missing} is missing, and party 10000 has signed") as refused:
            reconcile(tx, "9999", of_epochs(store, epochs), 2)
        assert "head that is kept here" in str(refused.value)


def test_an_epoch_that_was_lost_by_a_backup_and_is_called_so_is_no_reason_to_refuse_a_file() -> None:
    """What was signed after the backup is kept here; its party has the rest of that epoch, which it never signed."""
    with MemoryStore().transaction() as tx:
        reconcile(tx, "9999", of_epochs(a_log_of_three_epochs(), (1, _SECOND)), 1)
        found = reconcile(tx, "9999", of_epochs(a_log_of_three_epochs(lost=2), _ALL_EPOCHS), 2)
    assert not any(one.accused for one in found)


@pytest.mark.parametrize("amount", AMOUNTS)
def test_a_letter_of_a_message_to_a_witness_that_was_changed_is_refused_or_changes_nothing(amount: int) -> None:
    rows = Rows(a_log())
    leaves = tuple(leaf_hash(one.content) for one in rows.entries)
    old, new, origin = Edge().with_leaves(leaves[:8]), Edge().with_leaves(leaves), origin_of(ROOT, OWN_LOG, 1)
    head, kept = Checkpoint(origin, TOTAL, new.root), Checkpoint(origin, 8, old.root)
    note = sign_note(head.text(), SIGNER.key_of(origin), SIGNER.sign)
    text = str(NewCheckpoint(8, tuple(consistency_proof(8, TOTAL, hash_by(leaves))), note))
    assert heard(text, kept) == head
    for seed in range(amount // 10):
        random = Random(seed)
        at = random.randrange(len(text))
        changed = text[:at] + chr(ord(text[at]) ^ 1 << random.randrange(7)) + text[at + 1 :]
        assert heard(changed, kept) in (None, head), (seed, text[at], changed[at])


def heard(text: str, kept: Checkpoint) -> Checkpoint | None:
    """What a witness would cosign after this message; None if it refuses."""
    try:
        said = read_new_checkpoint(text)
        new = checked_checkpoint(said.checkpoint, SIGNER.key_of(kept.origin), has_signed)
    except BadNote:
        return None
    return new if seen_in(said, new, kept) is Seen.CONTINUES else None


# ---------------------------------------------------------------------- messages

MESSAGES = 6
Delivered = list[tuple[Command, Command | None, bool]]
"""What was sent, what has arrived (None: nothing), and whether its answer says that it was recorded."""


def honest() -> Delivered:
    sent = [
        Command(CommandKind.START, JOB_ID, HOST, 0, body={"n": number}, salt=salts()) for number in range(MESSAGES)
    ]
    return [(one, one, True) for one in sent]


def alter_body(wire: Delivered, random: Random) -> tuple[int, Outcome]:
    at = random.randrange(MESSAGES)
    sent, arrived, is_recorded = wire[at]
    assert arrived is not None
    wire[at] = sent, replace(arrived, body={"n": random.randrange(100, 200)}), is_recorded
    return at, Outcome.ALTERED


def forge_acknowledgement(wire: Delivered, random: Random) -> tuple[int, Outcome]:
    """The receiver says that it has recorded a message, and has not: but what was sent afterwards."""
    at = random.randrange(MESSAGES - 1)
    wire[at] = wire[at][0], None, True
    return at, Outcome.MISSING


def lose(wire: Delivered, random: Random) -> tuple[int, Outcome]:
    at = random.randrange(MESSAGES)
    wire[at] = wire[at][0], None, False
    return at, Outcome.IN_DOUBT


def lose_the_end(wire: Delivered, random: Random) -> tuple[int, Outcome]:
    at = random.randrange(MESSAGES)
    for number in range(at, MESSAGES):
        wire[number] = wire[number][0], None, False
    return at, Outcome.IN_DOUBT


def deliver_twice(wire: Delivered, random: Random) -> tuple[int, Outcome]:
    wire.insert(random.randrange(MESSAGES), wire[random.randrange(MESSAGES)])
    return 0, Outcome.AGREED


def deliver_in_another_order(wire: Delivered, random: Random) -> tuple[int, Outcome]:
    random.shuffle(wire)
    return 0, Outcome.AGREED


OF_MESSAGES = [alter_body, forge_acknowledgement, lose, lose_the_end, deliver_twice, deliver_in_another_order]
ACCUSED: Mapping[Outcome, set[str]] = {Outcome.ALTERED: {"9999", "10000"}, Outcome.MISSING: {"10000"}}


@pytest.mark.parametrize("amount", AMOUNTS)
def test_messages_that_were_tampered_with_have_their_outcome_and_nobody_else_is_accused(amount: int) -> None:
    for seed in range(amount // 4):
        wire, random = honest(), Random(seed)
        numbers = [read_entry(of_sent(sent, 1).content)["number"] for sent, _, _ in wire]
        at, outcome = OF_MESSAGES[seed % len(OF_MESSAGES)](wire, random)
        found = {one.number: one for one in _findings(wire)}

        assert found[numbers[at]].outcome is outcome, (seed, found[numbers[at]])
        others = range(at) if outcome is Outcome.IN_DOUBT else (one for one in range(MESSAGES) if one != at)
        assert {found[numbers[one]].outcome for one in others} <= {Outcome.AGREED}, seed
        assert {party for one in found.values() for party in one.accused} == ACCUSED.get(outcome, set()), seed


def _findings(wire: Delivered) -> tuple[Finding, ...]:
    ours, theirs = dict[Place, Mapping[str, Any]](), dict[Place, Mapping[str, Any]]()
    for sent, arrived, is_recorded in wire:
        answer = Answer(0, data={"n": sent.body["n"]}, is_recorded=is_recorded)
        ours[1, len(ours)] = read_entry(of_sent(sent, 1).content)
        if arrived is not None:
            theirs[1, len(theirs)] = read_entry(of_received(arrived, "9999", answer, 1, salts).content)
        if arrived is not None or is_recorded:
            ours[1, len(ours)] = read_entry(of_answered(sent, answer, 1).content)
    return compare(Side("9999", ours), Side("10000", theirs))


def test_what_was_cut_off_is_seen_by_a_peer_alone() -> None:
    """With the keys: in itself the log is consistent."""
    store = a_log()
    rows = Rows(store)
    kept = edge_of(rows)
    truncate(rows, Random(1))
    sign_by_own_key(rows)

    assert verified(store).state is State.CONSISTENT
    assert said_by_witness(rows, kept) in (Seen.STALE, Seen.INCONSISTENT, Seen.MALFORMED)
