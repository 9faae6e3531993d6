"""Put the values of a document of another format into FATE v1's documents, and remember where each came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fate_flow.core.model.document import Paths
from fate_flow.core.model.grammar import shown_key
from fate_flow.jobspec.text.document import Node
from fate_flow.jobspec.text.lines import upwards

CONF, JOB_PARAMETERS, COPIED = "job_runtime_conf", "job_parameters", "component_parameters"
COMMON = (CONF, JOB_PARAMETERS, "common")


@dataclass
class PathsElsewhere(Paths):
    """The paths in the user's document of places in FATE v1's documents."""

    whole: str                                       # the name of the whole document, which has no path
    known: dict[str, str] = field(default_factory=dict)

    def of(self, place: str) -> str:
        for known in upwards(place):
            if known in self.known:
                return (self.known[known] + place[len(known):]).removeprefix(".") or self.whole
        return place


class Placing:
    """The documents as far as they are made; `dsl` and `runtime_conf` are the places at their tops."""

    def __init__(self, paths: PathsElsewhere) -> None:
        self.paths = paths
        self._documents: dict[str, Any] = {CONF: {"dsl_version": 2}, "dsl": {}}

    @property
    def dsl(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._documents["dsl"]
        return found

    @property
    def runtime_conf(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._documents[CONF]
        return found

    def put(self, node: Node, *place: str, value: Any = None) -> None:
        """Put the value of the node, or the given value, at this place; do nothing if there is none."""
        if not node.is_given and not value:
            return
        inside = self._documents
        for key in place[:-1]:
            inside = inside.setdefault(key, {})
        inside[place[-1]] = node.value if value is None else value
        self.came(node, *place)

    def came(self, node: Node, *place: str) -> None:
        """Remember that what is wrong at this place is wrong at the node."""
        self.paths.known[path_of(place)] = node.path


def path_of(place: Sequence[str]) -> str:
    return ".".join((place[0], *map(shown_key, place[1:])))
