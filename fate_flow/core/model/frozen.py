"""Changing frozen values."""

from __future__ import annotations

from typing import Any, TypeVar

V = TypeVar("V")


def changed(value: V, **change: Any) -> V:
    """Return a frozen dataclass with new values in some fields. Raises TypeError for a field that it does not have.

    It is ten times as fast as `dataclasses.replace`, which sets each field. The class has no `__post_init__`, and no
    fields that are set only there."""
    fields = value.__dict__
    if not change.keys() <= fields.keys():
        raise TypeError(f"{type(value).__name__} has no {', '.join(sorted(change.keys() - fields.keys()))}")
    new: V = object.__new__(type(value))
    new.__dict__.update(fields)
    new.__dict__.update(change)
    return new
