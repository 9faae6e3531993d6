"""Salted commitments: digests of content that somebody could find by trying, such as names and parameters.

The salt is 32 random bytes that lie beside the entry. Whoever has salt and content can check the digest; without the
salt nobody can try contents. So a salt can be erased, and the entry and all proofs stay as they are.
"""

from __future__ import annotations

import re
from hashlib import sha256
from hmac import compare_digest

SALT_BYTES = 32
_BEGINNING = b"fate_flow record v1\n"
_NUMBER_DIGITS = 32
_NUMBER = re.compile(f"[0-9a-f]{{{_NUMBER_DIGITS}}}")


def commitment(what: str, salt: bytes, content: bytes) -> str:
    """Return the digest (64 hex digits) of the content under this salt. `what`: what it is, such as `request`, so that
    no content stands for another one under the same salt. Raises ValueError for another salt than 32 bytes."""
    if len(salt) != SALT_BYTES:
        raise ValueError(f"a salt has {SALT_BYTES} bytes, not {len(salt)}")
    return sha256(_BEGINNING + what.encode() + b"\n" + salt + content).hexdigest()


def opens(digest: str, what: str, salt: bytes, content: bytes) -> bool:
    """Return whether this is the content that the digest commits to."""
    return compare_digest(digest, commitment(what, salt, content))


def number_of(salt: bytes) -> str:
    """Return the number of the message with this salt (32 hex digits). Both parties find the same one, and a peer
    cannot learn from it how many other messages there are."""
    return commitment("number", salt, b"")[:_NUMBER_DIGITS]


def is_number(value: object) -> bool:
    """Return whether this is the number of a message, as far as its form says."""
    return isinstance(value, str) and bool(_NUMBER.fullmatch(value))
