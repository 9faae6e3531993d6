"""Which tasks come first, and which may start now."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush

from fate_flow.core.errors import BadDocument
from fate_flow.core.spec import JobSpec
from fate_flow.core.status import TaskStatus

_GOES_ON = frozenset({TaskStatus.SUCCESS, TaskStatus.PASS})


def topological_order(upstream: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """The names with every task after all its inputs, else as they were given.

    Raises BadDocument naming the loop (`a->b form a loop`)."""
    place = {name: number for number, name in enumerate(upstream)}
    # sorted, since the order of a set of names differs from one process to the next
    sorter = TopologicalSorter({name: sorted(upstream[name], key=place.__getitem__) for name in upstream})
    try:
        sorter.prepare()
    except CycleError as error:
        loop = "->".join(error.args[1][:-1])
        raise BadDocument("dsl.components", f"{loop} form a loop") from error
    return _earliest_first(sorter, place)


def _earliest_first(sorter: TopologicalSorter[str], place: Mapping[str, int]) -> tuple[str, ...]:
    order: list[str] = []
    ready = [(place[name], name) for name in sorter.get_ready()]
    heapify(ready)
    while ready:
        name = heappop(ready)[1]
        order.append(name)
        sorter.done(name)
        for freed in sorter.get_ready():
            heappush(ready, (place[freed], freed))
    return tuple(order)


def may_start(spec: JobSpec, statuses: Mapping[str, TaskStatus]) -> tuple[str, ...]:
    """Waiting tasks whose inputs have all succeeded: by priority, else in the order of the DAG."""
    ready = [
        name
        for name, task in spec.tasks.items()
        if statuses[name] is TaskStatus.WAITING and all(statuses[up] in _GOES_ON for up in task.upstream)
    ]
    return tuple(sorted(ready, key=lambda name: -spec.tasks[name].priority))


def downstream_of(spec: JobSpec, names: frozenset[str]) -> frozenset[str]:
    """These tasks and all that use what they make, directly or not."""
    found = set(names)
    for name, task in spec.tasks.items():
        if task.upstream & found:
            found.add(name)
    return frozenset(found)
