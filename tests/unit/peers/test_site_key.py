"""Keys of parties: which are taken, and that a private one stays where it is."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)

from fate_flow.core.model.errors import BadRequest, BadSettings, Conflict
from fate_flow.peers.site_key import ED25519, RSA, load_private_key, make_private_key, read_public_key
from tests.kit.site_keys import private_pem, write_private_key


@pytest.mark.parametrize("kind", [ED25519, RSA])
def test_what_a_key_signs_its_public_part_knows(tmp_path: Path, kind: str) -> None:
    made = make_private_key(tmp_path / "keys" / "site.pem", kind)
    loaded = load_private_key(tmp_path / "keys" / "site.pem")
    public = read_public_key(made.public.pem)
    assert loaded.public.key_id == made.public.key_id == public.key_id
    signature = loaded.sign(b"text")
    assert public.has_signed(b"text", signature)
    assert not public.has_signed(b"texts", signature)
    assert not public.has_signed(b"text", signature[:-1])
    assert not write_private_key(tmp_path / "other.pem", 1).public.has_signed(b"text", signature)


def test_the_id_is_the_digest_of_the_der_form(tmp_path: Path) -> None:
    public = write_private_key(tmp_path / "k.pem", 1).public
    der = load_pem_public_key(public.pem.encode()).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert public.key_id == sha256(der).hexdigest()


def test_a_private_key_is_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "home" / "keys" / "site.pem"
    key = make_private_key(path)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert repr(key) == f"PrivateKey({key.public.key_id})"
    path.chmod(0o640)
    with pytest.raises(BadSettings, match=r"site.pem: is of mode 0640, .* chmod 600"):
        load_private_key(path)


def test_a_private_key_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "site.pem"
    make_private_key(path)
    before = path.read_bytes()
    with pytest.raises(Conflict, match=r"site.pem: is there already"):
        make_private_key(path)
    assert path.read_bytes() == before


def in_pem(key: object, password: str = "") -> bytes:
    how = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)      # type: ignore[attr-defined]


@pytest.mark.parametrize(("content", "text"), [
    (None, "there is no private key of this party: fate_flow key make"),
    (b"nonsense", "is not a private key in PEM"),
    (in_pem(ec.generate_private_key(ec.SECP256R1())), "is not a private key of Ed25519, or RSA of 2048 to 8192 bits"),
    (in_pem(rsa.generate_private_key(65537, 2048), "x"), "without a password"),
])
def test_a_file_that_is_no_key_is_named(tmp_path: Path, content: bytes | None, text: str) -> None:
    path = tmp_path / "site.pem"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    with pytest.raises(BadSettings, match=text) as caught:
        load_private_key(path)
    assert caught.value.message.startswith(str(path))


def public_pem(key: object) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()  # type: ignore[attr-defined]


@pytest.mark.parametrize("pem", [
    "", "k", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "\ud800", "x" * 1_000_000,
    public_pem(ec.generate_private_key(ec.SECP256R1())), public_pem(rsa.generate_private_key(65537, 1024)),
])
def test_what_is_no_public_key_is_refused(pem: str) -> None:
    with pytest.raises(BadRequest, match=r"key: is not a public key in PEM: Ed25519, or RSA of 2048 to 8192 bits$"):
        read_public_key(pem)


def test_a_private_key_is_not_taken_and_not_repeated() -> None:
    pem = private_pem(1)
    with pytest.raises(BadRequest, match="key: is a private key") as described:
        read_public_key(pem)
    assert pem.splitlines()[1] not in described.value.message


def test_the_form_of_rsa_keys_that_fate_makes_is_taken() -> None:
    key = rsa.generate_private_key(65537, 2048).public_key()
    old = key.public_bytes(Encoding.PEM, PublicFormat.PKCS1).decode()
    new = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    assert read_public_key(old).pem == read_public_key(new).pem == new
