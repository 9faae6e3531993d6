"""The fields of one kind of thing for clients of v1: their names, their types, and their values from a view row.

An answer has the listed fields and no others. Clients see a field `x` as `f_x`, and in lists as `x`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

from fate_flow.api.http.declared import Arguments, Schema, or_null
from fate_flow.store.views.columns import Row


@dataclass(frozen=True)
class Field:
    """The type of a field for clients."""

    kind: type                       # str, int, bool, datetime, dict or list
    may_be_null: bool = False


Fields = Mapping[str, Field]

_KINDS: Mapping[str, Field] = {
    "text": Field(str),
    "text_or_null": Field(str, True),
    "whole": Field(int),
    "whole_or_null": Field(int, True),
    "flags": Field(bool),
    "dates_or_null": Field(datetime, True),
    "objects": Field(dict),
    "lists": Field(list),
}


def fields_of(**names: str) -> Fields:
    """Return the fields with these names, separated by spaces, by the kinds in `_KINDS`."""
    return {name: _KINDS[kind] for kind, listed in names.items() for name in listed.split()}


def without(fields: Fields, names: Iterable[str]) -> Fields:
    left_out = frozenset(names)
    return {name: field for name, field in fields.items() if name not in left_out}


def rendering(names: Iterable[str], prefix: str = "f_") -> Callable[[Row], Row]:
    """Return a function that makes an answer of these fields of a row."""
    taken = tuple(names)
    keys = tuple(f"{prefix}{name}" for name in taken)
    values_of = itemgetter(*taken)
    return lambda row: dict(zip(keys, values_of(row), strict=True))


# ---------------------------------------------------------------------- schemas

_SEEN: Mapping[type, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"},
    dict: {"type": "object"},
    list: {"type": "array"},
}


def schemas_of(fields: Fields, known: Mapping[str, Schema], prefix: str = "f_") -> Arguments:
    """Return the schemas of the fields, by the keys that clients see; `known` has those that say more than the type."""
    return {f"{prefix}{name}": known.get(name) or _schema(field) for name, field in fields.items()}


def _schema(field: Field) -> Schema:
    schema = _SEEN[field.kind]
    return or_null(schema) if field.may_be_null else schema


def prefixed(value: Mapping[str, Any], prefix: str = "f_") -> dict[str, Any]:
    return {f"{prefix}{name}": one for name, one in value.items()}
