"""The filters of clients as conditions on columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from peewee import BooleanField, DateTimeField, IntegerField, fn

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_text, shown
from fate_flow.core.model.status import JobStatus

MOST_VALUES = 500            # in one filter; SQLite allows so many variables, and no client needs more


def conditions(model: Any, filters: Mapping[str, Any], without_index: frozenset[str] = frozenset()) -> Any:
    """Return the condition that the filters mean, as FATE reads them; None if none of them can be used.

    Unknown names and null values are ignored. Two values for a number or a date are a range; other lists are choices.
    Raises BadRequest for a value that does not fit the column."""
    found = [
        _condition(model._meta.fields[f"f_{key}"], key, value, uses_index=key not in without_index)
        for key, value in filters.items()
        if value is not None and f"f_{key}" in model._meta.fields
    ]
    where = None
    for one in found:
        where = one if where is None else where & one
    return where


def _condition(field: Any, key: str, value: Any, *, uses_index: bool) -> Any:
    if isinstance(value, list):
        if len(value) > MOST_VALUES:
            raise BadRequest(f"{key}: {len(value)} values are too many, {MOST_VALUES} is the most")
        if len(value) == 2 and _is_continuous(field):
            return _range(field, key, value)
        choices = [_value(field, key, one) for one in value]
    else:
        choices = [_value(field, key, value)]
    column = field if uses_index else not_by_index(field)
    choices = with_stopping(key, choices)
    return column == choices[0] if len(choices) == 1 else column.in_(choices)


NO_INDEX = frozenset({"status"})


def not_by_index(field: Any) -> Any:
    """Return the column in a form for which the database uses no index, so that it uses the index of the order."""
    return fn.COALESCE(field, "")


def with_stopping(key: str, values: list[Any]) -> list[Any]:
    """Add `stopping` to values with `running`, because clients see stopping rows as running."""
    if key in ("status", "party_status") and JobStatus.RUNNING.value in values:
        return [*values, JobStatus.STOPPING.value]
    return values


def _range(field: Any, key: str, bounds: Sequence[Any]) -> Any:
    low, high = (None if one is None else _value(field, key, one) for one in bounds)
    if low is None and high is None:
        return field.is_null(False) | field.is_null()
    if low is None:
        return field <= high
    return field >= low if high is None else field.between(low, high)


def _is_continuous(field: Any) -> bool:
    return isinstance(field, (IntegerField, DateTimeField))


def _value(field: Any, key: str, value: Any) -> Any:
    """Return the value in the type of the column. Raises BadRequest."""
    if isinstance(field, BooleanField):
        return _flag(key, value)
    if isinstance(field, DateTimeField):
        return _moment(key, value)
    if isinstance(field, IntegerField):
        return _number(key, value)
    if isinstance(value, str):
        return check_text(value, key)
    if isinstance(value, int) and not isinstance(value, bool):     # clients also send party ids as numbers
        return shown(value)
    raise BadRequest(f"{key}: {shown(value)} is not text")


def _number(key: str, value: Any) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    elif isinstance(value, str) and key.endswith("_time"):
        return _milliseconds(key, _moment(key, value))
    if type(value) is not int or abs(value) >= 2**63:
        raise BadRequest(f"{key}: {shown(value)} is not a whole number")
    return value


_DIGITS = re.compile(r"-?[0-9]{1,18}")


def _milliseconds(key: str, moment: datetime) -> int:
    try:
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError) as error:       # before year 1 in UTC
        raise BadRequest(f"{key}: {moment} is too long ago") from error


def _moment(key: str, value: Any) -> datetime:
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d"):
        try:
            return datetime.strptime(value, form)
        except (TypeError, ValueError):
            continue
    raise BadRequest(f"{key}: {shown(value)} is not a date such as 2026-01-31 12:00:00")


def _flag(key: str, value: Any) -> bool:
    known = {True: True, False: False, "1": True, "0": False, "true": True, "false": False}
    if isinstance(value, (bool, int, str)) and value in known:
        return known[value]
    raise BadRequest(f"{key}: {shown(value)} is not true or false")
