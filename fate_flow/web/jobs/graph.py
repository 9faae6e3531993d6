"""The graph of a job's tasks: nodes and edges, from the document, so that it is whole before any task has begun."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.spec import JobSpec, Party, TaskSpec

MOST_DRAWN = 100
"""Nodes in a drawing; the graph of a larger job is folded."""
TASKS_PAGE = 100
"""Tasks in the table of one page; not less than `MOST_DRAWN`, since nodes lead to their rows."""
NOT_BEGUN = ""
"""The status of a task that has no row yet."""
NOT_KNOWN = "not-known"
"""The status of what only the initiator knows: another party's share, and a task in which this party has no seat."""
_STATES = {NOT_BEGUN: "not begun", NOT_KNOWN: "not known here"}


def state_of(status: str) -> str:
    """Return the words for a status."""
    return _STATES.get(status, status)


@dataclass(frozen=True)
class Node:
    name: str
    module: str
    status: str                  # of the whole task, NOT_BEGUN or NOT_KNOWN
    parties: tuple[tuple[str, str], ...]     # each party of the task, with the status of its share
    after: tuple[str, ...]       # the tasks that it needs

    def as_json(self) -> dict[str, Any]:
        """Return what the script draws: `row` is the id of the row that says the same."""
        return {
            "name": self.name, "label": self.name, "status": self.status, "state": state_of(self.status),
            "row": f"task-{self.name}", "after": self.after,
        }  # fmt: skip


def nodes_of(
    spec: JobSpec | None, tasks: Sequence[Mapping[str, Any]], seats: Collection[Party] | None = None
) -> tuple[Node, ...]:
    """Return the tasks of a job in the order of the document; without one, what is known of those that have rows.

    `tasks`: those with rows, as `explained` gives them. `seats`: those of this party, if it is not the initiator: then
    it has no rows of other seats. None: it is."""
    if spec is None:
        return tuple(map(_known, tasks))
    begun = {one["component_name"]: one for one in tasks}
    return tuple(_node(spec.tasks[name], begun.get(name), seats) for name in spec.tasks)


def page_of(nodes: Sequence[Node], behind: str) -> tuple[Sequence[Node], str]:
    """Return the tasks of a page behind the one with this name (empty: the first ones), and the name of the last one if
    there are more. Raise BadRequest if there is no such task."""
    place = next((number for number, one in enumerate(nodes, 1) if one.name == behind), None) if behind else 0
    if place is None:
        raise BadRequest(f"from: the job has no task {shown(behind)}")
    some = nodes[place : place + TASKS_PAGE]
    return some, some[-1].name if place + TASKS_PAGE < len(nodes) else ""


def _known(task: Mapping[str, Any]) -> Node:
    parties = tuple((f"{one['role']} {one['party_id']}", one["status_detail"]) for one in task["parties"])
    return Node(task["component_name"], task["module"], task["status_detail"], parties, ())


def _node(task: TaskSpec, begun: Mapping[str, Any] | None, seats: Collection[Party] | None) -> Node:
    shares = {} if begun is None else {(one["role"], one["party_id"]): one["status_detail"] for one in begun["parties"]}
    absent = {party: NOT_BEGUN if seats is None or party in seats else NOT_KNOWN for party in task.parties}
    parties = tuple((str(party), shares.get((party.role, party.party_id), absent[party])) for party in task.parties)
    is_known = NOT_BEGUN in absent.values()
    status = begun["status_detail"] if begun is not None else NOT_BEGUN if is_known else NOT_KNOWN
    return Node(task.name, task.module, status, parties, tuple(sorted(task.upstream)))
