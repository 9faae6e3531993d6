"""What a witness cosigns and what it refuses: `add-checkpoint` of C2SP tlog-witness."""

from __future__ import annotations

import logging

import pytest

from fate_flow.core.access.key_list import KeyState
from fate_flow.core.notifications.notification import Occasion
from fate_flow.core.record.checkpoint import Checkpoint, cosigned_at, read_checkpoint
from fate_flow.core.record.note import NoteKey, read_note, read_signatures, sign_note
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.core.record.proof import NewCheckpoint
from fate_flow.core.record.tree import consistency_proof, hash_by, leaf_hash, root_of
from fate_flow.services.witnesses.witnessing import WitnessReply
from tests.kit.core.signers import Signer, has_signed
from tests.kit.notifications.subscribers import notifications, notified
from tests.kit.services.witness_parties import RecordKeys, WitnessParty

LOG_KEYS = RecordKeys("9999")
ORIGIN = f"{LOG_KEYS.root}/with/10000/1"


def leaves(count: int, name: str = "") -> list[bytes]:
    return [leaf_hash(f"{name}{number}".encode()) for number in range(count)]


def message(
    old: int, size: int, name: str = "", *, origin: str = ORIGIN, signer: Signer = LOG_KEYS.own, whole: str = ""
) -> str:  # fmt: skip
    """A log of this size, with the proof that its beginning is the log of size `old`. `name`: of another past."""
    log = leaves(size, name)
    hashes = consistency_proof(old, size, hash_by(log)) if old <= size else ()
    text = Checkpoint(origin, size, root_of(log)).text()
    return whole or str(NewCheckpoint(old, hashes, sign_note(text, NoteKey(origin, signer.key.key), signer.sign)))


@pytest.fixture
def witness() -> WitnessParty:
    return WitnessParty("10000", "9999")


def say(witness: WitnessParty, text: str, caller: str = "9999") -> WitnessReply:
    return witness.witnessing.add_checkpoint(caller, text, "")


def evidence(witness: WitnessParty) -> tuple[Evidence, ...]:
    with witness.store.reading() as tx:
        found: tuple[Evidence, ...] = tx.evidence()
    return found


def test_a_new_checkpoint_is_kept_and_cosigned(witness: WitnessParty) -> None:
    for old, size in ((0, 3), (3, 4), (4, 11), (11, 11)):
        text = message(old, size)
        reply = say(witness, text)
        assert reply.status == 200
        note = read_note(text.partition("\n\n")[2]).with_signatures(read_signatures(reply.text))
        assert cosigned_at(note, witness.keys.witness.key, has_signed) == witness.server.now // 1000
        (held,) = witness.witnessing.held_of("9999").notes
        assert read_checkpoint(read_note(held).text).size == size
    assert evidence(witness) == ()


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (message(0, 6), 409), (message(4, 6), 409), (message(0, 2), 409), (message(7, 6), 400),
        (message(5, 6, origin=f"{LOG_KEYS.root}/with/10001/1"), 404), (message(5, 6, origin="other/with/10000/1"), 404),
        (message(5, 6, origin=f"{LOG_KEYS.root}/own/1"), 404), (message(5, 6, origin=f"{ORIGIN}x"), 404),
        (message(0, 6, origin=f"{LOG_KEYS.root}/with/10000/01"), 404), (message(0, 6, origin="1"), 404),
        (message(5, 6, signer=Signer("somebody")), 403), (message(5, 6, whole="old 5"), 400), ("", 400),
    ],
)  # fmt: skip
def test_anything_else_is_refused_and_accuses_nobody(witness: WitnessParty, text: str, status: int) -> None:
    assert say(witness, message(0, 5)).status == 200
    reply = say(witness, text)
    assert reply.status == status
    assert (reply.text == "5\n") is (status == 409)
    assert evidence(witness) == ()
    assert say(witness, message(5, 6)).status == 200


def test_two_roots_of_one_size_are_proof_and_are_logged_once(
    witness: WitnessParty, caplog: pytest.LogCaptureFixture
) -> None:
    notified(witness.server)
    say(witness, message(0, 5))
    with caplog.at_level(logging.ERROR):
        replies = [say(witness, message(old, 5, "other")) for old in (5, 0)]
    assert {(one.status, one.text) for one in replies} == {(409, "5\n")}
    (found,) = evidence(witness)
    assert (found.party_id, found.is_proof, found.size) == ("9999", True, 5)
    first, second = (read_checkpoint(read_note(text).text) for text in (found.first, found.second))
    assert (first.origin, first.size) == (second.origin, second.size)
    assert first.root != second.root
    assert [one.getMessage() for one in caplog.records if "two pasts" in one.getMessage()] == [caplog.messages[0]]
    assert {one.notification.occasion for one in notifications(witness.server)} == {Occasion.CONTRADICTION}


def test_a_larger_log_with_another_past_is_kept_and_proves_nothing_by_itself(witness: WitnessParty) -> None:
    say(witness, message(0, 5))
    assert say(witness, message(5, 8, "other")).status == 422
    (found,) = evidence(witness)
    assert (found.party_id, found.is_proof, found.size) == ("9999", False, 5)
    assert say(witness, message(5, 8)).status == 200


def test_the_log_of_a_party_without_keys_is_not_known(witness: WitnessParty) -> None:
    assert say(witness, message(0, 5), "10001").status == 404
    with witness.store.transaction() as tx:
        tx.move_party_keys("9999", KeyState.JOINED, KeyState.REVOKED, "somebody", 1)
    assert say(witness, message(0, 5)).status == 404
    assert witness.witnessing.held_of("9999").notes == ()


def test_a_party_without_a_record_is_no_witness_and_says_what_it_held(witness: WitnessParty) -> None:
    say(witness, message(0, 5))
    object.__setattr__(witness.context, "keeps_record", False)
    assert say(witness, message(5, 6)).status == 404
    assert len(witness.witnessing.held_of("9999").notes) == 1
