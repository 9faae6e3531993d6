"""The fingerprint of a root key: the form of a digest that people read out, with digits that detect their mistakes.

The SHA-256 digest in base32 has 52 characters; each 13 of them are followed by a check character, and the 56 characters
are written in 8 groups of 7. A wrong character, or two neighbours in the wrong order, is noticed (but for one pair).
"""

from __future__ import annotations

from base64 import b32decode, b32encode

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PART, _GROUP = 13, 7
_CHARS = 56
_READ_AS = str.maketrans("018", "OIB")           # digits that base32 does not have, and what they were meant to be
_FORM = "a fingerprint (8 groups of 7 letters and digits 2 to 7); `fate_flow key fingerprint` prints it"


def fingerprint_of(key_id: str) -> str:
    """Return the fingerprint of the key with this id (64 hex digits)."""
    text = b32encode(bytes.fromhex(key_id)).decode().rstrip("=")
    parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
    checked = "".join(part + _check_character(part) for part in parts)
    return "-".join(checked[at : at + _GROUP] for at in range(0, _CHARS, _GROUP))


def read_fingerprint(value: object, key: str = "fingerprint") -> str:
    """Return the id of the key with this fingerprint; case, spaces and hyphens do not matter. Raises BadRequest."""
    if not isinstance(value, str):
        raise BadRequest(f"{key}: {shown(value)} is not {_FORM}")
    text = "".join(value.upper().replace("-", " ").split()).translate(_READ_AS)
    if len(text) != _CHARS or not set(text) <= set(_ALPHABET):
        raise BadRequest(f"{key}: {shown(value)} is not {_FORM}")
    digits = ""
    for number, at in enumerate(range(0, _CHARS, _PART + 1)):
        part, check = text[at : at + _PART], text[at + _PART]
        if _check_character(part) != check:
            raise BadRequest(f"{key}: group {2 * number + 1} or {2 * number + 2} has a wrong character")
        digits += part
    return b32decode(digits + "====").hex()


def _check_character(part: str) -> str:
    """Return the check character of the Luhn algorithm, for 32 characters instead of 10 digits."""
    total = 0
    for place, char in enumerate(reversed(part)):
        value = _ALPHABET.index(char) * (2 if place % 2 == 0 else 1)
        total += value // len(_ALPHABET) + value % len(_ALPHABET)
    return _ALPHABET[-total % len(_ALPHABET)]
