"""JSON that servers write and sign: each text has one meaning for whoever reads it."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def read_strict_json(text: str) -> Any:
    """Return the value of this text. Raise ValueError for a key that occurs twice in an object, a number with
    a fraction or an exponent, and what is no JSON; RecursionError for one that is nested too deeply."""
    return json.loads(text, object_pairs_hook=_without_doubles, parse_float=_refuse, parse_constant=_refuse)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)
