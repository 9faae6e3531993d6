"""View rows: the requested fields of rows of a table, as values. A field has the name of its column without `f_`.

Who asks names the fields, so a new column is in no answer by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from peewee import SQL, BooleanField, DateTimeField

from fate_flow.jobspec.text.json_text import JsonText
from fate_flow.store.database.prepared import packed_query, read_unpacked

Row = dict[str, Any]
Converter = Callable[[Any], Any]

_DOCUMENTS = frozenset({
    "dsl", "runtime_conf", "runtime_conf_on_party", "train_runtime_conf", "document", "cmd",
    "component_parameters",
})  # fmt: skip
_OBJECTS = frozenset({
    "roles", "user", "inheritance_info", "policy_timers", "provider_info", "engine_conf", "engine_config",
})  # fmt: skip
_LISTS = frozenset({"unconfirmed_parties", "missing_parties", "without_parties", "changed_components", "passers"})


def column_of(model: Any, name: str) -> Any:
    """Return the column of a field. Raise KeyError if the table has no such column."""
    return model._meta.fields[f"f_{name}"]


def read_rows(query: Any, model: Any, names: Sequence[str]) -> list[Row]:
    """Return the rows of a query that selects the columns of these fields, in this order.

    They are like those of peewee's `dicts()`, made in a third of the time: only some columns need a conversion."""
    database = model._meta.database
    found = read_unpacked(lambda one: database.execute(one).fetchall(), packed_query(database, query), query)
    return rows_from(found, model, names)


def rows_from(read: Iterable[Iterable[Any]], model: Any, names: Sequence[str]) -> list[Row]:
    """Return the same of the values that a query has read."""
    converters = _converters_of(model, tuple(names))
    return [dict(zip(names, _converted(values, converters), strict=True)) for values in read]


def _converted(values: Iterable[Any], converters: Iterable[tuple[int, Converter]]) -> list[Any]:
    found = list(values)
    for place, value_of in converters:
        found[place] = value_of(found[place])
    return found


@cache
def _converters_of(model: Any, names: tuple[str, ...]) -> tuple[tuple[int, Converter], ...]:
    return tuple(_converters(model, names))


def _converters(model: Any, names: Sequence[str]) -> Iterator[tuple[int, Converter]]:
    """Yield the places of values that need a conversion, and how."""
    for place, name in enumerate(names):
        column = column_of(model, name)
        if name in _DOCUMENTS:
            yield place, _document
        elif name in _OBJECTS:
            yield place, _object
        elif name in _LISTS:
            yield place, _list
        elif isinstance(column, BooleanField) and not column.null:
            yield place, bool
        elif isinstance(column, (BooleanField, DateTimeField)):
            yield place, column.python_value


def _document(text: str | None) -> JsonText:
    """Keep a whole document as text: it is long, and most readers only pass it on."""
    return JsonText(text or "{}")


def _object(text: str | None) -> Any:
    return json.loads(text) if text else {}


def _list(text: str | None) -> Any:
    return json.loads(text) if text else []


def read_by(row: Any, name: str, index: str) -> Any:
    """Return the table of a model alias with this name as a query reads it: by this index and no other.

    Without it, MariaDB takes the primary key where its statistics see no difference, and reads far more."""
    hint = f"INDEXED BY {index}" if row.model._meta.database.is_sqlite else f"FORCE INDEX ({index})"
    return SQL(f"{row.model._meta.table_name} AS {name} {hint}")
