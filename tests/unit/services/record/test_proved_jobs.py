"""A file about a job: other parties hold all of its entries, those of the own log by commitments to its heads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.record.commitment import commitment
from fate_flow.core.record.entry import OWN_LOG, Kind, log_with, new_entry
from fate_flow.core.record.note import NoteKey
from fate_flow.core.record.offline.bundle import BadBundle, CheckedEntry, check_bundle, read_bundle
from fate_flow.core.record.offline.policy import Policy
from fate_flow.services.record.checkpoints import sign_heads
from fate_flow.services.record.proving import file_of_job, keys_of_logs, prove
from tests.kit.core.signers import has_signed
from tests.kit.services.records import add, salts
from tests.kit.services.witness_parties import WitnessParty

ALL = {"others": (2, ("10000", "10001"))}


class Parties:
    """A party with a job, and two others that cosign its logs."""

    def __init__(self) -> None:
        self.guest = WitnessParty("9999", "10000", "10001")
        self.others = [WitnessParty("10000", "9999"), WitnessParty("10001", "9999")]
        object.__setattr__(self.guest.context, "routes", frozenset({"10000", "10001"}))
        self.guest.record("a", "b", "c")
        for one in self.others:
            self.guest.record_with(one.party_id, "d", "e")
            self.guest.ask(one, one.party_id)

    def cosign(self, *others: WitnessParty) -> None:
        self.guest.wait(60)
        self.guest.sign()
        for offer in self.guest.cosigning.offers():
            for one in others:
                if one.party_id == offer.party_id:
                    reply = one.witnessing.add_checkpoint("9999", offer.text, offer.question)
                    self.guest.cosigning.answered(offer, reply.status, reply.text)

    def file(self, is_closed: bool = False) -> str:
        with self.guest.store.reading() as tx:
            return file_of_job(tx, "j1", is_closed).text

    def policy(self, quorum: str = "others") -> Policy:
        with self.guest.store.reading() as tx:
            logs = dict[str, tuple[NoteKey, ...]]()
            for key in keys_of_logs(tx, self.guest.keys.signer):
                logs[key.name] = (*logs.get(key.name, ()), key)
        return Policy(logs, {one.party_id: one.keys.witness.key for one in self.others}, ALL, quorum)

    def checked(self, text: str = "", quorum: str = "others") -> tuple[CheckedEntry, ...]:
        return check_bundle(read_bundle(text or self.file()), self.policy(quorum), has_signed)


@pytest.fixture
def parties() -> Parties:
    return Parties()


def cosigners(found: tuple[CheckedEntry, ...]) -> dict[str, list[str]]:
    """By log: who holds its entries."""
    return {one.origin.partition("/")[2]: sorted(one.cosigned) for one in found}


@pytest.mark.parametrize("is_closed", [False, True])
def test_all_parties_hold_the_own_log_and_each_the_log_with_it(parties: Parties, is_closed: bool) -> None:
    parties.cosign(*parties.others)
    found = parties.checked(parties.file(is_closed))
    assert cosigners(found) == {
        "own/1": ["10000", "10001"], "with/10000/1": ["10000"], "with/10001/1": ["10001"],
    }  # fmt: skip
    assert len(found) == 7
    assert all(one.is_enough for one in found)


def test_without_a_cosignature_the_file_proves_by_the_own_signature_alone(parties: Parties) -> None:
    parties.cosign()
    found = parties.checked()
    assert len(found) == 7
    assert not any(one.cosigned or one.is_enough for one in found)


def test_a_party_that_has_not_cosigned_yet_is_missing_in_the_own_log(parties: Parties) -> None:
    parties.cosign(parties.others[0])
    found = parties.checked()
    assert cosigners(found) == {"own/1": ["10000"], "with/10000/1": ["10000"], "with/10001/1": []}
    assert {one.is_enough for one in found if one.cosigned and "/with/" in one.origin} == {True}
    assert not any(one.is_enough for one in found if "/own/" in one.origin)
    assert all(one.is_enough for one in parties.checked(quorum="10000") if one.cosigned)


def test_a_party_that_has_left_still_holds_what_was_there_before(parties: Parties) -> None:
    """Its cosignature is older than that of the others, and of a smaller own log."""
    parties.cosign(*parties.others)
    before = {(one.origin, one.index) for one in parties.checked()}
    parties.guest.record("later")
    parties.guest.record_with("10000", "later, too")
    parties.cosign(parties.others[0])
    found = parties.checked()
    own = {one.index: sorted(one.cosigned) for one in found if "/own/" in one.origin}
    assert own == {0: ["10000", "10001"], 1: ["10000", "10001"], 2: ["10000", "10001"], 3: ["10000"]}
    assert all(one.is_enough for one in found if (one.origin, one.index) in before)


def test_a_head_that_is_not_cosigned_yet_does_not_hide_the_one_before(parties: Parties) -> None:
    parties.cosign(*parties.others)
    parties.guest.record("of no job")
    parties.guest.wait(60)
    parties.guest.sign()
    found = parties.checked()
    assert cosigners(found)["with/10000/1"] == ["10000"]


def test_a_job_without_other_parties_is_held_by_the_one_with_the_shortest_log(parties: Parties) -> None:
    parties.guest.record_with("10000", "f")
    add(parties.guest.store, [new_entry(OWN_LOG, Kind.ACT, 7, {"what": "alone"}, job_id="j2")])
    parties.cosign(*parties.others)
    with parties.guest.store.reading() as tx:
        text = file_of_job(tx, "j2", False).text
    (found,) = parties.checked(text)
    assert (found.fields["what"], list(found.cosigned)) == ("alone", ["10001"])


def of_another_entry(anchor: dict[str, Any], parties: Parties) -> None:
    anchor["entry"] = anchor["entry"].replace('"v":1', '"v":1,"w":1')


def of_another_head(anchor: dict[str, Any], parties: Parties) -> None:
    anchor["text"] = anchor["text"].replace("/own/1\n3\n", "/own/1\n2\n")


def without_salt(anchor: dict[str, Any], parties: Parties) -> None:
    anchor["salt"] = ""


def of_no_head(anchor: dict[str, Any], parties: Parties) -> None:
    entry = json.loads(parties.file())["entries"][-1]
    anchor.update(entry=entry["entry"], proof=entry["proof"])


def with_another_consistency(anchor: dict[str, Any], parties: Parties) -> None:
    anchor["consistency"] = ["AAAA"]


def with_another_signature(anchor: dict[str, Any], parties: Parties) -> None:
    proof = anchor["proof"]
    anchor["proof"] = proof[:-10] + ("A" if proof[-10] != "A" else "B") + proof[-9:]


@pytest.mark.parametrize(
    "change",
    [of_another_entry, of_another_head, without_salt, of_no_head, with_another_consistency, with_another_signature],
)
def test_an_anchor_that_was_tampered_with_is_named(
    parties: Parties, change: Callable[[dict[str, Any], Parties], None]
) -> None:  # fmt: skip
    parties.cosign(*parties.others)
    document = json.loads(parties.file())
    assert len(document["anchors"]) == 2
    change(document["anchors"][1], parties)
    with pytest.raises(BadBundle, match=r"anchors\[1\]|with/10001"):
        parties.checked(json.dumps(document))


@pytest.mark.parametrize("anchors", [{}, [1], [{"entry": "", "proof": ""}]])
def test_anchors_that_cannot_be_read_are_refused(parties: Parties, anchors: object) -> None:
    parties.cosign(*parties.others)
    document = {**json.loads(parties.file()), "anchors": anchors}
    with pytest.raises(BadBundle, match="anchors"):
        read_bundle(json.dumps(document))


def test_an_anchor_of_another_party_holds_nothing(parties: Parties) -> None:
    """Its log may commit to whatever it likes."""
    parties.cosign(*parties.others)
    bundle, policy = read_bundle(parties.file()), parties.policy()
    text, liar = bundle.anchors[0].entry.text, WitnessParty("10002")
    salt = "7e" * 32
    digest = commitment("own", bytes.fromhex(salt), text.encode())
    add(liar.store, [new_entry(log_with("10000"), Kind.HEAD, 7, {"own": digest}, salt=salt, text=text)])
    with liar.store.transaction() as tx:
        sign_heads(tx, liar.keys.signer, 1, salts)
        (proved,) = prove(tx, tx.sealed_entries(log_with("10000"), 1, 0, 1))
    lying = replace(bundle, anchors=(replace(bundle.anchors[0], entry=proved),))
    logs = {**policy.logs, proved.origin: (liar.keys.signer.key_of(proved.origin),)}
    with pytest.raises(BadBundle, match=r"a log of .*/with/10000/1 anchors no other party's"):
        check_bundle(lying, replace(policy, logs=logs), has_signed)


def test_a_quorum_asks_for_one_witness_of_a_log_with_one_party() -> None:
    policy = Policy(groups=ALL, quorum="others")
    assert [policy.suffices({"10000": 1}, log=log) for log in (OWN_LOG, log_with("10000"))] == [False, True]
    assert not policy.suffices({"10002": 1}, log=log_with("10000"))
