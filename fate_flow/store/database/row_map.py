"""How the fields of a dataclass stand in the columns of a table: one declaration for reading and for writing.

Field `x` stands in column `f_x`, and the types of both give the conversion. A declaration names only the exceptions.
Each mistake raises TypeError when the module of the declaration is imported: a field without a column, a type without
a conversion, a column of another type, a column that two fields use. So no field is lost silently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Any, Generic, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from peewee import BooleanField, CharField, Field, IntegerField, Model, TextField

from fate_flow.store.database.json_text import from_json, to_json

V = TypeVar("V")
Row = tuple[Any, ...]
Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class Converted:
    """A field in one column, with a conversion of its own. `empty`: what the column has for an empty value."""

    column: str
    read: Convert
    write: Convert
    empty: Any


@dataclass(frozen=True)
class Maybe:
    """A field whose dataclass stands in several columns; it is None while the column `present` is empty or false."""

    present: str
    columns: Mapping[str, Place]


Place: TypeAlias = "str | Converted | Maybe | Mapping[str, Place] | None"
"""Where a field stands: in a column with another name, in the columns of its dataclass, or (None) in no column: then
it always has its default."""


class RowMap(Generic[V]):
    """The columns of a dataclass, in the order of its fields."""

    def __init__(self, kind: type[V], model: type[Model], places: Mapping[str, Place]) -> None:
        layout = _Layout(model)
        group = _group(kind, places, layout)
        self._name, self._parts = kind.__name__, group.parts
        self.columns: tuple[Any, ...] = tuple(layout.field(name) for name in layout.places)
        self.value_of: Callable[[Row], V] = group.read
        self._new = _new_row(group)

    def columns_of(self, change: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of fields with their new values. Raises TypeError if there is no such field."""
        columns: dict[str, Any] = {}
        for name, value in change.items():
            part = self._parts.get(name)
            if part is None:
                raise TypeError(f"{self._name} has no field {name}")
            part.put(value, columns)
        return columns

    def row_of(self, value: V) -> dict[str, Any]:
        """Return all columns of a new row. Empty values of columns that may be NULL are NULL."""
        return self._new(value)


class _Layout:
    """The columns that have been used so far, and their places in a row."""

    def __init__(self, model: type[Model]) -> None:
        self._fields: Mapping[str, Field] = model._meta.fields
        self._table = model._meta.table_name
        self.places: dict[str, int] = {}

    def field(self, column: str) -> Field:
        return self._fields[column]

    def add(self, column: str, owner: str) -> int:
        if column not in self._fields:
            raise TypeError(f"{owner} has no column: {self._table} has no {column} (store/database/models.py)")
        if column in self.places:
            raise TypeError(f"{owner} stands in {column}, which another field uses")
        return self.places.setdefault(column, len(self.places))


@dataclass(frozen=True)
class _Conversion:
    """How a column is read and written (None: as it is), and the value of an empty one."""

    read: Convert | None
    write: Convert | None
    empty: Any
    has_null: bool = False       # an empty value of a new row is NULL


@dataclass(frozen=True)
class _Column:
    """A field in one column."""

    name: str
    at: int
    conversion: _Conversion

    def put(self, value: Any, columns: dict[str, Any]) -> None:
        write = self.conversion.write
        columns[self.name] = value if write is None else write(value)

    def empty(self) -> dict[str, Any]:
        return {self.name: self.conversion.empty}


@dataclass(frozen=True)
class _Group:
    """A dataclass in several columns."""

    parts: Mapping[str, _Part]
    read: Convert

    def put(self, value: Any, columns: dict[str, Any]) -> None:
        for name, part in self.parts.items():
            part.put(getattr(value, name), columns)

    def empty(self) -> dict[str, Any]:
        return {column: empty for part in self.parts.values() for column, empty in part.empty().items()}


@dataclass(frozen=True)
class _MaybeGroup:
    """A dataclass in several columns, or None. `flag`: the column that says only which, if there is one."""

    group: _Group
    read: Convert
    flag: str

    def put(self, value: Any, columns: dict[str, Any]) -> None:
        if value is None:
            columns.update(self.empty())
            return
        self.group.put(value, columns)
        if self.flag:
            columns[self.flag] = True

    def empty(self) -> dict[str, Any]:
        return self.group.empty() | ({self.flag: False} if self.flag else {})


_Part: TypeAlias = "_Column | _Group | _MaybeGroup"


def _group(kind: type[Any], places: Mapping[str, Place], layout: _Layout) -> _Group:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    if unknown := sorted(places.keys() - set(names)):
        raise TypeError(f"{kind.__name__} has no {', '.join(unknown)}")
    if hasattr(kind, "__post_init__") or hasattr(kind, "__slots__"):
        raise TypeError(f"{kind.__name__} has __post_init__ or __slots__: rows are read without its __init__")
    kept = [name for name in names if places.get(name, "") is not None]
    defaults = {field.name: field.default for field in fields(kind) if field.name not in kept}
    if MISSING in defaults.values():
        raise TypeError(f"{kind.__name__} has a field that stands in no column and has no default")
    parts = {
        name: _part(f"{kind.__name__}.{name}", hints[name], places.get(name, f"f_{name}"), layout) for name in kept
    }
    return _Group(parts, _reader(kind, parts, defaults))


def _part(owner: str, hint: Any, place: Place, layout: _Layout) -> _Part:
    kind, is_optional = _without_none(hint)
    if isinstance(place, Maybe):
        if not (is_optional and _is_dataclass(kind)):
            raise TypeError(f"{owner} is never None: Maybe is for a dataclass or None")
        return _maybe(owner, kind, place, layout)
    if isinstance(place, Converted):
        at = layout.add(place.column, owner)
        return _Column(place.column, at, _Conversion(place.read, place.write, place.empty))
    if isinstance(place, AnyMapping):
        if not _is_dataclass(kind):
            raise TypeError(f"{owner} is no dataclass: it stands in one column")
        if is_optional:
            raise TypeError(f"{owner} may be None: it needs Maybe")
        return _group(kind, place, layout)
    assert place is not None, owner
    at = layout.add(place, owner)
    return _Column(place, at, _conversion(owner, kind, is_optional, layout.field(place)))


def _is_dataclass(kind: Any) -> bool:
    return is_dataclass(kind)


def _maybe(owner: str, kind: type[Any], place: Maybe, layout: _Layout) -> _MaybeGroup:
    group = _group(kind, place.columns, layout)
    is_flag = place.present not in layout.places
    at = layout.add(place.present, owner) if is_flag else layout.places[place.present]
    value_of = group.read

    def read(row: Row) -> Any:
        return value_of(row) if row[at] else None

    return _MaybeGroup(group, read, place.present if is_flag else "")


def _reader(kind: type[Any], parts: Mapping[str, _Part], defaults: Mapping[str, Any]) -> Convert:
    """Return the function that makes a value of a row.

    It fills the value without `__init__`, which would set each of fifty fields by a call of its own."""
    one_column = [(name, part) for name, part in parts.items() if isinstance(part, _Column)]
    reads = [(name, part.at, part.conversion.read) for name, part in one_column]
    plain = [(name, at) for name, at, convert in reads if convert is None]
    converted = tuple((name, at, convert) for name, at, convert in reads if convert is not None)
    groups = tuple((name, part.read) for name, part in parts.items() if not isinstance(part, _Column))
    if len(plain) < 2:          # itemgetter returns no tuple for one place
        converted += tuple((name, at, _as_is) for name, at in plain)
        plain = []
    names = tuple(name for name, _ in plain)
    pick: Convert = itemgetter(*(at for _, at in plain)) if plain else _nothing
    new = object.__new__

    def read(row: Row) -> Any:
        value = new(kind)
        values = value.__dict__
        values.update(zip(names, pick(row), strict=True))
        for name, at, convert in converted:
            values[name] = convert(row[at])
        for name, value_of in groups:
            values[name] = value_of(row)
        if defaults:
            values.update(defaults)
        return value

    return read


def _new_row(group: _Group) -> Callable[[Any], dict[str, Any]]:
    """Return the function that makes the columns of a new row."""
    columns, maybes = _flat(group, "")
    names = tuple(part.name for _, part in columns)
    pick = _attributes([path for path, _ in columns])
    writes = tuple((part.name, write) for _, part in columns if (write := _writer_of_new(part.conversion)) is not None)
    groups = tuple((attrgetter(path), _new_maybe(part)) for path, part in maybes)

    def row_of(value: Any) -> dict[str, Any]:
        row = dict(zip(names, pick(value), strict=True))
        for name, write in writes:
            row[name] = write(row[name])
        for one, columns_of in groups:
            row.update(columns_of(one(value)))
        return row

    return row_of


def _new_maybe(part: _MaybeGroup) -> Callable[[Any], Mapping[str, Any]]:
    row_of, (columns, _) = _new_row(part.group), _flat(part.group, "")
    nothing = part.empty() | {one.name: None for _, one in columns if one.conversion.has_null}
    flag = {part.flag: True} if part.flag else {}

    def columns_of(value: Any) -> Mapping[str, Any]:
        return nothing if value is None else row_of(value) | flag

    return columns_of


def _attributes(paths: Sequence[str]) -> Callable[[Any], Row]:
    if len(paths) > 1:
        return attrgetter(*paths)
    one: Convert = attrgetter(*paths)       # which returns no tuple

    def pick(value: Any) -> Row:
        return (one(value),)

    return pick


def _flat(group: _Group, prefix: str) -> tuple[list[tuple[str, _Column]], list[tuple[str, _MaybeGroup]]]:
    """Return the columns of a dataclass and of those inside it with the paths of their fields, and what may be None."""
    columns: list[tuple[str, _Column]] = []
    maybes: list[tuple[str, _MaybeGroup]] = []
    for name, part in group.parts.items():
        if isinstance(part, _Column):
            columns.append((prefix + name, part))
        elif isinstance(part, _MaybeGroup):
            maybes.append((prefix + name, part))
        else:
            inner = _flat(part, f"{prefix}{name}.")
            columns.extend(inner[0])
            maybes.extend(inner[1])
    return columns, maybes


def _writer_of_new(conversion: _Conversion) -> Convert | None:
    write = conversion.write
    if not conversion.has_null:
        return write
    if write is None:
        return _or_null

    def write_new(value: Any) -> Any:
        return write(value) if value else None

    return write_new


def _as_is(value: Any) -> Any:
    return value


def _nothing(_: Row) -> Row:
    return ()


# ------------------------------------------------------------------ one column


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    others = [one for one in get_args(hint) if one is not NoneType]
    return (others[0], True) if len(others) == 1 else (hint, False)


def _conversion(owner: str, kind: Any, is_optional: bool, field: Field) -> _Conversion:
    known = _known_conversion(kind, is_optional, field.null)
    if known is None:
        raise TypeError(f"{owner} has a type without a conversion; give it one where the columns are declared")
    column_types, conversion = known
    if not isinstance(field, column_types):
        raise TypeError(f"{owner} does not fit its column {field.name}, which is a {type(field).__name__}")
    return conversion


_TEXT = (CharField, TextField)


def _known_conversion(kind: Any, is_optional: bool, is_null: bool) -> tuple[Any, _Conversion] | None:
    """Return the types of columns that the type of a field fits, and how it is converted."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        nothing = None if is_optional and is_null else ""
        return _TEXT, _Conversion(_members(kind, is_optional).__getitem__, _enum_writer(nothing), nothing)
    if is_optional:
        return (IntegerField, _Conversion(None, None, None)) if kind is int and is_null else None
    if kind is bool:
        return BooleanField, _Conversion(bool, None, False)
    if kind is int:
        return IntegerField, _Conversion(_or_zero if is_null else None, None, 0, is_null)
    if kind is str:
        return _TEXT, _Conversion(_or_empty if is_null else None, None, "", is_null)
    if get_origin(kind) is tuple and get_args(kind) == (str, Ellipsis):
        return _TEXT, _Conversion(_texts, _text_of_texts, "[]", is_null)
    if get_origin(kind) is AnyMapping:
        return _TEXT, _Conversion(from_json, _text_of_mapping, "{}", is_null)
    return None


class _Members(dict[Any, Any]):
    """The members of an enumeration by value; a lookup is much faster than a call of the class."""

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__((one.value, one) for one in kind)
        self._kind = kind

    def __missing__(self, value: Any) -> Any:
        return self._kind(value)        # raises ValueError


def _members(kind: type[Enum], is_optional: bool) -> _Members:
    members = _Members(kind)
    if is_optional:
        members.update({None: None, "": None})
    return members


def _enum_writer(nothing: str | None) -> Convert:
    def write(value: Any) -> Any:
        return nothing if value is None else value.value

    return write


def _or_null(value: Any) -> Any:
    return value or None


def _or_zero(value: Any) -> Any:
    return value or 0


def _or_empty(value: Any) -> Any:
    return value or ""


def _texts(text: str | None) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text else ()


def _text_of_texts(value: Any) -> str:
    return to_json(list(value))


def _text_of_mapping(value: Any) -> str:
    return to_json(dict(value))
