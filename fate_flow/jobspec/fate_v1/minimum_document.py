"""`min_available` of a job document: the number of parties of each role that is enough, for the job or a component."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.grammar import check_role
from fate_flow.core.model.modules import DoesWithout, ModuleInfo
from fate_flow.core.model.spec import Party, TaskSpec
from fate_flow.jobspec.text.document import Node


def read_minimum(node: Node) -> dict[str, int] | None:
    """Return the number by role, checked without regard to other parts of the document; None, with a problem."""
    if not node.is_object():
        return None
    found: dict[str, int] = {}
    for role, inside in node.members().items():
        is_role = node._replace(value=role).checked(check_role) is not None
        count = inside.whole(1, "a whole number above 0") if inside.is_given else None
        if is_role and count is not None:
            found[role] = count
    return found


@dataclass(frozen=True)
class Minimums:
    """The minimums in the job parameters of the initiator, and their place in the document."""

    said: Mapping[str, Any]
    common: Node                     # job_parameters.common
    modules: Mapping[str, ModuleInfo]

    def of(self, name: str, module: str, parties: tuple[Party, ...]) -> dict[str, int]:
        """Return the minimums of one component; those of the job apply only if its module tolerates missing parties."""
        own, jobs = self.said.get("task_conf", {}).get(name, {}).get("min_available"), self.said.get("min_available")
        size, can = Counter(party.role for party in parties), without(self.modules[module])
        everywhere = {role: count for role, count in (jobs or {}).items() if role in can}
        self._check_fit(self.common.at("min_available"), everywhere, size)
        node = self.common.at("task_conf").at(name).at("min_available")
        self._check_fit(node, own or {}, size)
        for role in own or {}:
            if role not in can:
                node.at(role).wrong(f"{module} needs every {role}: it cannot do without one")
        return {role: count for role, count in {**everywhere, **(own or {})}.items() if count < size[role]}

    def _check_fit(self, node: Node, minimum: Mapping[str, int], size: Counter[str]) -> None:
        for role, count in minimum.items():
            if count > size[role]:
                have = f"the {size[role]} parties of that role" if size[role] else "there are: the job has none"
                node.at(role).wrong(f"{count} is more than {have}")

    def check(self, tasks: Mapping[str, TaskSpec]) -> None:
        """Check that tasks tolerate the parties missing from earlier tasks: these are missing from later ones, too."""
        can = frozenset(role for task in tasks.values() for role in without(self.modules[task.module]))
        for role in self.said.get("min_available") or {}:
            if role not in can:
                node = self.common.at("min_available").at(role)
                node.wrong(f"no component of this job can do without one of role {role}")
        for task in tasks.values():
            for upstream in sorted(task.producers):
                if upstream in tasks:
                    self._check_follows(task, tasks[upstream])

    def _check_follows(self, task: TaskSpec, upstream: TaskSpec) -> None:
        sizes = Counter(party.role for party in task.parties)
        for role, count in upstream.min_available.items():
            needed = task.min_available.get(role, sizes[role])
            if role in sizes and needed > count:
                node = self.common.at("task_conf").at(task.name).at("min_available").at(role)
                node.wrong(
                    f"{task.name} needs {needed} of role {role}, but {upstream.name}, which it follows, needs "
                    f"only {count}; {task.module} {_has_to(role, self.modules[task.module])}"
                )


def without(module: ModuleInfo) -> frozenset[str]:
    """Return the roles of which a module tolerates missing parties."""
    if not isinstance(module, DoesWithout):
        return frozenset()
    return module.tolerates_missing_roles | module.starts_without_roles


def goes_on_without(module: ModuleInfo) -> frozenset[str]:
    """Return the roles whose shares may fail while the others run on."""
    return module.tolerates_missing_roles if isinstance(module, DoesWithout) else frozenset()


def _has_to(role: str, module: ModuleInfo) -> str:
    return "can run with as few" if role in without(module) else f"needs every {role}"
