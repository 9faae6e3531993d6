"""Parameters in layers: which party gets which blocks of a `{common, role}` pair of a runtime conf.

`common` applies to all parties. `role.<role>` overrides it: first the block "all", then the blocks with indexes. Among
these, "0" overrides "0|1"; of two blocks with as many indexes, the one with the higher indexes wins: "0|2" overrides
"0|1". Objects are merged key by key, other values are replaced. FATE uses only the order of the document. The result is
the same if the blocks are ordered from general to special, and equally general ones by their indexes. Here the result
does not depend on the order of keys: a JSON library may change it, and the digest that binds a job does not contain it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.grammar import shown_key
from fate_flow.core.model.spec import Party
from fate_flow.jobspec.text.document import Findings, Node

MAX_SELECTORS = 1000        # blocks below one role


@dataclass(frozen=True)
class Layers:
    """A block for all parties, and the own blocks of each party, general ones first."""

    common: Mapping[str, Any]
    own: Mapping[Party, list[Mapping[str, Any]]]

    def at(self, party: Party) -> dict[str, Any]:
        """Return the merged blocks of this party."""
        merged = dict(self.common)
        for block in self.own.get(party, ()):
            _merge_into(merged, block)
        return merged


@dataclass(frozen=True)
class _Override:
    """A block below a role."""

    role: str
    selector: str
    indexes: frozenset[int]      # only indexes that the role has
    block: Mapping[str, Any]

    @property
    def generality(self) -> tuple[bool, int, list[int], str]:
        """Return a sort key without ties: "all" first, then blocks with more indexes, then those with lower ones."""
        return self.selector != "all", -len(self.indexes), sorted(self.indexes), self.selector


_SELECTOR = re.compile(r"all|(?:0|[1-9][0-9]{0,3})(?:\|(?:0|[1-9][0-9]{0,3}))*")


def read_layers(
    node: Node, parties: tuple[Party, ...], read: Callable[[Node], Mapping[str, Any]]
) -> Layers:
    """Return the blocks of a `{common, role}` pair, as `read` returns them, for each party."""
    node.only({"common", "role"})
    common = read(node.at("common"))
    own: dict[Party, list[Mapping[str, Any]]] = {}
    for role, below in node.at("role").members().items():
        seats = [party for party in parties if party.role == role]
        if not seats:
            below.ignored("the job has no such role")
            continue
        for one in sorted(_read_overrides(role, below, len(seats), read), key=lambda one: one.generality):
            for index in one.indexes:
                own.setdefault(seats[index], []).append(one.block)
    return Layers(common, own)


Block = tuple[str, Any]
"""A path and a block of job parameters as it was sent."""


def blocks_for(conf: Mapping[str, Any], parties: tuple[Party, ...], party: Party) -> list[Block]:
    """Return the blocks of a runtime conf with this party's job parameters, the strongest first."""
    job = Node(conf, "job_runtime_conf", Findings(strict=False)).at("job_parameters")
    seats = [one for one in parties if one.role == party.role]
    below = job.at("role").at(party.role)
    blocks = sorted(_read_overrides(party.role, below, len(seats), lambda _: {}), key=lambda one: one.generality)
    own = [below.at(one.selector) for one in blocks if seats.index(party) in one.indexes]
    return [(node.path, node.value) for node in (*reversed(own), job.at("common"))]


def place_in(blocks: Iterable[Block], keys: Sequence[str]) -> str:
    """Return the path of these keys in the first block that has them; "" if none has."""
    for path, value in blocks:
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            return ".".join((path, *map(shown_key, keys)))
    return ""


def _read_overrides(
    role: str, node: Node, seats: int, read: Callable[[Node], Mapping[str, Any]]
) -> list[_Override]:
    found: list[_Override] = []
    blocks = node.members()
    if len(blocks) > MAX_SELECTORS:
        node.wrong(f"has {len(blocks)} keys; {MAX_SELECTORS} is the most")
        return found
    for selector, block in blocks.items():
        if _SELECTOR.fullmatch(selector):
            indexes = _indexes(selector, block, seats)
            found.append(_Override(role, selector, indexes, read(block)))
        else:
            block.ignored(f'is not an index of job_runtime_conf.role.{role} ("0", "0|2" or "all")')
    return found


def _indexes(selector: str, block: Node, seats: int) -> frozenset[int]:
    """Return the indexes in the role's list that a selector means."""
    found = meant_by(selector, seats)
    beyond = [] if selector == "all" else sorted({int(number) for number in selector.split("|")} - found)
    if beyond:
        block.without_effect(f"the role has {seats} of them, none at {', '.join(map(str, beyond))}")
    return found


def meant_by(selector: str, seats: int) -> frozenset[int]:
    """Return the indexes that a selector means in a role with this number of seats; none if it is no selector."""
    if not _SELECTOR.fullmatch(selector):
        return frozenset()
    if selector == "all":
        return frozenset(range(seats))
    return frozenset(index for index in map(int, selector.split("|")) if index < seats)


def _merge_into(general: dict[str, Any], special: Mapping[str, Any]) -> None:
    """Merge objects key by key, replace other values; copy objects that are shared with a document first."""
    for key, value in special.items():
        old = general.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            copied = dict(old)
            _merge_into(copied, value)
            general[key] = copied
        else:
            general[key] = value
