"""Frequent queries: peewee builds their SQL text once in a process; later only the values change.

Building a select of thirty columns takes peewee half a millisecond, and an update a quarter; this is ten times as long
as SQLite needs to run it.

MySQL describes each column of each answer anew, and PyMySQL needs ten times as long to read that as to read the values:
a millisecond for the row of a job. So a row of many columns comes from MySQL as one text, a JSON array.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from peewee import (
    OP,
    BooleanField,
    CharField,
    Database,
    Expression,
    Field,
    Function,
    IntegerField,
    Model,
    ModelSelect,
    TextField,
    Update,
    Value,
    fn,
)

from fate_flow.store.database.read_memo import ReadMemo

V = TypeVar("V")
Q = TypeVar("Q")

_Row = tuple[Any, ...]
_MANY_COLUMNS = 6
# Whose values JSON has as PyMySQL returns them. A column of the type JSON, or with a check for JSON, would be a part of
# the array and no text; bytes have no JSON. The schema has neither (test_packed_rows.py).
_OF_JSON = (BooleanField, CharField, IntegerField, TextField)
_MARKS = tuple(f"\0value {number}" for number in range(16))


class Prepared:
    """A query with values: `build` makes the query from `values` many values."""

    def __init__(self, build: Callable[..., Any], values: int) -> None:
        self._build = build
        self._values = values
        self._texts: dict[bool, _Texts] = {}

    def rows(self, database: Database, *values: str | int) -> list[_Row]:
        """Return the rows that the query selects with these values; they may be known in this transaction."""
        return list(self._known_or_read(database, "rows", values, lambda: self._read(database, values)))

    def row(self, database: Database, *values: str | int) -> _Row | None:
        """Return the first of these rows; None if there is none."""
        return self._known_or_read(database, "row", values, lambda: self._read_first(database, values))

    def made(self, database: Database, make: Callable[[_Row], V], *values: str | int) -> tuple[V, ...]:
        """Return what `make` makes of each of these rows. A transaction may get the same objects again: they must be
        immutable."""
        return self._known_or_read(database, make, values, lambda: tuple(map(make, self._read(database, values))))

    def _known_or_read(
        self, database: Database, what: Hashable, values: tuple[str | int, ...], read: Callable[[], V]
    ) -> V:  # fmt: skip
        memo: ReadMemo | None = getattr(database, "memo", None)
        if memo is None:
            return read()
        found: V = memo.get(self._known(database).text, (what, *values), read)
        return found

    def _read(self, database: Database, values: tuple[str | int, ...]) -> Sequence[_Row]:
        known = self._known(database)
        given = _given(known.params, values)
        return read_unpacked(lambda text: database.execute_sql(text, given).fetchall(), known.packed, known.text)

    def _read_first(self, database: Database, values: tuple[str | int, ...]) -> _Row | None:
        known = self._known(database)
        if known.packed:
            return next(iter(self._read(database, values)), None)
        found: _Row | None = database.execute_sql(known.text, _given(known.params, values)).fetchone()
        return found

    def insert(self, database: Database, *values: str | int) -> int:
        """Run the query, which must be an insert; return the id of the new row."""
        return int(self._execute(database, values).lastrowid)

    def run(self, database: Database, *values: str | int) -> int:
        """Run the query, which changes rows; return how many it has changed or found."""
        return int(self._execute(database, values).rowcount)

    def text(self, database: Database, *values: str | int) -> tuple[str, list[Any]]:
        """Return the text of the query, and its values."""
        known = self._known(database)
        return known.text, _given(known.params, values)

    def insert_all(self, database: Database, rows: Sequence[tuple[str | int, ...]]) -> None:
        """Run the query, which must be an insert, for all these rows in one statement."""
        database.execute_sql(*self.for_all(database, rows))

    def for_all(self, database: Database, rows: Sequence[tuple[str | int, ...]]) -> tuple[str, list[Any]]:
        """Return the text and the values of an insert of all these rows in one statement."""
        known = self._known(database)
        head, _, marks = known.text.rpartition(" VALUES ")
        given = [one for values in rows for one in _given(known.params, values)]
        return f"{head} VALUES {', '.join([marks] * len(rows))}", given

    def _execute(self, database: Database, values: tuple[str | int, ...]) -> Any:
        return database.execute_sql(*self.text(database, *values))

    def _known(self, database: Database) -> _Texts:
        known = self._texts.get(database.is_sqlite)
        if known is None:
            query = self._build(*_MARKS[: self._values])
            sql, params = query.sql()
            packed = packed_query(database, query)
            packed_text = None if packed is None else packed.sql()[0]
            known = self._texts[database.is_sqlite] = _Texts(sql, tuple(map(_param, params)), packed_text)
        return known


_Param = tuple[int, Any]
"""The place of the value that is given for it, or -1 and a constant."""


class _Texts(NamedTuple):
    text: str
    params: tuple[_Param, ...]
    packed: str | None           # the same with one JSON array for each row; None: its rows are read as they are


def can_pack(database: Database, columns: Iterable[Any]) -> bool:
    """Return whether a row of these columns is better read as one JSON array. To write long texts into one costs the
    server more than is saved."""
    if database.is_sqlite:
        return False
    listed = tuple(columns)
    are_short = [not isinstance(one, TextField) for one in listed]
    return sum(are_short) >= _MANY_COLUMNS and all(isinstance(one, _OF_JSON) for one in listed)


def packed(columns: Sequence[Any]) -> Function:
    """Return the one column that has the values of all these."""
    return fn.JSON_ARRAY(*columns)


def packed_query(database: Database, query: Any) -> Any:
    """Return a query for the same rows as one column each; None if they are better read as they are."""
    if type(query) is not ModelSelect:
        return None
    if query._simple_distinct or query._distinct is not None:
        return None          # it would compare the arrays, and not the values by their collation
    if not can_pack(database, query.selected_columns):
        return None
    return query.select(packed(query.selected_columns))


def read_unpacked(run: Callable[[Q], Sequence[_Row]], packed: Q | None, plain: Q) -> Sequence[_Row]:
    """Return the rows that `run` finds for the query `plain`. `packed` finds the same rows packed, and is asked instead
    if it is not None. If one of them is too long for a function of MySQL, `plain` is asked, too."""
    if packed is not None:
        found = run(packed)
        if all(text is not None for text, in found):
            return [tuple(json.loads(text)) for text, in found]
    return run(plain)


def _param(one: Any) -> _Param:
    return (_MARKS.index(one), None) if one in _MARKS else (-1, one)


def _given(params: tuple[_Param, ...], values: tuple[str | int, ...]) -> list[Any]:
    return [values[place] if place >= 0 else constant for place, constant in params]


_Value = tuple[str | None, Any]
_inserts: dict[tuple[bool, type[Model], tuple[str, ...], bool], tuple[str, tuple[_Value, ...]]] = {}
_Shape = tuple[bool, type[Model], tuple[str, ...], tuple[str, ...]]
_Column = tuple[str, Callable[[Any], Any]]
_updates: dict[_Shape, tuple[str, tuple[_Column, ...], tuple[_Column, ...]]] = {}


def insert(database: Database, model: type[Model], values: Mapping[str, Any], *, replaces: bool = False) -> None:
    """Insert a row with these columns and the model's constant defaults. Raises IntegrityError.

    `replaces`: it takes the place of the row with the same key, if there is one."""
    shape = (database.is_sqlite, model, tuple(values), replaces)
    if shape not in _inserts:
        marks = {f"\0{name}": name for name in values}
        build = model.replace if replaces else model.insert
        text, params = build(**{name: Value(mark, converter=False) for mark, name in marks.items()}).sql()
        _inserts[shape] = (text, tuple(_value(model, marks, one) for one in params))
    text, parts = _inserts[shape]
    database.execute_sql(text, [one if name is None else one(values[name]) for name, one in parts])


_Pairs = Sequence[tuple[str, Any]]


def update(database: Database, model: type[Model], changes: Mapping[str, Any], where: _Pairs) -> int:
    """Write these columns in the rows where each column of `where` has its value; return how many rows that has changed
    or found."""
    return int(database.execute_sql(*update_text(database, model, changes, where)).rowcount)


def update_text(
    database: Database, model: type[Model], changes: Mapping[str, Any], where: _Pairs
) -> tuple[str, list[Any]]:
    """Return text and values of such an update."""
    wanted = dict(where)
    shape = (database.is_sqlite, model, tuple(changes), tuple(wanted))
    if shape not in _updates:
        new, old = ({f"\0{kind} {name}": name for name in names} for kind, names in (("new", changes), ("old", wanted)))
        is_it = [getattr(model, name) == Value(mark, converter=False) for mark, name in old.items()]
        query = model.update(**{name: Value(mark, converter=False) for mark, name in new.items()})
        text, params = query.where(*is_it).sql()
        split = len(new)             # peewee writes the changes first, in the order of the model
        _updates[shape] = (
            text,
            tuple(_column(model, new[one]) for one in params[:split]),
            tuple(_column(model, old[one]) for one in params[split:]),
        )
    text, sets, conditions = _updates[shape]
    values = [convert(changes[name]) for name, convert in sets]
    return text, values + [convert(wanted[name]) for name, convert in conditions]


def _value(model: type[Model], marks: Mapping[str, str], param: Any) -> _Value:
    """Return a column and the conversion of its values, or None and a constant."""
    name = marks.get(param) if isinstance(param, str) else None
    return (None, param) if name is None else _column(model, name)


def _column(model: type[Model], name: str) -> _Column:
    """Return a column and the conversion of its values."""
    return name, getattr(model, name).db_value


class _Unfamiliar(Exception):
    """A part of a query whose values cannot be separated from its text without building it."""


_ONE_VALUE = (str, int, float, bool, datetime)
_MOST_SHAPES = 1_000         # what clients ask for has as many shapes as they like
_shapes: dict[tuple[Any, ...], str | None] = {}


def sql_text(query: Any, is_sqlite: bool) -> tuple[str, list[Any]]:
    """Return text and values of an update or delete; peewee builds the text once for each shape of query."""
    values: list[Any] = []
    try:
        shape = (is_sqlite, type(query), query.table, *_changes(query, values), "where", *_parts(query._where, values))
    except _Unfamiliar:
        return _built(query)
    return _known_or_built(shape, values, lambda: query)


def select_text(
    database: Database, of: Hashable, conditions: Sequence[Any], last: Sequence[int], build: Callable[[], Any]
) -> tuple[str, list[Any]]:
    """Return text and values of a select; peewee builds the text once for each shape of query.

    `build` makes the query. Its text follows from `of` and the shapes of the conditions, of which some may be None. Its
    values are those of the conditions, in this order, then `last`."""
    values: list[Any] = []
    try:
        shape = (database.is_sqlite, of, *(tuple(_parts(one, values)) for one in conditions))
    except _Unfamiliar:
        return _built(build())
    return _known_or_built(shape, [*values, *last], build)


def _known_or_built(shape: tuple[Any, ...], values: list[Any], build: Callable[[], Any]) -> tuple[str, list[Any]]:
    """Return the text for this shape, with these values.

    The first time, the values are compared with peewee's. If they differ, queries of this shape are built each time."""
    if (known := _shapes.get(shape)) is not None:
        return known, values
    text, built = _built(build())
    if shape not in _shapes:
        if len(_shapes) >= _MOST_SHAPES:
            _shapes.clear()
        _shapes[shape] = text if built == values else None
    return text, built


def _built(query: Any) -> tuple[str, list[Any]]:
    text, values = query.sql()
    return text, list(values)


def _changes(query: Any, values: list[Any]) -> Iterator[Any]:
    """Yield the changed columns in the order of the model, as peewee writes them."""
    if not isinstance(query, Update):
        return
    for field, value in sorted(query._update.items(), key=lambda one: one[0]._sort_key):
        yield field.name
        if value is None:
            values.append(None)
        else:
            yield from _parts(value, values)


def _parts(node: Any, values: list[Any]) -> Iterator[Any]:
    """Yield what the text of a condition follows from, and add its values."""
    if isinstance(node, Field):
        yield node.model, node.name
    elif isinstance(node, Expression):
        yield node.op
        yield from _parts(node.lhs, values)
        if node.op in (OP.IN, OP.NOT_IN):
            yield from _list_parts(node.rhs, values)
        else:
            yield from _parts(node.rhs, values)
    elif isinstance(node, Function):
        yield node.name, len(node.arguments)
        for one in node.arguments:
            yield from _parts(one, values)
    elif isinstance(node, _ONE_VALUE):
        values.append(node)
        yield type(node)
    elif node is None:
        yield None
    else:
        raise _Unfamiliar


def _list_parts(listed: Any, values: list[Any]) -> Iterator[Any]:
    if not isinstance(listed, (tuple, list)):
        raise _Unfamiliar            # a query
    yield len(listed)
    for one in listed:
        yield from _parts(one, values)
