"""Read JSON that people write: a key that occurs twice in an object is refused, where Python takes the last one."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, NoReturn

from fate_flow.core.model.grammar import shown_key


@dataclass(frozen=True)
class JsonText:
    """A value as stored JSON text, which can be written into an answer without parsing."""

    text: str


class RepeatedKey(ValueError):
    """A key occurs twice in one object; the text names its path."""


def read_json_text(text: str | bytes) -> Any:
    """Return the value of this text. Raise RepeatedKey, ValueError, RecursionError."""
    repeated: list[tuple[dict[str, Any], str]] = []

    def to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
            repeated.append((found, key))
        return found

    document = json.loads(text, parse_constant=_refuse, object_pairs_hook=to_object)
    if repeated:
        # The last object is in the document: if it were in a dropped value, that value would have ended later.
        inside, key = repeated[-1]
        path = f"{_path_to(inside, document)}.{shown_key(key)}".removeprefix(".")
        raise RepeatedKey(f"{path} is there twice: an object has each of its keys once")
    return document


def _path_to(wanted: dict[str, Any], document: object) -> str:
    pending = [("", document)]
    while pending:
        path, value = pending.pop()
        if value is wanted:
            return path
        if isinstance(value, dict):
            pending += [(f"{path}.{shown_key(key)}", inside) for key, inside in value.items()]
        elif isinstance(value, list):
            pending += [(f"{path}[{place}]", inside) for place, inside in enumerate(value)]
    raise AssertionError("what was read is in the document")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
