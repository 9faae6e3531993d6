"""Signatures of key lists, and the keys that they may have."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fate_flow.core.access.key_list import MESSAGE, TLS, KeyList, ListedKey, read_signed_key_list
from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.peers.key_lists import check_key_list, sign_key_list
from fate_flow.peers.site_key import read_public_key
from tests.kit.peers.handshakes import public_pem, tls_party
from tests.kit.site_keys import private_key, private_pem, rsa_private_key

ROOT, OTHER_ROOT, MESSAGE_KEY = private_key(1), private_key(2), private_key(3)
TLS_KEY = public_pem(tls_party("10000", ecdsa=True).key)
LIST = KeyList(
    "10000", 1, 1000, (ListedKey(TLS, TLS_KEY, 1000), ListedKey(MESSAGE, MESSAGE_KEY.public.pem, 1000)),
    OTHER_ROOT.public.pem,
)  # fmt: skip


def test_a_list_holds_with_the_key_that_signed_it() -> None:
    signed = sign_key_list(ROOT, LIST)
    assert check_key_list(read_signed_key_list(signed.text())) == (LIST, read_public_key(ROOT.public.pem))


@pytest.mark.parametrize("change", [
    {"content": replace(LIST, number=2).content()}, {"content": LIST.content() + " "},
    {"root_key": OTHER_ROOT.public.pem}, {"signature": ""}, {"signature": "AAAA"},
])
def test_a_changed_list_does_not_hold(change: dict[str, str]) -> None:
    with pytest.raises(BadRequest, match="its root key has not signed it"):
        check_key_list(replace(sign_key_list(ROOT, LIST), **change))


def test_a_signature_of_something_else_is_none_of_a_list() -> None:
    """Whoever makes a root key sign a text that looks like a list has no list yet."""
    signed = sign_key_list(ROOT, LIST)
    with pytest.raises(BadRequest, match="has not signed it"):
        check_key_list(replace(signed, signature=b64encode(ROOT.sign(LIST.content().encode())).decode()))


def test_only_ed25519_signs_lists() -> None:
    rsa = rsa_private_key()
    with pytest.raises(BadSettings, match="a root key is of the kind ed25519"):
        sign_key_list(rsa, LIST)
    signed = sign_key_list(ROOT, replace(LIST, next_root=rsa.public.pem))
    with pytest.raises(BadRequest, match="next_root is not of the kind ed25519"):
        check_key_list(signed)
    with pytest.raises(BadRequest, match="root_key is not of the kind ed25519"):
        check_key_list(replace(signed, root_key=rsa.public.pem))


def unusable(use: str, pem: str) -> KeyList:
    return replace(LIST, keys=(LIST.keys[0], ListedKey(use, pem, 1)))


_P384_KEY = ec.generate_private_key(ec.SECP384R1()).public_key()
P384 = _P384_KEY.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(("use", "pem", "text"), [
    (TLS, "x", "is not a public key in PEM"), (TLS, P384.decode(), "of another kind than those for TLS"),
    (TLS, TLS_KEY + "\n", "is not in the form"), (MESSAGE, "x", "is not a public key in PEM"),
    (MESSAGE, TLS_KEY, "is not a public key in PEM"), (MESSAGE, " " + MESSAGE_KEY.public.pem, "is not in the form"),
])
def test_a_list_with_an_unusable_key_is_refused(use: str, pem: str, text: str) -> None:
    with pytest.raises(BadRequest, match=rf"key list: keys\[1\]:? .*{text}"):
        check_key_list(sign_key_list(ROOT, unusable(use, pem)))


def test_a_private_key_in_a_list_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadRequest, match="is a private key") as error:
        check_key_list(sign_key_list(ROOT, unusable(MESSAGE, private_pem(1))))
    assert private_pem(1).splitlines()[1] not in error.value.message
