"""Canonical JSON (RFC 8785), for values that have one meaning for every reader: no floats, integers of at most 53 bits.

Two integers beyond 53 bits may have one canonical form, so that one signature would hold for both. Larger integers are
written as text by whoever makes the value. Stored bytes are hashed as they are: nobody makes them canonical again.
"""

from __future__ import annotations

import json
import re
from typing import Any

from fate_flow.core.text.json_writer import json_writer
from fate_flow.core.text.strict_json import read_strict_json

MOST_INTEGER = 2**53 - 1
MOST_NESTED = 32
_SURROGATE = re.compile("[\ud800-\udfff]")
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)
_sorting = json_writer(sort_keys=True, ensure_ascii=False, allow_nan=False)


class NotCanonical(ValueError):
    """A value that has no canonical form here, or bytes that are not the canonical form of their value."""


def canonical(value: object) -> bytes:
    """Return the canonical form. Raises NotCanonical for a float, a large integer, a key that is no text, a surrogate,
    a type that JSON does not have, and more than 32 levels."""
    if _is_plain(value):
        text = _sorting(value)
        if text.isascii():               # so the order of the keys is that of their characters
            return text.encode()
    return _ENCODER.encode(_sorted(value, 0)).encode()


def read_canonical(content: bytes) -> Any:
    """Return the value of these bytes. Raises NotCanonical if they are not the canonical form of a value."""
    try:
        value = read_strict_json(content.decode())
    except (ValueError, RecursionError) as error:
        raise NotCanonical(f"no JSON, or with a key twice or a number with a fraction: {error}") from error
    if canonical(value) != content:
        raise NotCanonical("JSON, but not in canonical form (RFC 8785)")
    return value


def _is_plain(value: object) -> bool:
    """Return whether this is an object of text, small integers and truth values, as entries mostly are. If its text is
    ASCII, `json` alone writes its canonical form, in a fifth of the time."""
    if type(value) is not dict:
        return False
    for key, one in value.items():
        if type(key) is not str:
            return False
        kind = type(one)
        if kind is not str and kind is not bool and (kind is not int or not -MOST_INTEGER <= one <= MOST_INTEGER):
            return False
    return True


def _sorted(value: object, depth: int) -> object:
    """Return the value with the keys of its objects in the order of RFC 8785: by their UTF-16 code units."""
    if value is None or value is True or value is False:
        return value
    if depth > MOST_NESTED:
        raise NotCanonical(f"more than {MOST_NESTED} levels")
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        if abs(value) > MOST_INTEGER:
            raise NotCanonical(f"{value} is beyond 53 bits: write it as text")
        return int(value)
    if isinstance(value, dict):
        pairs = [(_key(key), _sorted(one, depth + 1)) for key, one in value.items()]
        return dict(sorted(pairs, key=lambda pair: pair[0].encode("utf-16-be")))
    if isinstance(value, (list, tuple)):
        return [_sorted(one, depth + 1) for one in value]
    raise NotCanonical(f"{type(value).__name__} has no canonical form")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise NotCanonical(f"{key!r} is a key, and no text")
    return _text(key)


def _text(value: str) -> str:
    if not value.isascii() and _SURROGATE.search(value):
        raise NotCanonical("text with half a surrogate pair")
    return str(value)
