"""The order of tasks, and which may start."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.model.dag import downstream_of, may_start, topological_order
from fate_flow.core.model.errors import BadDocument
from fate_flow.core.model.spec import Input, JobParameters, JobSpec, Party, Source, TaskSpec
from fate_flow.core.model.status import TaskStatus

GUEST = Party("guest", "1")


def a_spec(**upstream):
    """A job whose tasks take from those named."""
    tasks = {
        name: TaskSpec(name, "M", (GUEST,), inputs=(Input("data", "data", tuple(Source(one, "d") for one in ups)),))
        for name, ups in upstream.items()
    }
    return JobSpec(GUEST, (GUEST,), tasks, {GUEST: JobParameters()})


DIAMOND = a_spec(a="", b="a", c="a", d="bc", e="")


@pytest.mark.parametrize(("upstream", "order"), [
    ({}, ""),
    ({"a": ""}, "a"),
    ({"a": "", "b": ""}, "ab"),
    ({"b": "", "a": ""}, "ba"),
    ({"b": "a", "a": ""}, "ab"),
    ({"c": "ab", "b": "", "a": ""}, "bac"),
    ({"a": "", "b": "a", "c": ""}, "abc"),
    ({"d": "bc", "c": "a", "b": "a", "a": ""}, "acbd"),
    ({"z": "", "y": "z", "x": "z", "w": ""}, "zyxw"),
])
def test_inputs_come_first_and_all_else_stays(upstream, order):
    assert "".join(topological_order({name: frozenset(ups) for name, ups in upstream.items()})) == order


@pytest.mark.parametrize(("upstream", "loop"), [
    ({"a": "a"}, {"a"}),
    ({"a": "b", "b": "a"}, {"a->b", "b->a"}),
    ({"x": "", "a": "xc", "b": "a", "c": "b"}, {"a->b->c", "b->c->a", "c->a->b"}),
])
def test_a_loop_is_drawn_in_the_direction_of_the_data(upstream, loop):
    with pytest.raises(BadDocument) as caught:
        topological_order({name: frozenset(ups) for name, ups in upstream.items()})
    assert caught.value.message in {f"dsl.components: {one} form a loop" for one in loop}


@st.composite
def graphs(draw):
    """Names in any order, each with some of those before it in another order: never a loop."""
    names = draw(st.lists(st.text("abcdefgh", min_size=1, max_size=3), unique=True, max_size=12))
    shuffled = draw(st.permutations(names))
    return {
        name: frozenset(draw(st.lists(st.sampled_from(shuffled[:shuffled.index(name)]), max_size=4)))
        if shuffled.index(name) else frozenset()
        for name in names
    }


@given(graphs())
def test_every_name_stands_once_and_after_its_inputs(upstream):
    order = topological_order(upstream)
    assert sorted(order) == sorted(upstream)
    assert all(order.index(up) < order.index(name) for name, ups in upstream.items() for up in ups)


@given(graphs())
def test_what_is_in_order_stays_as_it_is(upstream):
    order = topological_order(upstream)
    assert topological_order({name: upstream[name] for name in order}) == order


def test_the_order_is_the_same_in_every_process():
    code = ("from fate_flow.core.model.dag import topological_order as order;"
            "names = [str(number) for number in range(40)];"
            "print(order({'z': frozenset(names), **{name: frozenset() for name in names}}))")
    seen = {
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": str(seed)},
                       capture_output=True, check=True).stdout
        for seed in (1, 2)
    }
    assert len(seen) == 1


def test_a_very_long_chain_is_no_problem():
    names = [f"t{number}" for number in range(1000)]
    upstream = {name: frozenset(names[place - 1:place]) for place, name in enumerate(names)}
    assert topological_order(dict(reversed(upstream.items()))) == tuple(names)


@pytest.mark.parametrize(("statuses", "names"), [
    ({}, "ae"),
    ({"a": "running"}, "e"),
    ({"a": "success"}, "bce"),
    ({"a": "pass"}, "bce"),
    ({"a": "success", "b": "success"}, "ce"),
    ({"a": "success", "b": "success", "c": "pass"}, "de"),
    ({"a": "success", "b": "failed", "c": "success"}, "e"),
    ({"a": "stopping"}, "e"),
    ({"a": "success", "b": "success", "c": "success", "d": "success", "e": "success"}, ""),
])
def test_a_task_may_start_when_all_it_takes_is_there(statuses, names):
    found = {name: TaskStatus(statuses.get(name, "waiting")) for name in DIAMOND.tasks}
    assert "".join(may_start(DIAMOND, found)) == names


@pytest.mark.parametrize(("names", "found"), [
    ("", ""), ("a", "abcd"), ("b", "bd"), ("d", "d"), ("e", "e"), ("ce", "cde"),
])
def test_what_depends_on_a_task(names, found):
    assert downstream_of(DIAMOND, frozenset(names)) == frozenset(found)


def test_of_those_that_may_start_a_higher_priority_goes_first():
    waiting = dict.fromkeys("abcde", TaskStatus.WAITING)
    spec = a_spec(a="", b="", c="", d="b", e="")
    tasks = {name: replace(task, priority={"c": 5, "a": -1, "d": 9}.get(name, 0)) for name, task in spec.tasks.items()}
    assert "".join(may_start(replace(spec, tasks=tasks), waiting)) == "cbea"
