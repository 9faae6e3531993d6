"""How two documents of jobs differ, place by place. What an approval is about is the whole document, so nothing is left
out: each value that one of them has and the other has not is a row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.store.values import Document

_LONGEST = 1_000


@dataclass(frozen=True)
class Change:
    """`before` or `now` is empty where that document has nothing."""

    kind: str                    # added, removed, changed
    place: str
    before: str
    now: str


def changes(before: Document, now: Document) -> tuple[Change, ...]:
    """Return the differences, in the order of their places. Documents of two formats are compared as FATE v1 shows
    them."""
    is_one_format = before.content.format == now.content.format
    old, new = (dict(_values("", _body(one, is_one_format))) for one in (before, now))
    found = []
    for place in sorted(old.keys() | new.keys()):
        if old.get(place) != new.get(place):
            kind = "added" if place not in old else "removed" if place not in new else "changed"
            found.append(Change(kind, place, old.get(place, ""), new.get(place, "")))
    return tuple(found)


def _body(document: Document, is_one_format: bool) -> Mapping[str, Any]:
    if not is_one_format:
        return {"dsl": document.dsl, "runtime_conf": document.runtime_conf}
    content = document.content
    hidden = content.disclosure.commitments if content.disclosure is not None else {}
    return {**content.body, **({"hidden parts": hidden} if hidden else {}), **(
        {"defaults": content.defaults} if content.defaults else {})}  # fmt: skip


def _values(place: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each value with its place. A list of plain values is one value."""
    if isinstance(value, Mapping) and value:
        for key, one in value.items():
            yield from _values(f"{place}.{key}" if place else str(key), one)
    elif isinstance(value, list) and any(isinstance(one, Mapping | list) for one in value):
        for number, one in enumerate(value):
            yield from _values(f"{place}[{number}]", one)
    else:
        yield place, _text(value)


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"
