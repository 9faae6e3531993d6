"""The PodGroups of a fake Kubernetes, and a scheduler that places all pods of one, or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]


@dataclass
class FakeGangs:
    """`version`: of the API that is offered, such as scheduling.volcano.sh/v1beta1; empty: there are no PodGroups.
    `places`: how many more pods find a node; None: all do."""

    version: str = ""
    may: tuple[str, ...] = ("create", "list", "delete")
    places: int | None = None
    waiting: list[tuple[Object, Callable[[], None]]] = field(default_factory=list)

    def group_of(self, pod: Object) -> str:
        """The name of the PodGroup that the scheduler sees at a pod; empty: none."""
        meta = pod["metadata"]
        if self.version == "scheduling.volcano.sh/v1beta1" and pod["spec"].get("schedulerName") == "volcano":
            return str(meta["annotations"].get("scheduling.k8s.io/group-name", ""))
        if self.version == "scheduling.x-k8s.io/v1alpha1":
            return str(meta["labels"].get("scheduling.x-k8s.io/pod-group", ""))
        return ""

    def schedule(self, groups: Mapping[str, Object]) -> None:
        """Let those pods run that find a place: by themselves, or with all others of their group."""
        for name in {self.group_of(pod) for pod, _ in self.waiting}:
            mine = [one for one in self.waiting if self.group_of(one[0]) == name]
            if not name:
                for one in mine:
                    self._place([one])
            elif name in groups:
                least = groups[name]["spec"]["minMember"]
                has_places = len(mine) >= least and (self.places is None or self.places >= least)
                if has_places:
                    self._place(mine)
                groups[name]["status"] = {"phase": "Running"} if has_places else self._short()

    def _place(self, pods: Collection[tuple[Object, Callable[[], None]]]) -> None:
        for one in pods:
            if self.places == 0:
                return
            if self.places is not None:
                self.places -= 1
            self.waiting.remove(one)
            one[0]["spec"]["nodeName"] = "a-node"
            one[1]()

    def _short(self) -> Object:
        if self.version != "scheduling.volcano.sh/v1beta1":
            return {"phase": "Pending"}
        condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "of bank 1"}
        return {"phase": "Inqueue", "conditions": [condition]}
