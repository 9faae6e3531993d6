"""Filters of lists as conditions on columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from peewee import Database, fn

from fate_flow.store.database.opening import LOWER_ALL
from fate_flow.store.views.columns import column_of

MOST_VALUES = 500            # in one filter; SQLite allows so many variables, and no client needs more

Value = str | int | bool | datetime


@dataclass(frozen=True)
class Span:
    """A range of numbers or dates, with both ends; None: no bound."""

    low: Value | None
    high: Value | None


Filters = Mapping[str, Value | tuple[Value, ...] | Span]
"""By field: the value that it has, several values of which it has one, or the range in which it is."""


def conditions(model: Any, filters: Filters, without_index: frozenset[str] = frozenset()) -> Any:
    """Return the condition that all of these filters hold; None without a filter."""
    where = None
    for name, wanted in filters.items():
        one = _condition(column_of(model, name), wanted, uses_index=name not in without_index)
        where = one if where is None else where & one
    return where


def _condition(column: Any, wanted: Any, *, uses_index: bool) -> Any:
    if isinstance(wanted, Span):
        return _within(column, wanted)
    found = column if uses_index else not_by_index(column)
    return found.in_(wanted) if isinstance(wanted, tuple) else found == wanted


NO_INDEX = frozenset({"status"})


def not_by_index(column: Any) -> Any:
    """Return the column in a form for which the database uses no index, so that it uses the index of the order."""
    return fn.COALESCE(column, "")


def has_text(database: Database, column: Any, text: str) -> Any:
    """Return the condition that a column has this text, with its letters in whichever case, on each database alike."""
    # LIKE regards A to Z in either case as equal on SQLite, and no letters on MariaDB: the collation is binary.
    if database.is_sqlite and text.isascii():
        return column.contains(text)
    lowered = getattr(fn, LOWER_ALL if database.is_sqlite else "LOWER")(column)
    return lowered.contains(text.lower())


def _within(column: Any, span: Span) -> Any:
    if span.low is None and span.high is None:
        return column.is_null(False) | column.is_null()
    if span.low is None:
        return column <= span.high
    return column >= span.low if span.high is None else column.between(span.low, span.high)
