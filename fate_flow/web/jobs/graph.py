"""The graph of a job's tasks: nodes and edges, from the document, so that it is whole before any task has begun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.spec import JobSpec

MOST_DRAWN = 100
"""Tasks in a drawing; a larger job has its table alone."""


@dataclass(frozen=True)
class Node:
    name: str
    module: str
    status: str                  # of the whole task; empty: it has not begun
    parties: tuple[tuple[str, str], ...]     # each party of the task, with the status of its share
    after: tuple[str, ...]       # the tasks that it needs

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "module": self.module, "status": self.status, "after": self.after}


def nodes_of(spec: JobSpec, tasks: Sequence[Mapping[str, Any]]) -> tuple[Node, ...]:
    """Return the tasks of a job in the order of the document. `tasks`: those with rows, as `explained` gives them."""
    begun = {one["component_name"]: one for one in tasks}
    return tuple(_node(spec, name, begun.get(name)) for name in spec.tasks)


def _node(spec: JobSpec, name: str, begun: Mapping[str, Any] | None) -> Node:
    task = spec.tasks[name]
    shares = {} if begun is None else {(one["role"], one["party_id"]): one["status_detail"] for one in begun["parties"]}
    parties = tuple((str(party), shares.get((party.role, party.party_id), "")) for party in task.parties)
    status = "" if begun is None else begun["status_detail"]
    return Node(name, task.module, status, parties, tuple(sorted(task.upstream)))
