"""The examples of docs/reference/record-vectors.json: what other programs check themselves against."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.record.checkpoint import Checkpoint, checked_checkpoint, cosign, cosigned_at
from fate_flow.core.record.commitment import commitment, number_of
from fate_flow.core.record.entry import Kind, log_with, new_entry, read_entry
from fate_flow.core.record.note import COSIGNATURE, ED25519, read_note, read_note_key, sign_note
from fate_flow.core.record.offline.bundle import bundle_text, check_bundle, read_bundle
from fate_flow.core.record.offline.policy import Policy
from fate_flow.core.record.proof import Anchor, EntryProof, ProvedEntry, read_entry_proof
from fate_flow.core.record.segment import Segment, read_segment_text, segment_text
from fate_flow.core.record.tree import (
    consistency_proof,
    hash_by,
    inclusion_proof,
    is_consistent,
    leaf_hash,
    root_of,
)
from tests.kit.core.signers import Signer, has_signed

VECTORS = Path(__file__).parents[4] / "docs" / "reference" / "record-vectors.json"


@pytest.fixture(scope="module")
def vectors() -> dict[str, Any]:
    found = json.loads(VECTORS.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_the_commitments(vectors: dict[str, Any]) -> None:
    salt, content = bytes.fromhex(vectors["salt"]), vectors["request"].encode()

    assert number_of(salt) == vectors["number"]
    assert commitment("request", salt, content) == vectors["request_commitment"]
    assert commitment("answer", salt, content) == vectors["answer_commitment"]


def test_the_entries_and_their_tree(vectors: dict[str, Any]) -> None:
    contents = [one.encode() for one in vectors["entries"]]
    leaves = [leaf_hash(one) for one in contents]

    assert [read_entry(one)["kind"] for one in contents] == ["status", "sent", "act"]
    assert [one.hex() for one in leaves] == vectors["leaf_hashes"]
    assert [root_of(leaves[:size]).hex() for size in range(4)] == vectors["roots"]
    proof = [bytes.fromhex(one) for one in vectors["consistency_2_to_3"]]
    assert is_consistent(2, root_of(leaves[:2]), 3, root_of(leaves), proof)


def test_the_segment(vectors: dict[str, Any]) -> None:
    """The file decompresses to the text, and the text has the first two entries; compressors may differ."""
    file = b64decode(vectors["segment_file"])
    assert sha256(file).hexdigest() == vectors["segment_sha256"]
    text = gzip.decompress(file)
    assert text.decode() == vectors["segment_text"]
    about, *lines = map(json.loads, text.splitlines())
    assert [one["entry"] for one in lines] == vectors["entries"][:2]
    segment = Segment(about["log"], about["epoch"], about["first"], about["end"], 7, 9, 0, True)
    found = read_segment_text(segment, text)
    assert segment_text(segment, found) == text
    assert [(one.id, one.index, one.salt) for one in found] == [(7, 0, ""), (9, 1, vectors["salt"])]


def test_the_checkpoint_with_its_cosignature(vectors: dict[str, Any]) -> None:
    log, witness = read_note_key(vectors["log_key"]), read_note_key(vectors["witness_key"])
    note = read_note(vectors["checkpoint"])

    assert checked_checkpoint(note, log, has_signed) == Checkpoint(log.name, 3, bytes.fromhex(vectors["roots"][3]))
    assert cosigned_at(note, witness, has_signed) == 1_700_000_060


def test_the_checkpoint_is_made_to_the_letter(vectors: dict[str, Any]) -> None:
    log = Signer(read_note_key(vectors["log_key"]).name, seed=bytes.fromhex(vectors["log_seed"]))
    witness = Signer(
        read_note_key(vectors["witness_key"]).name, COSIGNATURE, bytes.fromhex(vectors["witness_seed"])
    )  # fmt: skip
    note = sign_note(Checkpoint(log.key.name, 3, bytes.fromhex(vectors["roots"][3])).text(), log.key, log.sign)

    made = note.with_signatures([cosign(note, witness.key, 1_700_000_060, witness.sign)])

    assert str(made) == vectors["checkpoint"]


def test_the_proof_of_an_entry(vectors: dict[str, Any]) -> None:
    proof = read_entry_proof(vectors["proof_of_entry_1"])

    assert str(proof) == vectors["proof_of_entry_1"]
    assert [proof.shows(one.encode()) for one in vectors["entries"]] == [False, True, False]


def made_bundle(vectors: dict[str, Any]) -> str:
    """The first entry of an own log of two, and an anchor: the entry of a log with another party that commits to the
    head of the first one alone, under a checkpoint that this party has cosigned."""
    own, log, witness = (
        Signer(read_note_key(vectors[f"{name}_key"]).name, kind, bytes.fromhex(vectors[f"{name}_seed"]))
        for name, kind in (("own_log", ED25519), ("log", ED25519), ("witness", COSIGNATURE))
    )
    contents = [vectors["entries"][0].encode(), vectors["entries"][2].encode()]
    leaves, salt = [leaf_hash(one) for one in contents], bytes.fromhex(vectors["salt"])
    head = Checkpoint(own.key.name, 1, root_of(leaves[:1])).text()
    fields = {"own": commitment("own", salt, head.encode())}
    entry = new_entry(log_with("10000"), Kind.HEAD, 1_700_000_000_003, fields).content
    whole = sign_note(Checkpoint(own.key.name, 2, root_of(leaves)).text(), own.key, own.sign)
    held = sign_note(Checkpoint(log.key.name, 1, leaf_hash(entry)).text(), log.key, log.sign)
    held = held.with_signatures([cosign(held, witness.key, 1_700_000_060, witness.sign)])
    anchor = ProvedEntry(entry, EntryProof(0, (), held), salt.hex(), head)
    proved = ProvedEntry(contents[0], EntryProof(0, inclusion_proof(0, 2, hash_by(leaves)), whole))
    return bundle_text([proved], [Anchor(anchor, consistency_proof(1, 2, hash_by(leaves)))])


def test_the_file_with_an_anchor(vectors: dict[str, Any]) -> None:
    text = json.dumps(vectors["bundle"])
    assert json.loads(made_bundle(vectors)) == vectors["bundle"]
    keys = [read_note_key(vectors[name]) for name in ("own_log_key", "log_key")]
    policy = Policy({key.name: (key,) for key in keys}, {"10000": read_note_key(vectors["witness_key"])}, {}, "10000")

    (found,) = check_bundle(read_bundle(text), policy, has_signed)
    assert (found.origin, found.index, found.is_enough) == ("MFRGG/own/1", 0, True)
    assert found.cosigned == {"10000": 1_700_000_060}
