"""Our extensions of plain v1. A server that offers none of them speaks plain v1."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

EXTENSIONS = {
    "batch": 1, "lease": 1, "incarnation": 1, "exchange": 1, "stopping": 1, "room": 1, "document": 1, "disclosure": 1,
}  # fmt: skip
"""Announced in `create`, in its answer, and in the answers to `intake` and to a heartbeat."""


def speaks_plain_v1(create: Mapping[str, Any]) -> bool:
    """Return whether the sender of this body of `create` offers none of our extensions."""
    return "extensions" not in create


def offers_extensions(data: Mapping[str, Any]) -> bool:
    """Return whether the party that gave this answer to `create` offers our extensions."""
    return isinstance(data.get("extensions"), Mapping)


def understands_disclosure(data: object) -> bool:
    """Return whether the party that gave this answer takes a document without the private parts of other parties."""
    extensions = data.get("extensions") if isinstance(data, Mapping) else None
    return isinstance(extensions, Mapping) and "disclosure" in extensions


def offered_in(data: object) -> tuple[str, ...]:
    """Return the names of the extensions that an answer announces, in alphabetical order; at most 50."""
    extensions = data.get("extensions") if isinstance(data, Mapping) else None
    names = sorted(extensions) if isinstance(extensions, Mapping) else []
    return tuple(name for name in names if _NAME.fullmatch(name))[:_MOST_NAMES]


_NAME, _MOST_NAMES = re.compile("[a-z][a-z0-9_-]{0,39}"), 50


def understands_batches(data: Mapping[str, Any]) -> bool:
    extensions = data.get("extensions")
    return isinstance(extensions, dict) and "batch" in extensions
