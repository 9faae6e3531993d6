"""What is known of the columns of a table: ids, label and types, as an upload or the task that has made it said them.

A schema has `sid` and `header`, the names of the columns, and may have `meta`: what they are in a data frame, in the
words of FATE 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TEXT = "object"
_ROLES = {"match_id_name": "match id", "match_id_list": "match id", "label_name": "label", "weight_name": "weight"}
_TYPE_KEYS = {"label": "label_type", "weight": "weight_type"}


@dataclass(frozen=True)
class Column:
    name: str
    role: str                    # empty: it has no other than being a column
    type: str                    # empty: nobody has said it


def columns_of(schema: Mapping[str, Any]) -> tuple[Column, ...]:
    """Return the columns, the ids first."""
    sid, meta = str(schema.get("sid", "id")), schema.get("meta")
    given = {key: value for key, value in meta.items() if value is not None} if isinstance(meta, Mapping) else {}
    roles = {
        name: role for key, role in _ROLES.items() for name in _names(given.get(key))
    }
    matches_by_sid = not {"match_id_name", "match_id_list"} & given.keys() or roles.get(sid) == "match id"
    ids = Column(sid, "id, match id" if matches_by_sid else "id", _TEXT)
    return (ids, *(_column(name, roles.get(name, ""), given) for name in map(str, schema.get("header") or ())))


def _names(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def _column(name: str, role: str, given: Mapping[str, Any]) -> Column:
    if role == "match id":
        return Column(name, role, _TEXT)
    stated = given.get(_TYPE_KEYS.get(role, "dtype"))
    return Column(name, role, str(stated.get(name, "") if isinstance(stated, Mapping) else stated or ""))
