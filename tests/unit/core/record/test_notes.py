"""Signed notes, checkpoints, cosignatures and proofs: the published examples, and texts that are changed."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.record.checkpoint import Checkpoint, checked_checkpoint, cosign, cosigned_at, read_checkpoint
from fate_flow.core.record.note import (
    COSIGNATURE,
    BadNote,
    NoteKey,
    check_note,
    read_note,
    read_note_key,
    read_signatures,
    sign_note,
)
from fate_flow.core.record.proof import EntryProof, NewCheckpoint, read_entry_proof, read_new_checkpoint
from fate_flow.core.record.tree import (
    EMPTY_ROOT,
    consistency_proof,
    hash_by,
    inclusion_proof,
    is_consistent,
    leaf_hash,
    root_of,
)
from tests.kit.core.signers import Signer, has_signed

NEUMANN = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
NEUMANN_SEED = b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
NEUMANN_NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
"""The example of Go's `sumdb/note`, whose format C2SP has taken over: its key, private key and note."""

LOG, WITNESS = Signer("example.com/log"), Signer("example.com/witness", COSIGNATURE)
LEAVES = [leaf_hash(str(one).encode()) for one in range(7)]
HEAD = Checkpoint("example.com/log", 7, root_of(LEAVES))


def signed_head() -> str:
    note = sign_note(HEAD.text(), LOG.key, LOG.sign)
    return str(note.with_signatures([cosign(note, WITNESS.key, 1_700_000_000, WITNESS.sign)]))


def test_the_published_note_is_read_and_made_to_the_letter() -> None:
    key, note = read_note_key(NEUMANN), read_note(NEUMANN_NOTE)
    signer = Signer("PeterNeumann", seed=NEUMANN_SEED)

    check_note(note, key, has_signed)
    assert key.text() == NEUMANN
    assert signer.key == key
    assert str(sign_note(note.text, key, signer.sign)) == NEUMANN_NOTE


def test_the_ids_of_keys_depend_on_the_type_of_their_signatures() -> None:
    as_log, as_witness = NoteKey("a", bytes(32)), NoteKey("a", bytes(32), COSIGNATURE)

    assert as_log.key_id != as_witness.key_id
    assert read_note_key(as_witness.text()) == as_witness


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "a+b+c", NEUMANN.replace("c74f20a3", "c74f20a4"), NEUMANN.replace("PeterNeumann", "Peter"),
        NEUMANN[:-4], f"a+00000000+{b64encode(bytes([6]) + bytes(32)).decode()}",
    ],
)  # fmt: skip
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(BadNote):
        read_note_key(text)


def test_a_signature_of_an_unknown_key_is_ignored_and_a_wrong_one_of_a_known_key_is_not() -> None:
    note = sign_note("text\n", LOG.key, LOG.sign)
    other = Signer("example.com/log", seed=bytes(32))
    check_note(note.with_signatures(sign_note("other\n", other.key, other.sign).signatures), LOG.key, has_signed)

    with pytest.raises(BadNote, match="does not hold"):
        check_note(note.with_signatures(sign_note("other\n", LOG.key, LOG.sign).signatures), LOG.key, has_signed)
    with pytest.raises(BadNote, match="no signature"):
        check_note(note, other.key, has_signed)


def test_a_checkpoint_says_what_log_and_witness_have_signed() -> None:
    note = read_note(signed_head())

    assert checked_checkpoint(note, LOG.key, has_signed) == HEAD
    assert cosigned_at(note, WITNESS.key, has_signed) == 1_700_000_000
    assert cosigned_at(note, Signer("another", COSIGNATURE).key, has_signed) is None


def test_a_checkpoint_of_another_log_is_refused() -> None:
    other = Signer("example.com/other")
    note = sign_note(HEAD.text(), other.key, other.sign)

    with pytest.raises(BadNote, match=r"not of example\.com/other"):
        checked_checkpoint(note, other.key, has_signed)


@given(st.data())
def test_a_changed_checkpoint_is_never_believed(data: st.DataObject) -> None:
    text = signed_head()
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.characters(codec="utf-8")) + text[at + data.draw(st.integers(0, 2)) :]
    try:
        note = read_note(changed)
        found = checked_checkpoint(note, LOG.key, has_signed)
        seen = cosigned_at(note, WITNESS.key, has_signed)
    except BadNote:
        return
    assert found == HEAD
    assert seen in (None, 1_700_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "a\n1\n", "a\n01\nAAAA\n", f"a\n-1\n{b64encode(bytes(32)).decode()}\n",
        f"\n1\n{b64encode(bytes(32)).decode()}\n",
        f"a\n1\n{b64encode(bytes(31)).decode()}\n", f"a\n0\n{b64encode(bytes(32)).decode()}\n",
        f"a\n1\n{b64encode(bytes(32)).decode()}\n\n", f"a\n{2**63}\n{b64encode(bytes(32)).decode()}\n",
    ],
)  # fmt: skip
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(BadNote):
        read_checkpoint(text)


def test_a_log_without_entries_has_a_checkpoint() -> None:
    empty = Checkpoint("a", 0, EMPTY_ROOT)

    assert read_checkpoint(empty.text()) == empty


def test_extension_lines_are_kept_and_signed() -> None:
    with_line = Checkpoint("a", 1, bytes(32), ("something",))

    assert read_checkpoint(with_line.text()) == with_line


@pytest.mark.parametrize("text", ["text", "", "a\x00b\n", "a\tb\n", "a\ud800b\n"])
def test_a_text_that_no_note_may_have_is_not_signed(text: str) -> None:
    with pytest.raises(BadNote):
        sign_note(text, LOG.key, LOG.sign)


@pytest.mark.parametrize(
    "text",
    ["text\n", "text\n\n", "text\n\n- a AAAAAAA=\n", "text\n\n\u2014 a AAAA\n", "text\n\n\u2014  AAAAAAA=\n",
     "a\n\n\u2014 b c\n", "text\n\n\u2014 a AAAAAAA=", "text\n\n" + "\u2014 a AAAAAAA=\n" * 65,
     "te\ud800xt\n\n\u2014 a AAAAAAA=\n", "text\n\n\u2014 a\udfff AAAAAAA=\n"],
)  # fmt: skip
def test_what_is_no_note_is_refused(text: str) -> None:
    with pytest.raises(BadNote):
        read_note(text)


def test_the_answer_of_a_witness_is_lines_of_signatures() -> None:
    note = read_note(signed_head())

    assert read_signatures("".join(one.line() for one in note.signatures)) == note.signatures
    with pytest.raises(BadNote):
        read_signatures("no signature\n")


@pytest.mark.parametrize("extra", [None, b"", b"anything"])
def test_a_proof_of_an_entry_can_be_read_and_checked(extra: bytes | None) -> None:
    proof = EntryProof(3, inclusion_proof(3, 7, hash_by(LEAVES)), read_note(signed_head()), extra)
    read = read_entry_proof(str(proof))

    assert read == proof
    assert str(proof).startswith("c2sp.org/tlog-proof@v1\n")
    assert read.shows(b"3")
    assert not read.shows(b"4")


def test_the_message_to_a_witness_can_be_read_and_checked() -> None:
    message = NewCheckpoint(4, consistency_proof(4, 7, hash_by(LEAVES)), read_note(signed_head()))
    read = read_new_checkpoint(str(message))

    assert read == message
    assert str(message).startswith("old 4\n")
    assert is_consistent(4, root_of(LEAVES[:4]), 7, HEAD.root, read.hashes)


@pytest.mark.parametrize(
    "head",
    ["", "c2sp.org/tlog-proof@v1", "c2sp.org/tlog-proof@v1\nindex x", "c2sp.org/tlog-proof@v1\nindex 03",
     "c2sp.org/tlog-proof@v1\nextra !\nindex 3", "c2sp.org/tlog-proof@v2\nindex 3",
     "c2sp.org/tlog-proof@v1\nindex 3\nAAAA",
     "c2sp.org/tlog-proof@v1\nindex 3\n" + "\n".join([b64encode(bytes(32)).decode()] * 64)],
)  # fmt: skip
def test_what_is_no_proof_is_refused(head: str) -> None:
    with pytest.raises(BadNote):
        read_entry_proof(f"{head}\n\n{signed_head()}")
    with pytest.raises(BadNote):
        read_new_checkpoint(f"{head}\n\n{signed_head()}")
