"""The graph of a job's tasks: nodes and edges, from the document, so that it is whole before any task has begun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.spec import JobSpec

MOST_DRAWN = 100
"""Nodes in a drawing; the graph of a larger job is folded."""
NOT_BEGUN = ""
"""The status of a task that has no row yet."""


@dataclass(frozen=True)
class Node:
    name: str
    module: str
    status: str                  # of the whole task, or NOT_BEGUN
    parties: tuple[tuple[str, str], ...]     # each party of the task, with the status of its share
    after: tuple[str, ...]       # the tasks that it needs

    def as_json(self) -> dict[str, Any]:
        """Return what the script draws: `row` is the id of the row that says the same."""
        return {
            "name": self.name, "label": self.name, "status": self.status, "state": self.status or "not begun",
            "row": f"task-{self.name}", "after": self.after,
        }  # fmt: skip


def nodes_of(spec: JobSpec, tasks: Sequence[Mapping[str, Any]]) -> tuple[Node, ...]:
    """Return the tasks of a job in the order of the document. `tasks`: those with rows, as `explained` gives them."""
    begun = {one["component_name"]: one for one in tasks}
    return tuple(_node(spec, name, begun.get(name)) for name in spec.tasks)


def _node(spec: JobSpec, name: str, begun: Mapping[str, Any] | None) -> Node:
    task = spec.tasks[name]
    shares = {} if begun is None else {(one["role"], one["party_id"]): one["status_detail"] for one in begun["parties"]}
    parties = tuple((str(party), shares.get((party.role, party.party_id), "")) for party in task.parties)
    status = NOT_BEGUN if begun is None else begun["status_detail"]
    return Node(name, task.module, status, parties, tuple(sorted(task.upstream)))
