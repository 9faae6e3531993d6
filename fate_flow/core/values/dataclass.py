"""Data classes that are made in a third of the time, since a server has more than 600 of them.

`dataclasses.dataclass` compiles up to seven methods of each class from text. Here only `__init__` is: the others are
the same functions for all classes. The result is a data class for `fields`, `replace`, `asdict` and `is_dataclass`.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, order: bool = False
    ) -> Any:
        """Make a data class, as `dataclasses.dataclass` does. A class and those that it extends are made in one way:
        either all by this function, or all by that of Python."""
        if cls is None:
            return lambda made: _made(made, frozen, eq, order)
        return _made(cls, frozen, eq, order)


_NOT_GIVEN = object()           # the default of a parameter whose value is made for each instance


def _made(cls: Any, frozen: bool, eq: bool, order: bool) -> Any:
    own = dict(vars(cls))
    if cls.__doc__ is None:
        cls.__doc__ = ""        # otherwise the library writes the signature into it, which takes longer than the rest
    cls = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    methods: dict[str, Any] = {"__init__": _init(cls, dataclasses.fields(cls), frozen), "__repr__": _repr}
    if eq:
        cls._compared = _values_of([one.name for one in dataclasses.fields(cls) if one.compare])
        methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if order:
        methods |= {"__lt__": _lt, "__le__": _le, "__gt__": _gt, "__ge__": _ge}
    if frozen:
        methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    for name, method in methods.items():
        if own.get(name) is None:           # otherwise the class has one of its own
            setattr(cls, name, method)
    return cls


def _init(cls: type, fields: Iterable[Field[Any]], frozen: bool) -> Any:
    """Return the constructor, compiled: it runs more often than the other methods. `object.__setattr__` sets what the
    class refuses to change."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_not_given": _NOT_GIVEN}
    parameters, lines = ["self"], []
    for one in fields:
        name, value = one.name, one.name
        if one.kw_only:
            raise TypeError(f"{cls.__qualname__}.{name}: a field that is given by name alone is not supported")
        if one.default_factory is not MISSING:
            known[f"_new_{name}"] = one.default_factory
            parameters += [f"{name}=_not_given"] if one.init else []
            value = f"_new_{name}() if {name} is _not_given else {name}" if one.init else f"_new_{name}()"
        elif not one.init:
            continue            # `__post_init__` sets it, or it stays that of the class
        elif one.default is not MISSING:
            known[f"_default_{name}"] = one.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        lines.append(f"  _set(self, {name!r}, {value})" if frozen else f"  self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("  self.__post_init__()")
    body = "\n".join(lines) or "  pass"
    found: dict[str, Any] = {}
    text = f"def make({', '.join(known)}):\n def __init__({', '.join(parameters)}):\n{body}\n return __init__"
    exec(text, vars(sys.modules[cls.__module__]), found)  # noqa: S102  # of names in our own code
    return found["make"](**known)


def _values_of(names: Sequence[str]) -> attrgetter[Any]:
    """Return what gives the values of these fields as a tuple. Of a single name it would give the value alone."""
    if len(names) > 1:
        return attrgetter(*names)
    [name] = names or ["__class__"]
    return attrgetter(name, name)


# ------------------------------------------------------------------ the methods of all classes


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is self.__class__:
        return self._compared(self) == self._compared(other)
    return NotImplemented


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _lt(self: Any, other: Any) -> Any:
    return self._compared(self) < self._compared(other) if other.__class__ is self.__class__ else NotImplemented


def _le(self: Any, other: Any) -> Any:
    return self._compared(self) <= self._compared(other) if other.__class__ is self.__class__ else NotImplemented


def _gt(self: Any, other: Any) -> Any:
    return self._compared(self) > self._compared(other) if other.__class__ is self.__class__ else NotImplemented


def _ge(self: Any, other: Any) -> Any:
    return self._compared(self) >= self._compared(other) if other.__class__ is self.__class__ else NotImplemented


def _refuse_set(self: Any, name: str, value: Any) -> None:
    _refuse(self, "assign to", name)
    object.__setattr__(self, name, value)


def _refuse_delete(self: Any, name: str) -> None:
    _refuse(self, "delete", name)
    object.__delattr__(self, name)


def _refuse(self: Any, what: str, name: str) -> None:
    """Raise FrozenInstanceError, but not for a further attribute of a class that extends a data class plainly."""
    if "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot {what} field {name!r}")
