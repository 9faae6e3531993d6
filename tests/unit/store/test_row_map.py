"""A field that a table cannot store is noticed when its columns are declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest
from peewee import BigIntegerField, BooleanField, CharField, IntegerField, Model, TextField

from fate_flow.store.database.row_map import Converted, Maybe, Place, RowMap


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Size:
    width: int = 0
    height: int = 0


@dataclass(frozen=True)
class Thing:
    name: str
    colour: Colour
    is_old: bool = False
    size: Size = Size()
    label: Size | None = None
    other: Colour | None = None
    tags: tuple[str, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)
    count: int | None = None


class ThingRow(Model):
    f_name = CharField(10)
    f_colour = CharField(10)
    f_old = BooleanField(default=False)
    f_width = IntegerField(default=0)
    f_height = BigIntegerField(null=True)
    f_has_label = BooleanField(default=False)
    f_label_width = IntegerField(default=0)
    f_other = CharField(10, default="")
    f_tags = TextField(null=True)
    f_notes = TextField(null=True)
    f_count = IntegerField(null=True)

    class Meta:
        table_name = "t_thing"


PLACES: Mapping[str, Place] = {
    "is_old": "f_old",
    "size": {"width": "f_width", "height": "f_height"},
    "label": Maybe("f_has_label", {"width": "f_label_width", "height": None}),
}
THINGS = RowMap(Thing, ThingRow, PLACES)
PLAIN = Thing("a", Colour.RED)
FULL = Thing(
    "b", Colour.BLUE, True, Size(1, 2), Size(3), Colour.RED, ("x", "y"), {"n": 1}, 0,
)  # fmt: skip


@pytest.mark.parametrize("thing", [PLAIN, FULL])
def test_what_is_written_is_read(thing: Thing) -> None:
    row = THINGS.row_of(thing)
    assert THINGS.value_of(tuple(row[column.name] for column in THINGS.columns)) == thing


def test_a_new_row_has_null_where_it_may_be() -> None:
    assert THINGS.row_of(PLAIN) == {
        "f_name": "a", "f_colour": "red", "f_old": False, "f_width": 0, "f_height": None, "f_has_label": False,
        "f_label_width": 0, "f_other": "", "f_tags": None, "f_notes": None, "f_count": None,
    }  # fmt: skip


def test_a_change_writes_what_it_says_and_no_null_for_an_empty_value() -> None:
    change = {"tags": (), "other": None, "label": None, "size": Size(0, 0), "count": 0}
    assert THINGS.columns_of(change) == {
        "f_tags": "[]", "f_other": "", "f_has_label": False, "f_label_width": 0, "f_width": 0, "f_height": 0,
        "f_count": 0,
    }  # fmt: skip


def test_a_change_of_an_unknown_field_is_an_error() -> None:
    with pytest.raises(TypeError, match="Thing has no field colours"):
        THINGS.columns_of({"colours": Colour.RED})


def test_a_text_that_is_no_member_is_an_error() -> None:
    row = THINGS.row_of(PLAIN) | {"f_colour": "green"}
    with pytest.raises(ValueError, match="'green' is not a valid Colour"):
        THINGS.value_of(tuple(row[column.name] for column in THINGS.columns))


@dataclass(frozen=True)
class Priced(Thing):
    price: int = 0


@dataclass(frozen=True)
class Weighed(Thing):
    weight: float = 0


@dataclass(frozen=True)
class Nested(Thing):
    inner: Size = Size()


@dataclass(frozen=True)
class Checked(Thing):
    def __post_init__(self) -> None:
        assert self.name


class WeighedRow(ThingRow):
    f_weight = IntegerField(default=0)
    f_inner = TextField(null=True)
    f_price = TextField(null=True)


@pytest.mark.parametrize(("kind", "model", "places", "problem"), [
    (Priced, ThingRow, PLACES, r"Priced.price has no column: t_thing has no f_price \(store/database/models.py\)"),
    (Priced, WeighedRow, PLACES, "Priced.price does not fit its column f_price, which is a TextField"),
    (Weighed, WeighedRow, PLACES, "Weighed.weight has a type without a conversion"),
    (Nested, WeighedRow, PLACES, "Nested.inner has a type without a conversion"),
    (Checked, ThingRow, PLACES, "Checked has __post_init__"),
    (Thing, ThingRow, {**PLACES, "price": "f_price"}, "Thing has no price"),
    (Thing, ThingRow, {**PLACES, "name": "f_colour"}, "Thing.colour stands in f_colour, which another field uses"),
    (Thing, ThingRow, {**PLACES, "name": None}, "Thing has a field that stands in no column and has no default"),
    (Thing, ThingRow, {**PLACES, "name": {}}, "Thing.name is no dataclass"),
    (Thing, ThingRow, {**PLACES, "size": Maybe("f_has_label", {})}, "Thing.size is never None"),
    (Thing, ThingRow, {**PLACES, "label": {}}, "Thing.label may be None: it needs Maybe"),
])  # fmt: skip
def test_a_field_that_cannot_be_stored_is_refused(kind: Any, model: Any, places: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        RowMap(kind, model, places)


def test_a_type_without_a_conversion_can_be_given_one() -> None:
    places = {**PLACES, "weight": Converted("f_inner", float, str, "0")}
    found = RowMap(Weighed, WeighedRow, places).row_of(Weighed("a", Colour.RED, weight=1.5))
    assert found["f_inner"] == "1.5"
