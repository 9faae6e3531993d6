"""Write answers as JSON."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Any

from fate_flow.jobspec.text.json_text import JsonText


def to_json(value: Any) -> str:
    """Return compact JSON with sorted keys in one line, as FATE writes it; a JsonText is inserted unchanged."""
    texts: list[str] = []
    mark = secrets.token_hex(16)        # random, so it cannot occur in a row

    def json_value(value: object) -> Any:
        if isinstance(value, JsonText):
            texts.append(value.text)
            return mark
        return _json_value(value)

    pieces = json.dumps(value, separators=(",", ":"), sort_keys=True, default=json_value).split(f'"{mark}"')
    return "".join(chain.from_iterable(zip(pieces, [*texts, "\n"], strict=True)))


def _json_value(value: object) -> Any:
    """Return a JSON value for a type that JSON does not have."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written into an answer")
