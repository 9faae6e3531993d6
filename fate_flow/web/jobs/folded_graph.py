"""The graph of a large job, folded: tasks of one component on one level are one node.

The level of a task is its place on the longest way to it. Where that still leaves too many nodes, neighbouring levels
are taken together, twice as many at each step, and so are the rarest components if there are too many. The same tasks
with the same edges are folded in the same way, whatever their statuses are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fate_flow.core.text.phrases import counted
from fate_flow.web.jobs.graph import MOST_DRAWN, NOT_BEGUN, NOT_KNOWN, Node, state_of

OTHERS = "other components"
_WORST_FIRST = (
    "failed", "timeout", "canceled", "stopping", "restarting", "running", "waiting", NOT_BEGUN, NOT_KNOWN, "pass",
    "success",
)  # fmt: skip


@dataclass(frozen=True)
class Group:
    """A node of the folded graph."""

    number: int                  # from 1, by level and then component
    module: str
    first_level: int             # from 1
    last_level: int
    statuses: tuple[tuple[str, int], ...]    # of its tasks, each with how many have it; the worst first
    worst_task: str              # the first task with the worst status, in the order of the document
    after: tuple[int, ...]       # the numbers of the groups that it needs

    @property
    def count(self) -> int:
        return sum(count for _, count in self.statuses)

    @property
    def worst(self) -> str:
        return self.statuses[0][0]

    @property
    def levels(self) -> str:
        return f"{self.first_level}" if self.first_level == self.last_level else f"{self.first_level}-{self.last_level}"

    def as_json(self) -> dict[str, Any]:
        """Return what the script draws, in the form of `Node.as_json`."""
        (worst, count), *rest = self.statuses
        shown = state_of(worst)
        return {
            "name": f"group-{self.number}", "label": f"{self.module}: {counted(self.count, 'task')}", "status": worst,
            "state": f"{count} {shown}" if rest else shown, "row": f"group-{self.number}",
            "after": [f"group-{one}" for one in self.after],
        }  # fmt: skip


def folded(nodes: Sequence[Node], most: int = MOST_DRAWN) -> tuple[Group, ...]:
    """Return at most so many groups, each task in one of them."""
    levels = levels_of(nodes)
    named = _named(nodes, most)
    width = 1
    places = _places(nodes, levels, named, width)
    while len(set(places.values())) > most:
        width *= 2
        places = _places(nodes, levels, named, width)
    return _groups(nodes, levels, places)


def levels_of(nodes: Sequence[Node]) -> Mapping[str, int]:
    """Return the level of each task, from 0."""
    followers: dict[str, list[str]] = {one.name: [] for one in nodes}
    left = {one.name: len(one.after) for one in nodes}
    for one in nodes:
        for before in one.after:
            followers[before].append(one.name)
    found = {name: 0 for name, count in left.items() if not count}
    ready = list(found)
    for name in ready:
        for following in followers[name]:
            found[following] = max(found.get(following, 0), found[name] + 1)
            left[following] -= 1
            if not left[following]:
                ready.append(following)
    return found


def _named(nodes: Sequence[Node], most: int) -> frozenset[str]:
    """Return the components that keep their name: all, or the most frequent ones if they are too many."""
    by_count = sorted(Counter(one.module for one in nodes).items(), key=lambda one: (-one[1], one[0]))
    return frozenset(module for module, _ in (by_count if len(by_count) <= most else by_count[: most - 1]))


def _places(
    nodes: Sequence[Node], levels: Mapping[str, int], named: frozenset[str], width: int
) -> dict[str, tuple[int, str]]:
    return {one.name: (levels[one.name] // width, one.module if one.module in named else OTHERS) for one in nodes}


@dataclass
class _Members:
    statuses: Counter[str] = field(default_factory=Counter)
    first_by_status: dict[str, str] = field(default_factory=dict)
    levels: set[int] = field(default_factory=set)
    after: set[tuple[int, str]] = field(default_factory=set)


def _groups(
    nodes: Sequence[Node], levels: Mapping[str, int], places: Mapping[str, tuple[int, str]]
) -> tuple[Group, ...]:
    members: dict[tuple[int, str], _Members] = {place: _Members() for place in sorted(set(places.values()))}
    for one in nodes:
        place = places[one.name]
        found = members[place]
        found.statuses[one.status] += 1
        found.first_by_status.setdefault(one.status, one.name)
        found.levels.add(levels[one.name])
        found.after |= {places[before] for before in one.after} - {place}
    numbers = {place: number for number, place in enumerate(members, 1)}
    return tuple(
        _group(numbers[place], place[1], found, tuple(sorted(numbers[one] for one in found.after)))
        for place, found in members.items()
    )  # fmt: skip


def _group(number: int, module: str, found: _Members, after: tuple[int, ...]) -> Group:
    statuses = tuple(sorted(found.statuses.items(), key=lambda one: (_badness(one[0]), one[0])))
    worst = found.first_by_status[statuses[0][0]]
    return Group(number, module, min(found.levels) + 1, max(found.levels) + 1, statuses, worst, after)


def _badness(status: str) -> int:
    return _WORST_FIRST.index(status) if status in _WORST_FIRST else _WORST_FIRST.index("running")
