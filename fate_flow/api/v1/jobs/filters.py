"""The filters of lists of jobs, tasks and output tables: fields with the values that clients look for, as FATE reads
them.

Unknown names and null values are ignored. Two values for a number or a date are a range; other lists are choices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from fate_flow.api.http.arguments import FLAG, Body
from fate_flow.api.http.declared import Arguments, Schema, a_list, or_null
from fate_flow.api.v1.rendering.fields import Fields
from fate_flow.api.v1.rendering.statuses import meant_statuses
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_text, shown
from fate_flow.store.views.filters import MOST_VALUES, Filters, Span, Value

_STATUSES = ("status", "party_status")
_DIGITS = re.compile(r"-?[0-9]{1,18}")


def read_filters(body: Body, fields: Fields) -> Filters:
    """Return the filters of a body by these fields. Raise BadRequest for a value that does not fit its field."""
    return {
        name: _wanted(name, fields[name].kind, value)
        for name, value in body.items() if name in fields and value is not None
    }  # fmt: skip


def _wanted(name: str, kind: type, value: Any) -> Value | tuple[Value, ...] | Span:
    given = value if isinstance(value, list) else [value]
    if len(given) > MOST_VALUES:
        raise BadRequest(f"{name}: {len(given)} values are too many, {MOST_VALUES} is the most")
    if isinstance(value, list) and len(value) == 2 and kind in (int, datetime):
        low, high = (None if one is None else _value(name, kind, one) for one in value)
        return Span(low, high)
    choices = tuple(_value(name, kind, one) for one in given)
    if name in _STATUSES:
        choices = meant_statuses(choices)
    return choices[0] if len(choices) == 1 else choices


def _value(name: str, kind: type, value: Any) -> Value:
    """Return the value in the type of its field. Raise BadRequest."""
    if kind is bool:
        return _flag(name, value)
    if kind is datetime:
        return _moment(name, value)
    if kind is int:
        return _number(name, value)
    if isinstance(value, str):
        return check_text(value, name)
    if isinstance(value, int) and not isinstance(value, bool):     # clients also send party ids as numbers
        return shown(value)
    raise BadRequest(f"{name}: {shown(value)} is not text")


def _number(name: str, value: Any) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    elif isinstance(value, str) and name.endswith("_time"):
        return _milliseconds(name, _moment(name, value))
    if type(value) is not int or abs(value) >= 2**63:
        raise BadRequest(f"{name}: {shown(value)} is not a whole number")
    return value


def _milliseconds(name: str, moment: datetime) -> int:
    try:
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError) as error:       # before year 1 in UTC
        raise BadRequest(f"{name}: {moment} is too long ago") from error


def _moment(name: str, value: Any) -> datetime:
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d"):
        try:
            return datetime.strptime(value, form)
        except (TypeError, ValueError):
            continue
    raise BadRequest(f"{name}: {shown(value)} is not a date such as 2026-01-31 12:00:00")


def _flag(name: str, value: Any) -> bool:
    known = {True: True, False: False, "1": True, "0": False, "true": True, "false": False}
    if isinstance(value, (bool, int, str)) and value in known:
        return known[value]
    raise BadRequest(f"{name}: {shown(value)} is not true or false")


# ---------------------------------------------------------------------- schemas

_NUMBER: Schema = {
    "type": ["integer", "string"], "minimum": -(2**63) + 1, "maximum": 2**63 - 1, "pattern": "^-?[0-9]{1,18}$"
}  # fmt: skip
_DATE: Schema = {"type": "string", "format": "moment"}
_TEXT: Schema = {"type": ["string", "integer"]}
_ASKED: Mapping[type, Schema] = {int: _NUMBER, bool: FLAG, datetime: _DATE}
_TITLES: Mapping[type, str] = {int: "Number", bool: "Flag", datetime: "Date"}


def filter_schemas(fields: Fields, names: Sequence[str] = ()) -> Arguments:
    """Return the schemas of filters by the fields with these names, by default by all of them."""
    return {name: _schema(name, fields[name].kind) for name in names or fields}


def _schema(name: str, kind: type) -> Schema:
    one = _ASKED.get(kind, _TEXT)
    is_time = kind is int and name.endswith("_time")
    if is_time:
        one = {"anyOf": [_NUMBER, _DATE]}
    title = f"FilterBy{'Time' if is_time else _TITLES.get(kind, 'Text')}"
    several = a_list(one, maxItems=MOST_VALUES)
    if kind not in (int, datetime):
        return {"anyOf": [one, several], "title": title, "description": "One value, or a list of choices."}
    span = a_list(or_null(one), minItems=2, maxItems=2)
    text = "One value, two for a range (null: no bound), or a list of choices."
    dates = " A date is written 2026-01-31 or 2026-01-31 12:00:00." if one is not _NUMBER else ""
    return {"anyOf": [one, several, span], "title": title, "description": text + dates}
