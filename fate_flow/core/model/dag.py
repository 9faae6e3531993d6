"""The order of the tasks of a job, and which of them may start now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush

from fate_flow.core.model.errors import BadDocument
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import TaskStatus

_GOES_ON = frozenset({TaskStatus.SUCCESS, TaskStatus.PASS})


class Loop(BadDocument):
    """Tasks wait for each other."""

    def __init__(self, path: str, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(path, f"{'->'.join(names)} form a loop")


def topological_order(upstream: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the names in an order in which each task follows its upstream tasks; otherwise in the given order.

    Raises Loop (`a->b form a loop`) if tasks wait for each other."""
    place = {name: number for number, name in enumerate(upstream)}
    # sorted, because the order of a set of names differs between processes
    sorter = TopologicalSorter({name: sorted(upstream[name], key=place.__getitem__) for name in upstream})
    try:
        sorter.prepare()
    except CycleError as error:
        raise Loop("dsl.components", error.args[1][:-1]) from error
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
    """Return the waiting tasks whose upstream tasks have all succeeded, by priority, then in the order of the DAG."""
    ready = [
        name
        for name, task in spec.tasks.items()
        if statuses[name] is TaskStatus.WAITING and all(statuses[up] in _GOES_ON for up in task.upstream)
    ]
    return tuple(sorted(ready, key=lambda name: -spec.tasks[name].priority))


def downstream_of(spec: JobSpec, names: frozenset[str]) -> frozenset[str]:
    """Return these tasks and all tasks that depend on them, directly or indirectly."""
    found = set(names)
    for name, task in spec.tasks.items():
        if task.upstream & found:
            found.add(name)
    return frozenset(found)
