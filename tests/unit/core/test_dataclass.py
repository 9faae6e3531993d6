"""Data classes of ours behave as those of Python."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from fate_flow.core.values.dataclass import dataclass


def classes(make: Callable[..., Any]) -> dict[str, Any]:
    """Return classes that are made by one or the other function."""

    @make(frozen=True)
    class Nothing:
        """A class without fields."""

    @make(frozen=True)
    class One:
        a: int

    @make(frozen=True)
    class Many:
        a: int
        b: str = "b"
        many: tuple[int, ...] = ()
        made: list[int] = field(default_factory=list, compare=False)
        secret: str = field(default="s", repr=False)
        of_all: ClassVar[int] = 3

    @make(frozen=True)
    class More(Many):
        b: str = "c"
        d: Callable[[int], int] = field(default=abs)

    @make
    class Changing:
        a: int
        b: list[int] = field(default_factory=list)
        c: int = field(init=False, default=7)
        d: int = field(init=False)
        e: dict[str, int] = field(init=False, default_factory=dict)

        def __post_init__(self) -> None:
            self.d = self.a + 1

    @make(eq=False)
    class Itself:
        a: int

    @make(frozen=True)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 5

    @make(frozen=True)
    class OwnEquality:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

    @make(frozen=True, order=True)
    class Ordered:
        a: int
        b: str

    class Plain(Many):
        pass

    return {name: one for name, one in locals().items() if isinstance(one, type)}


PYTHONS, OURS = classes(dataclasses.dataclass), classes(dataclass)
NAN = float("nan")
CALLS = [
    ("Nothing", ()), ("One", (1,)), ("One", (NAN,)), ("Many", (1,)), ("Many", (1, "x", (2,), [3], "t")), ("More", (1,)),
    ("Changing", (1,)), ("Changing", (1, [2])), ("Itself", (1,)), ("Own", (1,)), ("OwnEquality", (1,)),
    ("Ordered", (1, "a")), ("Plain", (1,)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values"), CALLS)
def test_an_instance_is_that_of_python(name: str, values: tuple[Any, ...]) -> None:
    theirs, ours = PYTHONS[name](*values), OURS[name](*values)
    assert vars(ours) == vars(theirs)
    assert repr(ours).removeprefix("classes.<locals>.") == repr(theirs).removeprefix("classes.<locals>.")
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert ours == OURS[name](*values) if theirs == PYTHONS[name](*values) else ours != OURS[name](*values)
    assert ours != theirs or name == "OwnEquality"
    assert (type(ours).__hash__ is None) == (type(theirs).__hash__ is None)
    assert [one.name for one in dataclasses.fields(ours)] == [one.name for one in dataclasses.fields(theirs)]
    assert type(ours).__match_args__ == type(theirs).__match_args__
    assert vars(copy.deepcopy(ours)) == vars(copy.deepcopy(theirs))


@pytest.mark.parametrize("made", [PYTHONS, OURS], ids=["Python's", "ours"])
def test_values_are_compared_field_by_field(made: dict[str, Any]) -> None:
    many = made["Many"]
    assert many(1) == many(1, made=[5]) != many(2)
    assert many(1) != many(1, secret="u")
    assert many(1) != made["More"](1)
    assert hash(many(1)) == hash(many(1, made=[5]))
    assert len({many(1), many(1), many(2)}) == 2
    assert made["Nothing"]() == made["Nothing"]()
    assert hash(made["Nothing"]()) == hash(made["Nothing"]())
    assert dataclasses.replace(many(1, "x"), a=2) == many(2, "x")
    ordered = made["Ordered"]
    assert ordered(1, "b") < ordered(2, "a") <= ordered(2, "a")
    assert ordered(2, "b") > ordered(2, "a") >= ordered(1, "z")
    with pytest.raises(TypeError, match="'<' not supported"):
        assert ordered(1, "a") < 3


@pytest.mark.parametrize("made", [PYTHONS, OURS], ids=["Python's", "ours"])
@pytest.mark.parametrize("name", ["Many", "More"])
def test_a_frozen_instance_refuses_changes(made: dict[str, Any], name: str) -> None:
    value = made[name](1)
    for attribute in ("a", "secret", "unknown"):
        with pytest.raises(FrozenInstanceError, match=f"^cannot assign to field '{attribute}'$"):
            setattr(value, attribute, 2)
        with pytest.raises(FrozenInstanceError, match=f"^cannot delete field '{attribute}'$"):
            delattr(value, attribute)
    plain = made["Plain"](1)
    plain.further = 2
    del plain.further
    with pytest.raises(FrozenInstanceError):
        plain.a = 2


@pytest.mark.parametrize("made", [PYTHONS, OURS], ids=["Python's", "ours"])
def test_a_wrong_call_is_refused(made: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        made["Many"]()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        made["Many"](1, z=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        made["Changing"](1, c=2)


@dataclass(frozen=True)
class Kept:
    """What can be pickled has a place in a module."""

    a: int
    others: list[Any] = field(default_factory=list)


def test_a_value_is_pickled_and_shows_itself_once() -> None:
    kept = Kept(1, [2])
    assert pickle.loads(pickle.dumps(kept)) == kept
    kept.others.append(kept)
    assert repr(kept) == "Kept(a=1, others=[2, ...])"


def test_each_instance_has_its_own_list() -> None:
    assert OURS["Changing"](1).b is not OURS["Changing"](1).b


def test_what_is_not_supported_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Named\.a: a field that is given by name alone is not supported"):

        @dataclass
        class Named:
            a: int = field(kw_only=True)
