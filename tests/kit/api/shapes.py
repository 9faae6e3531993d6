"""What an answer has to look like: keys and types. More keys than named are always allowed, as they are to clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Each:
    """An object, not empty, whose keys are data; all its values have this shape."""

    shape: Any


@dataclass(frozen=True)
class Some:
    """A list, possibly empty, of values of this shape."""

    shape: Any


def misfits(value: Any, shape: Any, path: str = "") -> Iterator[str]:
    """All in which the value differs from the shape.

    A shape is a type or several of them, an object of shapes, a list of one shape (and then it is not empty), a value,
    or None for anything."""
    if shape is None:
        return
    if isinstance(shape, dict):
        yield from _of_object(value, shape, path)
    elif isinstance(shape, Each):
        if not isinstance(value, dict) or not value:
            yield f"{path}: {value!r} is no object with something in it"
        else:
            yield from _of_object(value, dict.fromkeys(value, shape.shape), path)
    elif isinstance(shape, (list, Some)):
        yield from _of_list(value, shape, path)
    elif isinstance(shape, (type, tuple)):
        if not isinstance(value, shape) or (isinstance(value, bool) and shape is int):
            yield f"{path}: {value!r} is not {shape}"
    elif value != shape:
        yield f"{path}: {value!r} is not {shape!r}"


def _of_object(value: Any, shape: dict[str, Any], path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is no object"
        return
    for key, wanted in shape.items():
        if key in value:
            yield from misfits(value[key], wanted, f"{path}.{key}")
        else:
            yield f"{path}.{key}: is missing in {sorted(value)}"


def _of_list(value: Any, shape: list[Any] | Some, path: str) -> Iterator[str]:
    if not isinstance(value, list) or (isinstance(shape, list) and not value):
        yield f"{path}: {value!r} is no list" + (" with something in it" if isinstance(shape, list) else "")
        return
    wanted = shape.shape if isinstance(shape, Some) else shape[0]
    for place, one in enumerate(value):
        yield from misfits(one, wanted, f"{path}[{place}]")
