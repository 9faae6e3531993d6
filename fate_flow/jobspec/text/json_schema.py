"""The parts that a JSON Schema of a file is made of. `shape.py` has a message for each keyword that is used here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.jobspec.text.document import MAX_WHOLE

Schema = Mapping[str, Any]


def an_object(description: str, required: tuple[str, ...] = (), /, **properties: Schema) -> dict[str, Any]:
    """Return the schema of an object with only these keys."""
    found: dict[str, Any] = {"description": description, "type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    return {**found, "additionalProperties": False}


def by_pattern(pattern: str, expected: str, values: Schema, description: str) -> dict[str, Any]:
    """Return the schema of an object whose keys the user chooses; the reader shows `expected` if one does not match."""
    return {
        "description": description, "type": "object", "patternProperties": {pattern: dict(values)},
        "additionalProperties": False, "patternErrorMessage": f"is not {expected}",
    }  # fmt: skip


def a_list(items: Schema, description: str, **more: Any) -> dict[str, Any]:
    return {"description": description, "type": "array", "items": dict(items), **more}


def a_whole(description: str, minimum: int, default: int | None = None, maximum: int = MAX_WHOLE) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": description, "type": "integer", "minimum": minimum, "maximum": maximum
    }  # fmt: skip
    return found if default is None else {**found, "default": default}


def a_number(
    description: str, minimum: float = 0, maximum: float = MAX_WHOLE, default: float | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": description, "type": "number", "minimum": minimum, "maximum": maximum
    }  # fmt: skip
    return found if default is None else {**found, "default": default}


def a_text(description: str, pattern: str = "", expected: str = "", **more: Any) -> dict[str, Any]:
    """Return the schema of a text; editors and the reader show `expected` if the pattern does not match."""
    found: dict[str, Any] = {"description": description, "type": "string", **more}
    return {**found, "pattern": pattern, "patternErrorMessage": f"is not {expected}"} if pattern else found
