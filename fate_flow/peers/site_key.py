"""Keys of parties: private keys to sign with, public keys to check signatures. Ed25519, or RSA with PSS and SHA-512.

A private key is a file that only its owner can read. It is never printed, and no error message contains a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.peers.key_files import read_private, write_private

ED25519, RSA = "ed25519", "rsa"
KINDS = (ED25519, RSA)
ALGORITHMS = {ED25519: "ed25519", RSA: "rsa-pss-sha512"}
"""By the kind of a key, the name of its algorithm in RFC 9421."""
_RSA_BITS, _LEAST_RSA_BITS, _MOST_RSA_BITS = 3072, 2048, 8192
_LONGEST_PEM = 10_000
_PSS = PSS(mgf=MGF1(SHA512()), salt_length=64)          # rsa-pss-sha512 of RFC 9421
_WHAT = f"a public key in PEM: Ed25519, or RSA of {_LEAST_RSA_BITS} to {_MOST_RSA_BITS} bits"


@dataclass(frozen=True)
class PublicKey:
    """The key that checks the signatures of a party."""

    pem: str
    key_id: str
    _key: Ed25519PublicKey | RSAPublicKey

    @property
    def kind(self) -> str:
        return ED25519 if isinstance(self._key, Ed25519PublicKey) else RSA

    @property
    def algorithm(self) -> str:
        return ALGORITHMS[self.kind]

    @property
    def raw(self) -> bytes:
        """The 32 bytes of an Ed25519 key. Raises BadRequest for another one."""
        if not isinstance(self._key, Ed25519PublicKey):
            raise BadRequest("key: is not an Ed25519 key")
        return self._key.public_bytes_raw()

    def has_signed(self, text: bytes, signature: bytes) -> bool:
        try:
            if isinstance(self._key, Ed25519PublicKey):
                self._key.verify(signature, text)
            else:
                self._key.verify(signature, text, _PSS, SHA512())
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """The key that a party signs with."""

    public: PublicKey
    _key: Ed25519PrivateKey | RSAPrivateKey

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.key_id})"

    def sign(self, text: bytes) -> bytes:
        if isinstance(self._key, Ed25519PrivateKey):
            return self._key.sign(text)
        return self._key.sign(text, _PSS, SHA512())


@lru_cache(maxsize=256)
def raw_of_pem(pem: str) -> bytes:
    """Return the bytes of a public key. Raises BadRequest."""
    return read_public_key(pem).raw


def read_public_key(pem: str) -> PublicKey:
    """Read a public key. Raises BadRequest without any part of the text, because people paste private keys, too."""
    if "PRIVATE KEY" in pem:
        raise BadRequest("key: is a private key, which has to stay where it was made; the public one is needed")
    try:
        found = load_pem_public_key(pem[:_LONGEST_PEM].encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadRequest(f"key: is not {_WHAT}") from error
    if not isinstance(found, (Ed25519PublicKey, RSAPublicKey)) or not _is_long_enough(found):
        raise BadRequest(f"key: is not {_WHAT}")
    return _public(found)


def has_signed(key: bytes, text: bytes, signature: bytes) -> bool:
    """Return whether the Ed25519 key with these 32 bytes has signed the text."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def load_private_key(path: Path) -> PrivateKey:
    """Read this party's private key. Raises BadSettings, naming the file."""
    content = read_private(path)
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:       # TypeError: it wants a password
        raise BadSettings(f"{path}: is not a private key in PEM, without a password") from error
    if not isinstance(key, (Ed25519PrivateKey, RSAPrivateKey)) or not _is_long_enough(key.public_key()):
        raise BadSettings(f"{path}: is not a private key of {_WHAT.removeprefix('a public key in PEM: ')}")
    return PrivateKey(_public(key.public_key()), key)


def make_private_key(path: Path, kind: str = ED25519) -> PrivateKey:
    """Make a key in a new file. Raises Conflict if the file exists; BadSettings if it cannot be written."""
    key = Ed25519PrivateKey.generate() if kind == ED25519 else generate_private_key(65537, _RSA_BITS)
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return PrivateKey(_public(key.public_key()), key)


def _is_long_enough(key: Ed25519PublicKey | RSAPublicKey) -> bool:
    return isinstance(key, Ed25519PublicKey) or _LEAST_RSA_BITS <= key.key_size <= _MOST_RSA_BITS


def _public(key: Ed25519PublicKey | RSAPublicKey) -> PublicKey:
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return PublicKey(pem, sha256(der).hexdigest(), key)
