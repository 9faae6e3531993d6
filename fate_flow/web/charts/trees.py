"""Decision trees, laid out: leaves beside each other, each node above the middle of what is below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.web.charts.tables import number_of
from fate_flow.web.charts.values import Block, table_of

_CUT = " ≤ "
MOST_NODES = 255
"""Nodes of one tree that are drawn; a larger one has its table alone."""
_WIDE, _HIGH, TALL = 160, 74, 44
_LONGEST = 19                # characters of a text in a box


@dataclass(frozen=True)
class TreeNode:
    number: int
    text: str                    # what it splits by, or its weight
    place: str                   # the party that splits there, and how many rows come there
    left: int                    # number of the node below; -1: it is a leaf
    right: int

    @property
    def is_leaf(self) -> bool:
        return self.left < 0 and self.right < 0


@dataclass(frozen=True)
class Tree:
    nodes: tuple[TreeNode, ...]


@dataclass(frozen=True)
class DrawnNode:
    x: float                     # of its middle
    y: int                       # of its top
    text: str
    place: str
    is_leaf: bool


@dataclass(frozen=True)
class DrawnTree:
    width: int
    height: int
    nodes: tuple[DrawnNode, ...]
    edges: tuple[tuple[float, int, float, int], ...]     # from the middle of the lower side to that of the upper one


def tree_block(title: str, nodes: Sequence[Any], names: Mapping[str, Any]) -> Block | None:
    """Return a tree as FATE's SecureBoost stores it; None if it is not one. `names`: of the columns by their number."""
    found = tuple(_node(one, names) for one in nodes if isinstance(one, Mapping) and isinstance(one.get("nid"), int))
    if not found or len({one.number for one in found}) != len(found):
        return None
    rows = [
        (one.number, one.text, one.place, "leaf" if one.is_leaf else f"{one.left}, {one.right}") for one in found
    ]  # fmt: skip
    table = table_of(("node", "splits by, or weight", "party and rows", "below"), rows)
    return Block(title, table, Tree(found) if len(found) <= MOST_NODES else None)


def drawn_tree(tree: Tree) -> DrawnTree:
    """Return where each node is. A node that is below two others, or itself, is drawn once."""
    known = {one.number: one for one in tree.nodes}
    below = {at for one in tree.nodes for at in (one.left, one.right)}
    middles: dict[int, float] = {}
    depths: dict[int, int] = {}
    leaves = 0

    def place(number: int, depth: int) -> None:
        nonlocal leaves
        depths[number] = depth
        under = [at for at in (known[number].left, known[number].right) if at in known and at not in depths]
        for at in under:
            place(at, depth + 1)
        if under:
            middles[number] = (middles[under[0]] + middles[under[-1]]) / 2
        else:
            middles[number] = leaves * _WIDE + _WIDE / 2
            leaves += 1

    for one in tree.nodes:
        if one.number not in below and one.number not in depths:
            place(one.number, 0)
    nodes = tuple(
        DrawnNode(middles[one.number], depths[one.number] * _HIGH + 2, _short(one.text), one.place, one.is_leaf)
        for one in tree.nodes if one.number in depths
    )  # fmt: skip
    edges = tuple(
        (middles[one.number], depths[one.number] * _HIGH + 2 + TALL, middles[at], depths[at] * _HIGH + 2)
        for one in tree.nodes if one.number in depths
        for at in (one.left, one.right) if at in depths and depths[at] == depths[one.number] + 1
    )  # fmt: skip
    return DrawnTree(max(1, leaves) * _WIDE, (max(depths.values(), default=0) + 1) * _HIGH, nodes, edges)


def _short(text: str) -> str:
    """Return a text as a box has it: a long name is cut, and not where it is split."""
    if len(text) <= _LONGEST:
        return text
    name, cut, number = text.rpartition(_CUT)
    kept = max(1, _LONGEST - len(cut + number) - 1)
    return f"{(name or number)[:kept]}…{cut}{number}" if name else f"{number[:_LONGEST - 1]}…"


def _node(one: Mapping[str, Any], names: Mapping[str, Any]) -> TreeNode:
    left, right = (at if isinstance(at := one.get(key), int) and not one.get("is_leaf") else -1 for key in ("l", "r"))
    rows = one.get("sample_num")
    if left < 0 and right < 0:
        weight = number_of(one.get("weight"))
        text = "leaf" if weight is None else f"weight {weight:.4g}"
    else:
        fid, cut = one.get("fid"), one.get("bid")
        # What is split at another party is known there alone; the party stands below.
        unnamed = "its column" if fid is None else fid if isinstance(fid, str) else f"column {fid}"
        named = str(names.get(str(fid), unnamed))
        # FATE 2.2 stores the value at which a column is split where others store the number of the bin.
        at = f"{cut:.4g}" if isinstance(cut, float) else f"bin {cut}"
        text = named if cut is None else f"{named}{_CUT}{at}"
    place = str(one.get("sitename") or "")
    count = f"{rows} rows" if isinstance(rows, int) else ""
    return TreeNode(int(one["nid"]), text, ", ".join(filter(None, (place, count))), left, right)
