"""Blocks: the parts of a document that hold at some seats only, each with its public and its private part.

Other parties get the public part alone. The two parts are disjoint, and together they are the block. Which values are
public must not depend on the server: all parties divide a document alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_party_id
from fate_flow.core.model.program import COUNTS
from fate_flow.core.model.spec import Party

Path = tuple[str, ...]
Parts = tuple[dict[str, Any], dict[str, Any]]
"""The public and the private part of a block."""


@dataclass(frozen=True)
class Block:
    path: Path                           # from the body down
    seats: frozenset[Party]              # none, if it is for no seat of the job
    public: Mapping[str, Any]
    private: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The path as a JSON pointer, which no other block of the document has."""
        return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in self.path)


def object_at(value: object, *path: str) -> Mapping[str, Any]:
    """Return the object at a path; an empty one if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def objects_in(value: object, *path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the members of the object at a path that are objects themselves."""
    for key, inside in object_at(value, *path).items():
        if isinstance(inside, Mapping):
            yield key, inside


def seats_of(role: str, ids: object) -> tuple[Party, ...]:
    """Return the seats of a role in the order of its list. The reader of the document reports invalid ids."""
    found = []
    for one in ids if isinstance(ids, list) else ():
        with suppress(BadRequest):
            found.append(Party(role, check_party_id(one)))
    return tuple(found)


def divided(block: Mapping[str, Any], is_public: Callable[[str, Any], bool]) -> Parts:
    """Divide the values of an object."""
    public = {key: value for key, value in block.items() if is_public(key, value)}
    return public, {key: value for key, value in block.items() if key not in public}


def divided_inside(block: Mapping[str, Any], is_public: Callable[[str, Any], bool]) -> Parts:
    """Divide the values of the objects in an object. What has no public value is private as a whole."""
    public: dict[str, Any] = {}
    private: dict[str, Any] = {}
    for key, value in block.items():
        shown, hidden = divided(value, is_public) if isinstance(value, Mapping) else ({}, {})
        if shown:
            public[key] = shown
        if hidden or not shown:
            private[key] = hidden if shown else value
    return public, private


def is_switch(keys: Collection[str]) -> Callable[[str, Any], bool]:
    """Return the rule for parameters of components: public are the switches with these keys, which say whether a
    component runs, and the numbers of workers."""
    return lambda key, value: (key in keys and isinstance(value, bool)) or (key in COUNTS and isinstance(value, int))


def with_values(body: Mapping[str, Any], values: Mapping[Path, Any]) -> Mapping[str, Any]:
    """Return a copy of a document's body with other values at these paths, none of which is in another one."""
    inside: dict[str, dict[Path, Any]] = {}
    found = dict(body)
    for (key, *rest), value in values.items():
        if rest:
            inside.setdefault(key, {})[tuple(rest)] = value
        else:
            found[key] = value
    return found | {key: with_values(body[key], some) for key, some in inside.items()}
