"""`after` of a component: the components that must succeed before it begins, although it takes no output of them.

It is in `job_parameters.common.task_conf.<component>`, where a server of FATE v1 reads only launcher options: such a
party starts what it is told to start, and only the initiator decides the order.
"""

from __future__ import annotations

from collections.abc import Mapping

from fate_flow.core.model.dag import Loop, topological_order
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.spec import JobParameters
from fate_flow.jobspec.fate_v1.dsl import Component
from fate_flow.jobspec.text.document import Node


def read_after(node: Node) -> list[str] | None:
    """Return the names, of which only the form is checked; None, with a problem, for anything else."""
    if not isinstance(node.value, list) or not all(isinstance(one, str) for one in node.value):
        node.wrong(f"{shown(node.value)} is not a list of components")
        return None
    if len(set(node.value)) < len(node.value):
        node.wrong("names a component twice")
        return None
    return node.value


def after_of(parameters: JobParameters, name: str) -> frozenset[str]:
    """Return the components before this one; `parameters` are the initiator's."""
    return frozenset(parameters.extra.get("task_conf", {}).get(name, {}).get("after") or ())


def in_order(components: tuple[Component, ...], parameters: JobParameters, common: Node) -> tuple[Component, ...]:
    """Return the components in order, each after those before it; `common` is `job_parameters.common`.

    Add a problem for an unknown name, and for components that wait for each other."""
    by_name = {one.name: one for one in components}
    after = {one: after_of(parameters, one) for one in by_name}
    if not any(after.values()):
        return components
    _check_names(after, by_name, common)
    upstream = {
        name: (_producers(one) | after[name]) & by_name.keys() for name, one in by_name.items()
    }  # fmt: skip
    try:
        return tuple(by_name[name] for name in topological_order(upstream))
    except Loop as loop:
        waits = next((name for name in loop.names if after[name] & set(loop.names)), None)
        if waits is not None:       # else it is a loop of inputs, which is already reported
            _place(common, waits).wrong(f"{' waits for '.join((*_from(loop.names, waits), waits))}: they form a loop")
        return components


def _check_names(after: Mapping[str, frozenset[str]], known: Mapping[str, Component], common: Node) -> None:
    for name, others in after.items():
        for other in _place(common, name).elements() if others else ():     # none: its form may be wrong
            if other.value in others - known.keys():
                nearest = other.nearest(other.value, known) or f"; the components are: {', '.join(known)}"
                other.wrong(f"there is no component {shown(other.value)}{nearest}")


def _producers(component: Component) -> frozenset[str]:
    return frozenset(source.producer for put in component.inputs for source in put.sources)


def _place(common: Node, name: str) -> Node:
    return common.at("task_conf").at(name).at("after")


def _from(names: tuple[str, ...], first: str) -> tuple[str, ...]:
    """Return a loop that begins at the given name, in the direction in which each waits for the next."""
    backwards = names[::-1]
    start = backwards.index(first)
    return backwards[start:] + backwards[:start]
