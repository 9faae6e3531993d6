"""What the columns of a table are in a data frame of FATE 2: the words of `meta`, as its uploads have them.

A table keeps them with its schema, so that it can become a data frame wherever it goes. All are optional. Rows are
matched with those of other parties by the match id, which is the id of the table unless a column is named.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.components.base.errors import ComponentError, shown

FLOATS, INTEGERS, OBJECT = ("float32", "float64"), ("int32", "int64"), "object"
TYPES = (*FLOATS, *INTEGERS, OBJECT)
COLUMNS = ("sample_id_name", "match_id_name", "label_name", "weight_name")
OF_TYPES = ("dtype", "label_type", "weight_type")
LISTS = ("match_id_list", "na_values")
_WITHOUT_EFFECT = ("delimiter", "header", "match_id_range", "tag_with_value", "tag_value_delimiter", "input_format")
KEYS = (*COLUMNS, *OF_TYPES, *LISTS, *_WITHOUT_EFFECT)
_SAMPLE_ID = "sample_id"
_FLOAT32 = struct.Struct("f")
_MISSING = ("", "nan", "NaN", "NA", "N/A", "null", "NULL", "None")


def problems_of(meta: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a `meta`; each text begins with its key."""
    for key, value in meta.items():
        if key not in KEYS:
            yield f"{key}: is not known; known here: {', '.join(KEYS)}"
        elif value is None:
            continue
        elif key in COLUMNS and not _is_name(value):
            yield f"{key}: {shown(value)} is not the name of a column"
        elif key == "dtype" and isinstance(value, Mapping):
            yield from (f"dtype.{name}: {_no_type(one)}" for name, one in value.items() if one not in TYPES)
        elif key in OF_TYPES and value not in TYPES:
            yield f"{key}: {_no_type(value)}"
        elif key in LISTS and not _is_name(value) and not _are_names(value):
            yield f"{key}: {shown(value)} is not a list of texts"
    if meta.get("input_format") not in (None, "dense") or meta.get("tag_with_value"):
        yield "input_format: only dense is read, a column for each feature"


def _no_type(value: object) -> str:
    return f"{shown(value)} is not one of {', '.join(TYPES)}"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_names(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)


@dataclass(frozen=True)
class FrameColumn:
    """A column of a data frame, and where its values are in a row of the table, whose first one is the id."""

    name: str
    place: int
    type: str


@dataclass(frozen=True)
class FrameColumns:
    """The columns of the data frame that a table becomes: ids, label and weight by name, and those with features."""

    sample_id: str
    match_id: FrameColumn
    others: tuple[FrameColumn, ...]            # every other one, in the order of the table
    options: Mapping[str, Any]                   # for FATE's readers: match_id_list, label_name, dtype, ...
    missing: frozenset[str]                    # texts that stand for no value


def frame_columns(sid: str, header: Sequence[str], meta: Mapping[str, Any]) -> FrameColumns:
    """Return what the columns of a table are in a data frame. Raises ComponentError for a `meta` that does not fit."""
    given = {key: value for key, value in meta.items() if value is not None}
    match_id = given.get("match_id_name") or sid
    several = _as_list(given.get("match_id_list")) or [match_id]
    roles: dict[str, str] = {key: given[key] for key in ("label_name", "weight_name") if key in given}
    for key, name in (("match_id_name", match_id), *(("match_id_list", one) for one in several), *roles.items()):
        if name not in (*header, sid) or (name == sid and key in roles):
            raise ComponentError(f"{key} of the table's meta: {shown(name)} is none of its columns")
    label_type, weight_type = given.get("label_type", "int32"), given.get("weight_type", "float32")
    of_roles = {"label_name": label_type, "weight_name": weight_type}
    types = {name: of_roles[key] for key, name in roles.items()}
    dtype = given.get("dtype", "float32")

    def column(name: str, place: int) -> FrameColumn:
        ordinary = str(dtype.get(name, "float32") if isinstance(dtype, Mapping) else dtype)
        return FrameColumn(name, place, OBJECT if name in several else types.get(name, ordinary))

    columns = (sid, *header)
    return FrameColumns(
        sample_id=_free_name(given.get("sample_id_name") or _SAMPLE_ID, {*header, match_id}),
        match_id=column(match_id, columns.index(match_id)),
        others=tuple(
            column(name, place) for place, name in enumerate(columns)
            if name != match_id and (name != sid or name in several)
        ),
        options={
            **roles, "match_id_name": match_id,
            "match_id_list": [match_id, *(one for one in several if one != match_id)],
            "label_type": label_type, "weight_type": weight_type, "dtype": dtype,
        },
        missing=frozenset({*_MISSING, *_as_list(given.get("na_values"))}),
    )  # fmt: skip


def _as_list(value: object) -> list[str]:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else []


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"{name}_"
    return name


def text_in_frame(text: str, column: FrameColumn, missing: frozenset[str]) -> str | None:
    """Return the text of a value as FATE reads it in a column of this type; None if it is no such value."""
    text = text.strip() if column.type != OBJECT else text
    if column.type == OBJECT:
        return text
    if column.type in FLOATS:
        if text in missing:
            return "nan"
        return text if _number(text) is not None else None
    if text.removeprefix("-").isdecimal():
        return text
    number = _number(text)
    return str(int(number)) if number is not None and number.is_integer() else None


def _number(text: str) -> float | None:
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


# ---------------------------------------------------------------------- from a data frame


def meta_of(fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the `meta` with which a table with these fields becomes the same data frame again. `fields`: of the schema
    that FATE writes."""
    found: dict[str, Any] = {}
    for one in fields:
        role, kind = one["property"], one["dtype"] if one["dtype"] in TYPES else OBJECT
        if role in ("match_id", "label", "weight"):
            found[f"{role}_name"] = one["name"]
        if role in ("label", "weight"):
            found[f"{role}_type"] = kind
        if role == "column":
            found.setdefault("dtype", {})[one["name"]] = kind
    return found


def text_of(value: object, kind: str) -> str:
    """Return a value of a data frame as the text of a table. A number has as few digits as its type needs."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return repr(value) if kind != "float32" else _shortest(value)
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _shortest(value: float) -> str:
    for digits in (6, 7, 8):
        shorter = float(f"{value:.{digits}g}")
        if _FLOAT32.unpack(_FLOAT32.pack(shorter))[0] == value:
            return repr(shorter)
    return repr(value)
