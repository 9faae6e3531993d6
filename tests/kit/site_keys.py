"""Keys of parties for tests: the same for the same number, and made in no time, but for RSA."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from fate_flow.core.access.site import SiteKey
from fate_flow.peers.site_key import PrivateKey, load_private_key, read_public_key


def private_pem(number: int) -> str:
    key = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def private_key(number: int) -> PrivateKey:
    """The key that `write_private_key` writes, without a file."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    return PrivateKey(read_public_key(_public_pem(key)), key)


def rsa_private_key() -> PrivateKey:
    key = rsa.generate_private_key(65537, 2048)
    return PrivateKey(read_public_key(_public_pem(key)), key)


def _public_pem(key: Ed25519PrivateKey | rsa.RSAPrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def write_private_key(path: Path, number: int) -> PrivateKey:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(private_pem(number), encoding="utf-8")
    path.chmod(0o600)
    return load_private_key(path)


def site_key(party_id: str, key: PrivateKey) -> SiteKey:
    """What others keep of it."""
    return SiteKey(party_id, key.public.key_id, key.public.pem)
