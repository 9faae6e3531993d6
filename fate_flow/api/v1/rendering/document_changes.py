"""How two documents of jobs differ, place by place. What an approval is about is the whole document, so nothing is left
out: each value that one of them has and the other has not is a row.

The initiator of a job chooses its keys and values. So a place is compared as the keys and numbers that lead to it,
never as text, which a key can imitate; values are compared in full and with their types; and what is shown is ASCII.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fate_flow.core.model.grammar import shown_key
from fate_flow.services.context.documents import digest_of
from fate_flow.services.context.recent import MadeValues
from fate_flow.store.values import Document
from fate_flow.store.views.board_approvals import ApprovedBefore

MOST_SHOWN = 200
"""Differences on a page."""
MANY_VALUES = 10_000
"""Documents with more values than this are compared less often."""
_LONGEST = 1_000
_BEFORE_CHANGE = 100             # characters that are shown before the first one that differs in a long value
_LONGEST_KEY = 200
_MOST_KEPT = 16

Place = tuple[str | int, ...]
_NOTHING = object()


@dataclass(frozen=True)
class Change:
    """`before` or `now` is empty where that document has nothing."""

    kind: str                    # added, removed, changed
    place: str
    before: str
    now: str


@dataclass(frozen=True)
class Changes:
    """How a document differs from another one.

    `first`: the number of the first one of `rows`, from 0. `values`: how many values were compared. `formats`: those of
    the two documents, if they are not the same: then they are compared as FATE v1 shows them, and what differs beyond
    that is not found."""

    rows: tuple[Change, ...] = ()
    first: int = 0
    count: int = 0               # of all differences
    values: int = 0
    formats: tuple[str, str] | None = None

    @property
    def next(self) -> int:
        """The number of the first difference behind `rows`; 0: there is none."""
        behind = self.first + len(self.rows)
        return behind if self.rows and behind < self.count else 0

    @property
    def is_same(self) -> bool:
        """Whether both documents say the same, as far as that can be known."""
        return not self.count and self.formats is None


def changes(before: Document, now: Document, first: int = 0, most: int = MOST_SHOWN) -> Changes:
    """Return the differences in the order of their places, from the number `first` on."""
    formats = before.content.format, now.content.format
    is_one_format = formats[0] == formats[1]
    old, new = _parts(before, is_one_format), _parts(now, is_one_format)
    rows, count, found = list[Change](), 0, _Comparison()
    for part in dict.fromkeys((*old, *new)):
        for place, one, other in found.between((), old.get(part, _NOTHING), new.get(part, _NOTHING)):
            if first <= count < first + most:
                rows.append(_change(part, place, one, other))
            count += 1
    return Changes(tuple(rows), first, count, found.values, None if is_one_format else formats)


class KeptChanges:
    """The differences that were looked at last: a page that keeps itself fresh compares two documents once."""

    def __init__(self) -> None:
        self._kept: MadeValues[Changes] = MadeValues(_MOST_KEPT)

    def of(self, before: Document, now: Document, digests: tuple[str, str], first: int) -> Changes:
        """Return the differences. `digests`: of both documents."""
        key = (*digests, _hidden(before), _hidden(now), first)
        return self._kept.of(key, None, lambda: changes(before, now, first))


def _hidden(document: Document) -> tuple[str, ...]:
    """Return the parts of a document that are not here: its digest does not say which ones these are."""
    return tuple(sorted(_hidden_parts(document)))


def _hidden_parts(document: Document) -> Mapping[str, str]:
    return document.disclosure.commitments if document.disclosure is not None else {}


def _parts(document: Document, is_one_format: bool) -> Mapping[str, Any]:
    """Return what is compared, by a name that no key of the body can have; empty: the body itself."""
    if not is_one_format:
        return {"": {"dsl": document.dsl, "runtime_conf": document.runtime_conf}}
    content = document.content
    hidden = _hidden_parts(document)
    return {"": content.body, **({"(hidden parts)": hidden} if hidden else {}), **(
        {"(defaults)": content.defaults} if content.defaults else {})}  # fmt: skip


class _Comparison:
    def __init__(self) -> None:
        self.values = 0

    def between(self, place: Place, one: Any, other: Any) -> Iterator[tuple[Place, Any, Any]]:
        """Yield each place at which the two differ, with both values. A list of plain values is one value."""
        if isinstance(one, Mapping) and isinstance(other, Mapping) and one and other:
            for key in sorted(one.keys() | other.keys()):
                yield from self.between((*place, key), one.get(key, _NOTHING), other.get(key, _NOTHING))
        elif _is_nested_list(one) and _is_nested_list(other):
            for number in range(max(len(one), len(other))):
                yield from self.between((*place, number), *(
                    of[number] if number < len(of) else _NOTHING for of in (one, other)))  # fmt: skip
        elif _has_places(one) or _has_places(other):
            for at, value in self._values(place, one):
                yield at, value, _NOTHING
            for at, value in self._values(place, other):
                yield at, _NOTHING, value
        else:
            self.values += 1
            if not _is_same(one, other):
                yield place, one, other

    def _values(self, place: Place, value: Any) -> Iterator[tuple[Place, Any]]:
        """Yield each value with its place."""
        if isinstance(value, Mapping) and value:
            for key in sorted(value):
                yield from self._values((*place, key), value[key])
        elif _is_nested_list(value):
            for number, one in enumerate(value):
                yield from self._values((*place, number), one)
        elif value is not _NOTHING:
            self.values += 1
            yield place, value


def _is_nested_list(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, Mapping | list) for one in value)


def _has_places(value: Any) -> bool:
    return (isinstance(value, Mapping) and bool(value)) or _is_nested_list(value)


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values without places are the same JSON: 1, 1.0 and true are three values."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    return type(one) is type(other) and bool(one == other)


def rendered_changes(job_id: str, now: Document, before: ApprovedBefore | None, first: int) -> dict[str, Any]:
    """Return the answer of `job/changes`; without `before`, it has no changes."""
    found = changes(before.document, now, first) if before is not None else Changes()
    return {
        "job_id": job_id,
        "digest": digest_of(now),
        "approved_before": None if before is None else {
            "job_id": before.job_id, "by": before.by, "time": before.time, "digest": before.digest,
            "has_same_name": before.has_same_name, "is_as_approved": before.is_as_approved,
        },
        "formats": list(found.formats) if found.formats else None,
        "count": found.count,
        "changes": [asdict(one) for one in found.rows],
        "next": found.next or None,
    }  # fmt: skip


# ---------------------------------------------------------------------- as text


def contents(document: Document) -> str:
    """Return all that a job is bound to, and its digest, as JSON for people: in ASCII, the keys in order."""
    content = document.content
    return json.dumps({
        "digest": digest_of(document), "format": content.format, "document": content.body,
        "defaults": content.defaults, "hidden parts": _hidden_parts(document),
    }, indent=1, sort_keys=True)  # fmt: skip


def _change(part: str, place: Place, before: Any, now: Any) -> Change:
    kind = "added" if before is _NOTHING else "removed" if now is _NOTHING else "changed"
    old, new = ("" if one is _NOTHING else json.dumps(one, sort_keys=True) for one in (before, now))
    same = next((number for number, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, same - _BEFORE_CHANGE)
    return Change(kind, _place(part, place), *(_cut(one, start) for one in (old, new)))


def _place(part: str, place: Place) -> str:
    text = part
    for one in place:
        text += f"[{one}]" if isinstance(one, int) else f".{_key(one)}" if text else _key(one)
    return text


def _key(key: str) -> str:
    """Return a key as it is if it is a plain word, else quoted and in ASCII: so it looks like no other place."""
    return key if shown_key(key) == key else _cut(json.dumps(key), 0, _LONGEST_KEY)


def _cut(text: str, start: int, most: int = _LONGEST) -> str:
    if len(text) <= most:
        return text
    start = min(start, len(text) - most)
    head = f"(from character {start + 1}) …" if start else ""
    tail = "…" if start + most < len(text) else ""
    return f"{head}{text[start : start + most]}{tail} ({len(text)} characters)"
