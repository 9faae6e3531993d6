"""The text of an invitation: what is in it, and that a changed copy is noticed."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import replace
from hashlib import sha256

import pytest

from fate_flow.core.access.invitation import PREFIX, Invitation, check_address, read_invitation
from fate_flow.core.model.errors import BadRequest

INVITATION = Invitation(
    "https://fate.bank.example:9390", "9999", "ab" * 32, "10000", bytes(range(16)), 1_800_000_000_000
)
TEXT = INVITATION.text()


def by_hand(version: int = 1, said: str = "9999 10000 https://10.0.0.1:9390") -> str:
    """A text with other content and the right check bytes."""
    data = bytes([version]) + bytes(16) + bytes(32) + (7).to_bytes(8, "big") + said.encode("latin-1")
    return PREFIX + urlsafe_b64encode(data + sha256(PREFIX.encode() + data).digest()[:4]).decode().rstrip("=")


def test_a_text_is_read_as_it_was_written() -> None:
    assert TEXT.startswith("fate-flow-invite:")
    assert read_invitation(TEXT) == INVITATION
    assert len(TEXT) < 200


def test_line_breaks_and_spaces_do_not_matter() -> None:
    pieces = [TEXT[at : at + 20] for at in range(0, len(TEXT), 20)]
    assert read_invitation("  " + "\r\n ".join(pieces) + "\n") == INVITATION


def test_every_changed_character_is_noticed() -> None:
    for place in range(len(PREFIX), len(TEXT)):
        for other in ("A", "b", "_", ".", "é"):
            if TEXT[place] != other:
                with pytest.raises(BadRequest, match="invitation: ") as error:
                    read_invitation(TEXT[:place] + other + TEXT[place + 1 :])
                assert TEXT[place : place + 10] not in error.value.message


@pytest.mark.parametrize("text", [
    TEXT[:-1], TEXT[:-20], PREFIX, TEXT + "A", TEXT + "AAAA", TEXT * 2, PREFIX + "A" * 5000,
])  # fmt: skip
def test_a_text_of_another_length_is_noticed(text: str) -> None:
    with pytest.raises(BadRequest, match="a part of the text is missing or was changed"):
        read_invitation(text)


@pytest.mark.parametrize("text", ["", "hello", TEXT[1:], TEXT.upper()])
def test_what_is_no_invitation_is_named(text: str) -> None:
    with pytest.raises(BadRequest, match="fate_flow party invite prints it"):
        read_invitation(text)


def test_a_text_of_a_newer_release_is_named() -> None:
    with pytest.raises(BadRequest, match="a newer release"):
        read_invitation(by_hand(version=2))


@pytest.mark.parametrize("said", [
    "9999 10000 http://10.0.0.1:9390", "9999 10000 https://10.0.0.1", "9999 10000 https://a@b:1", "x 10000 https://a:1",
    "9999 ../x https://a:1", "9999 10000 https://a:1/path", "9999 10000 https://a:0", "9999 10000", "9999 10000 https://é:1",
])  # fmt: skip
def test_a_text_whose_content_is_wrong_is_refused(said: str) -> None:
    with pytest.raises(BadRequest, match="invitation: "):
        read_invitation(by_hand(said=said))


def test_the_secret_is_in_no_other_text() -> None:
    assert INVITATION.secret.hex() not in repr(INVITATION)
    assert str(INVITATION.secret) not in repr(INVITATION)
    assert INVITATION.id != replace(INVITATION, secret=bytes(16)).id
    assert INVITATION.id == replace(INVITATION, invited="10001").id


@pytest.mark.parametrize("address", ["https://10.0.0.2:9390", "https://[::1]:443", "https://fate.example:65535"])
def test_addresses(address: str) -> None:
    assert check_address(address, "parties.address") == address


@pytest.mark.parametrize("address", [
    "", None, 7, "10.0.0.2:9390", "https://", "https://:1", "https://a:b", "https://a:65536", "https://a:1?x", "https://a:1#x",
    "https://a\\b:1", "https://a b:1", "https://a\n:1", "https://" + "a" * 300 + ":1", "ftp://a:1",
    "https://fd00::5:9390", "https://[::1:9390", "https://::1]:9390", "https://a..b:9390", f"https://{'a' * 64}.b:9390",
])  # fmt: skip
def test_what_is_no_address(address: object) -> None:
    with pytest.raises(BadRequest, match=r"parties\.address: is not an address such as"):
        check_address(address, "parties.address")
