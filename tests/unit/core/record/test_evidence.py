"""Two signed heads of one log: what of them is proof against whoever has signed them."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace

import pytest

from fate_flow.core.record.checkpoint import Checkpoint
from fate_flow.core.record.note import Note, Signature, sign_note
from fate_flow.core.record.offline.bundle import BadBundle, document_in
from fate_flow.core.record.offline.evidence import FORMAT, Evidence, TwoPasts, evidence_in, evidence_text
from fate_flow.core.record.offline.policy import Policy
from fate_flow.core.record.tree import consistency_proof, hash_by, leaf_hash, root_of
from tests.kit.core.signers import Signer, has_signed

LIAR, OTHER = Signer("A/with/1/1"), Signer("B/with/1/1")
POLICY = Policy({one.key.name: (one.key,) for one in (LIAR, OTHER)})
ONE, ANOTHER = ([leaf_hash(f"{past} {index}".encode()) for index in range(9)] for past in ("one", "another"))


def head(leaves: list[bytes], size: int, signer: Signer = LIAR, by: Signer | None = None) -> Note:
    text = Checkpoint(signer.key.name, size, root_of(leaves[:size])).text()
    return sign_note(text, signer.key, (by or signer).sign)


def shown(leaves: list[bytes], first: int, second: int) -> tuple[bytes, ...]:
    return (root_of(leaves[:first]), *consistency_proof(first, second, hash_by(leaves[:second])))


@pytest.mark.parametrize(("first", "second"), [(1, 1), (9, 9), (1, 2), (2, 9), (3, 7), (4, 8), (8, 9)])
def test_two_pasts_are_proof(first: int, second: int) -> None:
    said = shown(ANOTHER, first, second) if first < second else ()
    found = TwoPasts(head(ONE, first), head(ANOTHER, second), said)
    assert [one.size for one in found.heads(POLICY, has_signed)] == [first, second]


@pytest.mark.parametrize("found", [
    TwoPasts(head(ONE, 3), head(ONE, 3)), TwoPasts(head(ONE, 3), head(ONE, 7)),
    TwoPasts(head(ONE, 3), head(ANOTHER, 7)),
    TwoPasts(head(ONE, 3), head(ONE, 7), shown(ONE, 3, 7)),              # it goes on from the first one
    TwoPasts(head(ONE, 3), head(ONE, 7), shown(ANOTHER, 3, 7)),          # it does not go on from that root
    TwoPasts(head(ONE, 4), head(ANOTHER, 8), shown(ONE, 4, 8)),
    TwoPasts(head(ONE, 3), head(ANOTHER, 7), shown(ANOTHER, 4, 7)),
    TwoPasts(head(ONE, 3), head(ANOTHER, 7), shown(ANOTHER, 3, 7)[:1]),
    TwoPasts(head(ANOTHER, 7), head(ONE, 3), shown(ANOTHER, 3, 7)),
    TwoPasts(head(ONE, 3), head(ANOTHER, 3, OTHER)),                     # heads of two logs
])  # fmt: skip
def test_what_an_honest_party_may_have_signed_is_no_proof(found: TwoPasts) -> None:
    with pytest.raises(BadBundle, match="nothing shows that the head of"):
        found.heads(POLICY, has_signed)


@pytest.mark.parametrize("forged", [head(ANOTHER, 3, by=OTHER), replace(head(ANOTHER, 3), text=head(ONE, 2).text)])
def test_what_the_log_has_not_signed_is_no_proof(forged: Note) -> None:
    for found in (TwoPasts(head(ONE, 3), forged), TwoPasts(forged, head(ONE, 3))):
        with pytest.raises(BadBundle, match=r"a signature of A/with/1/1 .* that does not hold"):
            found.heads(POLICY, has_signed)


def test_a_wrong_signature_of_another_key_of_the_log_excuses_nobody() -> None:
    newer = Signer(LIAR.key.name, seed=bytes(32))
    policy = Policy({LIAR.key.name: (newer.key, LIAR.key)})
    wrong = Signature(newer.key.name, newer.key.key_id, bytes(64))
    found = TwoPasts(head(ONE, 3).with_signatures([wrong]), head(ANOTHER, 3).with_signatures([wrong]))
    assert [one.size for one in found.heads(policy, has_signed)] == [3, 3]


def test_a_log_without_a_key_in_the_policy_is_named() -> None:
    with pytest.raises(BadBundle, match="the policy has no key for the log A/with/1/1"):
        TwoPasts(head(ONE, 3), head(ANOTHER, 3)).heads(Policy({OTHER.key.name: (OTHER.key,)}), has_signed)


def evidence(first: Note, second: Note, said: tuple[bytes, ...] = (), is_proof: bool = True) -> Evidence:
    return Evidence("10000", is_proof, LIAR.key.name, 3, str(first), str(second), 1, said)


def test_the_file_has_the_proofs() -> None:
    proofs = [evidence(head(ONE, 3), head(ANOTHER, 3)), evidence(head(ONE, 3), head(ANOTHER, 7), shown(ANOTHER, 3, 7))]
    text = evidence_text([*proofs, evidence(head(ONE, 3), head(ANOTHER, 8), is_proof=False)])
    assert evidence_in(document_in(text)) == (
        TwoPasts(head(ONE, 3), head(ANOTHER, 3)), TwoPasts(head(ONE, 3), head(ANOTHER, 7), shown(ANOTHER, 3, 7)),
    )  # fmt: skip


@pytest.mark.parametrize(("listed", "problem"), [
    (None, "is no fate_flow record evidence of version 1"),
    ({}, "is no fate_flow record evidence of version 1"),
    (["x"], r"evidence\[0\]: needs first and second"),
    ([{"first": str(head(ONE, 3)), "second": 1}], r"evidence\[0\]: needs first and second"),
    ([{"first": str(head(ONE, 3)), "second": "x\n"}], r"evidence\[0\]: a note has"),
    ([{"first": str(head(ONE, 3)), "second": str(head(ONE, 4)), "shown": "x"}], r"evidence\[0\]: shown: is no list"),
    ([{"first": str(head(ONE, 3)), "second": str(head(ONE, 4)), "shown": [7]}], r"evidence\[0\]: shown: is no list"),
    ([{"first": str(head(ONE, 3)), "second": str(head(ONE, 4)), "shown": [b64encode(bytes(32)).decode()] * 66}],
     r"evidence\[0\]: shown: is no list of at most"),
])  # fmt: skip
def test_a_file_that_is_none_is_refused_by_the_place(listed: object, problem: str) -> None:
    with pytest.raises(BadBundle, match=problem):
        evidence_in(document_in(json.dumps({"format": FORMAT, "version": 1, "evidence": listed})))
