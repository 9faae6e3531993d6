"""Additive secret sharing modulo 2**128: any incomplete set of shares is uniformly random."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

BITS = 128
MODULUS = 1 << BITS
SHARE_BYTES = BITS // 8


def split(value: int, parts: int) -> list[int]:
    """Return random shares that add up to the value."""
    shares = [secrets.randbits(BITS) for _ in range(parts - 1)]
    return [*shares, (value - sum(shares)) % MODULUS]


def split_in_two(values: Sequence[int]) -> tuple[list[int], list[int]]:
    """Split each value into two shares; return those to keep and those to send."""
    kept = unpack(secrets.token_bytes(SHARE_BYTES * len(values)))
    return kept, [(value - own) % MODULUS for value, own in zip(values, kept, strict=True)]


def joined(shares: Sequence[int]) -> int:
    """Return the sum of shares, which is a share of the sum."""
    return sum(shares) % MODULUS


def signed(total: int) -> int:
    """Return the signed number of a total: the upper half of the range is negative."""
    return total - MODULUS if total >= MODULUS // 2 else total


def pack(shares: Sequence[int]) -> bytes:
    return b"".join(share.to_bytes(SHARE_BYTES, "big") for share in shares)


def unpack(message: bytes) -> list[int]:
    """Return the packed shares. Raises ValueError if the message has another form."""
    if len(message) % SHARE_BYTES:
        raise ValueError("not a whole number of shares")
    starts = range(0, len(message), SHARE_BYTES)
    return [int.from_bytes(message[start:start + SHARE_BYTES], "big") for start in starts]
