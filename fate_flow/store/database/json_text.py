"""JSON in text columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_ENCODER = json.JSONEncoder(separators=(",", ":"))      # `json.dumps` would make one for each call


def to_json(value: Any) -> str:
    return _ENCODER.encode(value)


def from_json(text: str | None) -> Mapping[str, Any]:
    """Return the object of a column; an empty one if the column is empty or has another value."""
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}
