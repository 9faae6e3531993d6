"""The folded graph of a large job: which tasks are one node, in which status it is, and which edges are left."""

from __future__ import annotations

from random import Random

import pytest

from fate_flow.web.jobs.folded_graph import OTHERS, Group, folded, levels_of
from fate_flow.web.jobs.graph import MOST_DRAWN, Node


def node(name: str, *after: str, module: str = "Toy", status: str = "") -> Node:
    return Node(name, module, status, (), after)


def fan(count: int) -> list[Node]:
    """A task, so many that need it, and one that needs these."""
    middle = [node(f"m{number}", "first", module="Middle") for number in range(count)]
    return [node("first"), *middle, node("last", *(one.name for one in middle))]


def test_tasks_of_one_component_on_one_level_are_one_node() -> None:
    groups = folded(fan(5_000))
    assert [(one.module, one.levels, one.count, one.after) for one in groups] == [
        ("Toy", "1", 1, ()), ("Middle", "2", 5_000, (1,)), ("Toy", "3", 1, (2,)),
    ]  # fmt: skip


def test_a_group_has_its_worst_status_and_the_first_task_with_it() -> None:
    statuses = ("success", "running", "failed", "failed", "", "waiting")
    nodes = [node(f"t{number}", status=status) for number, status in enumerate(statuses)]
    [group] = folded(nodes)
    assert (group.worst, group.worst_task) == ("failed", "t2")
    assert group.statuses == (("failed", 2), ("running", 1), ("waiting", 1), ("", 1), ("success", 1))
    shown = group.as_json()
    assert (shown["label"], shown["state"], shown["status"]) == ("Toy: 6 tasks", "2 failed", "failed")
    [calm] = folded(nodes[:1])
    assert calm.as_json()["state"] == "success"


@pytest.mark.parametrize("count", [101, 350, 5_000])
def test_a_long_chain_is_folded_by_neighbouring_levels(count: int) -> None:
    groups = folded([node(f"t{number}", *([f"t{number - 1}"] if number else [])) for number in range(count)])
    assert MOST_DRAWN / 2 <= len(groups) <= MOST_DRAWN
    assert sum(one.count for one in groups) == count
    assert [one.after for one in groups] == [(), *((number,) for number in range(1, len(groups)))]


def test_components_that_are_too_many_are_folded_into_one() -> None:
    nodes = [node(f"t{number}", module=f"C{number % 150:03}") for number in range(151)]
    groups = folded(nodes)
    assert len(groups) == MOST_DRAWN
    [others] = [one for one in groups if one.module == OTHERS]
    assert others.count == 51
    assert "C000" in {one.module for one in groups}


def test_folding_depends_on_the_tasks_and_not_on_their_order() -> None:
    drawn = Random(7)
    nodes = [
        node(f"t{number}", *sorted({f"t{drawn.randrange(number)}" for _ in range(3)} if number else ()),
             module=f"C{drawn.randrange(9)}")
        for number in range(400)
    ]  # fmt: skip
    groups = folded(nodes)
    mixed = list(nodes)
    drawn.shuffle(mixed)

    def without_example(found: tuple[Group, ...]) -> list[tuple[object, ...]]:
        return [(one.module, one.levels, one.statuses, one.after) for one in found]

    assert without_example(folded(mixed)) == without_example(groups)
    assert len(groups) <= MOST_DRAWN
    levels = levels_of(nodes)
    assert all(levels[one.name] > levels[before] for one in nodes for before in one.after)
