"""Ed25519 keys for notes, made of a name: the same in each run."""

from __future__ import annotations

from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fate_flow.core.record.note import ED25519, NoteKey


class Signer:
    """The private key of a log or witness."""

    def __init__(self, name: str, kind: int = ED25519, seed: bytes | None = None) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(seed or sha256(f"{name} {kind}".encode()).digest())
        self.key = NoteKey(name, self._private.public_key().public_bytes_raw(), kind)

    @property
    def pem(self) -> str:
        """The public key, as a key list has it."""
        public = self._private.public_key()
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def sign(self, text: bytes) -> bytes:
        return self._private.sign(text)


def has_signed(key: bytes, text: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except InvalidSignature:
        return False
    return True
