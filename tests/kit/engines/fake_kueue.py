"""The kinds of Kueue at a fake Kubernetes: an API server that checks what is patched, as the published types ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.kit.engines.custom_schemas import patched, problems_of

MERGE_PATCH = "application/merge-patch+json"
_GROUP = "kueue.x-k8s.io"

Object = dict[str, Any]


@dataclass
class FakeKueue:
    """`served`: the versions of its API, the preferred one first; empty: there is no Kueue."""

    served: Sequence[str] = ()
    objects: dict[str, Object] = field(default_factory=dict)          # by their path below the version
    asked: list[str] = field(default_factory=list)

    def has(self, path: str, kind: str, spec: Object, **more: Any) -> None:
        """Put an object at a path such as `admissionchecks/fate-flow`."""
        meta = {"name": path.rpartition("/")[2], "resourceVersion": "1", **more.pop("metadata", {})}
        self.objects[path] = {"kind": kind, "metadata": meta, "spec": spec, **more}
        assert (problems := problems_of(self._shown(path, self.served[0]))) == [], problems

    def group(self) -> Sequence[Object]:
        """What the discovery says of the group."""
        versions = [{"groupVersion": f"{_GROUP}/{one}", "version": one} for one in self.served]
        return [{"name": _GROUP, "versions": versions, "preferredVersion": versions[0]}] if versions else []

    def answer(self, method: str, path: str, content_type: str, body: Object | None) -> tuple[int, Object] | None:
        """Return what Kueue's part of the API server answers; None: the path is none of it."""
        if not path.startswith(f"/apis/{_GROUP}/"):
            return None
        _, _, version, below = path[1:].split("/", 3)
        below, of_status, _ = below.partition("/status")
        self.asked.append(f"{method} {version} {below}")
        if version not in self.served:
            return _failure(404, "404 page not found")
        if method == "GET":
            every = [self._shown(one, version) for one in self.objects if one.startswith(f"{below}/")]
            found = self._shown(below, version)
            return (200, found) if found else (200, {"kind": "List", "items": every})
        if method != "PATCH" or not of_status or below not in self.objects or body is None:
            return _failure(404, f"{below} not found")
        if content_type != MERGE_PATCH:
            return _failure(415, f"{content_type} cannot patch this kind")
        return self._patch(below, version, body)

    def _patch(self, path: str, version: str, patch: Object) -> tuple[int, Object]:
        found = self.objects[path]
        if patch["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            return _failure(409, f"{path} has changed")
        made = patched(self._shown(path, version), patch)
        if problems := problems_of(made):
            return _failure(422, "; ".join(problems))
        made["metadata"]["resourceVersion"] += "1"
        self.objects[path] = {key: value for key, value in made.items() if key != "apiVersion"}
        return 200, made

    def _shown(self, path: str, version: str) -> Object:
        found: Mapping[str, Any] = self.objects.get(path, {})
        return {"apiVersion": f"{_GROUP}/{version}", **found} if found else {}


def _failure(status: int, message: str) -> tuple[int, Object]:
    return status, {"kind": "Status", "status": "Failure", "message": message, "code": status}
