"""Entries and their commitments: what is hashed, and what is refused."""

from __future__ import annotations

from hashlib import sha256

import pytest

from fate_flow.core.record.commitment import commitment, number_of, opens
from fate_flow.core.record.entry import (
    MOST_BYTES,
    OWN_LOG,
    BadEntry,
    Kind,
    is_digest,
    log_with,
    new_entry,
    other_party,
    read_entry,
)

SALT = bytes(range(32))


def test_an_entry_is_canonical_json_with_its_version_kind_time_and_job() -> None:
    entry = new_entry(OWN_LOG, Kind.STATUS, 1_700_000_000_000, {"old": "", "new": "waiting", "task": None}, job_id="J1")

    assert entry.content == b'{"at":1700000000000,"job":"J1","kind":"status","new":"waiting","v":1}'
    assert read_entry(entry.content)["new"] == "waiting"


def test_a_field_cannot_pass_for_another_version_kind_or_time() -> None:
    entry = new_entry(OWN_LOG, Kind.ACT, 5, {"v": 2, "kind": "status", "at": 7, "job": "J2"}, job_id="J1")

    assert read_entry(entry.content) == {"at": 5, "job": "J1", "kind": "act", "v": 1}


def test_an_entry_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadEntry, match="the most is 65535"):
        new_entry(OWN_LOG, Kind.ACT, 0, {"what": "x" * MOST_BYTES})


def test_what_another_party_may_say_has_a_canonical_form() -> None:
    fields = {"version": 2**53, "run": -(2**60), "task": "a\ud800b", "argument": "\u00e9", "largest": 2**53 - 1}
    said = read_entry(new_entry(OWN_LOG, Kind.RECEIVED, 0, fields).content)
    assert (said["version"], said["run"], said["task"]) == (str(2**53), str(-(2**60)), "a?b")
    assert (said["argument"], said["largest"]) == ("\u00e9", 2**53 - 1)


def test_a_float_is_refused() -> None:
    with pytest.raises(BadEntry, match="float has no canonical form"):
        new_entry(OWN_LOG, Kind.ACT, 0, {"what": 1.5})


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"at":1,"kind":"act","v":2}', b'{"kind":"act","v":1}', b'{"at":true,"kind":"act","v":1}',
     b'{"at":-1,"kind":"act","v":1}', b'{"at":1,"kind":3,"v":1}', b'{"v":1,"kind":"act","at":1}',
     b" " * (MOST_BYTES + 1)],
)  # fmt: skip
def test_what_is_no_entry_is_refused(content: bytes) -> None:
    with pytest.raises(BadEntry):
        read_entry(content)


def test_the_kind_of_a_later_release_can_be_read() -> None:
    assert read_entry(b'{"at":1,"kind":"new kind","v":1}')["kind"] == "new kind"


def test_each_other_party_has_a_log() -> None:
    assert other_party(log_with("10000")) == "10000"
    assert other_party(OWN_LOG) == ""


def test_a_commitment_is_opened_by_its_salt_and_content_alone() -> None:
    digest = commitment("request", SALT, b"content")

    assert is_digest(digest)
    assert opens(digest, "request", SALT, b"content")
    assert not opens(digest, "answer", SALT, b"content")
    assert not opens(digest, "request", bytes(32), b"content")
    assert not opens(digest, "request", SALT, b"content ")


def test_a_commitment_is_the_documented_digest() -> None:
    assert commitment("request", SALT, b"{}") == (
        sha256(b"fate_flow record v1\nrequest\n" + SALT + b"{}").hexdigest()
    )


def test_the_number_of_a_message_depends_on_its_salt_alone() -> None:
    assert len(number_of(SALT)) == 32
    assert number_of(SALT) != number_of(bytes(32))
    with pytest.raises(ValueError, match="32 bytes"):
        number_of(b"short")
