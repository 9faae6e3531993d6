"""What Kueue, Volcano and scheduler-plugins ask of their kinds, as far as this server writes or reads them.

`kubernetes_validate` has only the kinds of Kubernetes itself, and no registry of packages that can be had has the
definitions of these. So they are restated here from the published ones, which are under the licence Apache-2.0:

- Kueue: `apis/kueue/v1beta2` and `v1`, of `kubernetes-sigs/kueue` at 7a13270b77cb. Releases before 0.15 have v1beta1
  alone, and those from 0.20 on do not serve it any more.
- Volcano: `config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml`, of `volcano-sh/volcano` at 096235e19d45.
- scheduler-plugins: `config/crd/bases/scheduling.x-k8s.io_podgroups.yaml`, of `kubernetes-sigs/scheduler-plugins` at
  3f8606c336a1.

Each is stricter than an API server: a field that is not named here is refused, not removed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator

Object = dict[str, Any]

KUEUE_VERSIONS = ("v1beta2", "v1")
"""In the order in which they came; what is here is the same in both."""


def problems_of(body: Object) -> list[str]:
    """Return what an API server with these kinds refuses in an object, with the place of each problem."""
    schema = SCHEMAS.get((str(body.get("apiVersion")), str(body.get("kind"))))
    if schema is None:
        return [f"no kind {body.get('kind')} in {body.get('apiVersion')}"]
    found = [f"{one.json_path}: {one.message}" for one in Draft202012Validator(schema).iter_errors(body)]
    return sorted(found) or _doubled(body)


def patched(found: Object, patch: Object) -> Object:
    """Return an object with a merge patch (RFC 7396) of its status: the rest of the patch is ignored, as it is by the
    subresource `status`."""
    return _merged(copy.deepcopy(found), {key: value for key, value in patch.items() if key == "status"})


def _merged(found: Object, patch: Object) -> Object:
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            old = found.get(key)
            found[key] = _merged(old if isinstance(old, dict) else {}, value)
        else:
            found[key] = copy.deepcopy(value)
    return found


def _doubled(body: Object) -> list[str]:
    """Return the lists with two elements of the same key: these lists are maps."""
    status = body.get("status") or {}
    lists = {"conditions": "type", "admissionChecks": "name"}
    keys = {name: [one[key] for one in status.get(name) or ()] for name, key in lists.items()}
    return [f"$.status.{name}: an element is doubled" for name, found in keys.items() if len(set(found)) < len(found)]


def _object(*required: str, **properties: Object) -> Object:
    return {"type": "object", "additionalProperties": False, "required": [*required], "properties": properties}


def _kind(api: str, kind: str, spec: Object, **more: Object) -> Object:
    fixed = {"apiVersion": {"const": api}, "kind": {"const": kind}}
    return _object("apiVersion", "kind", "metadata", **fixed, metadata=_META, spec=spec, **more)


def _list_of(element: Object, most: int) -> Object:
    return {"type": "array", "maxItems": most, "items": element}


_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_WORD = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"}
_TEXT = {"type": "string", "maxLength": 32768}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_SUBDOMAIN = {"type": "string", "maxLength": 253, "pattern": rf"^{_PART}(\.{_PART})*$"}
_LABEL = {"type": "string", "maxLength": 63, "pattern": "^([A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?)?$"}
_QUANTITY = {"type": "string", "pattern": r"^[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$"}
_RESOURCES = {"type": "object", "additionalProperties": _QUANTITY}
_META = _object(
    "name", name=_SUBDOMAIN, namespace={"type": "string", "maxLength": 63, "pattern": f"^{_PART}$"},
    labels={"type": "object", "additionalProperties": _LABEL}, resourceVersion={"type": "string"},
    annotations={"type": "object", "additionalProperties": {"type": "string"}}, uid={"type": "string"},
    creationTimestamp=_TIME,
)  # fmt: skip

_CONDITION = _object(
    "type", "status", "lastTransitionTime", "reason", "message",
    type={"type": "string", "maxLength": 316, "pattern": rf"^({_PART}(\.{_PART})*/)?{_WORD}$"},
    status={"enum": ["True", "False", "Unknown"]},
    observedGeneration=_COUNT,
    lastTransitionTime=_TIME,
    reason={"type": "string", "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
    message=_TEXT,
)  # fmt: skip
_CHECK_STATE = _object(
    "name", "state", "lastTransitionTime", "message",
    name={"type": "string", "maxLength": 316}, state={"enum": ["Pending", "Ready", "Retry", "Rejected"]},
    lastTransitionTime=_TIME, message=_TEXT, requeueAfterSeconds=_COUNT, retryCount=_COUNT,
    podSetUpdates=_list_of({"type": "object"}, 8),
)  # fmt: skip


def _kueue(version: str) -> Mapping[tuple[str, str], Object]:
    api = f"kueue.x-k8s.io/{version}"
    name = {"type": "string", "minLength": 1, "maxLength": 253}
    return {
        (api, "AdmissionCheck"): _kind(
            api, "AdmissionCheck", _object("controllerName", controllerName=name, parameters={"type": "object"}),
            status=_object(conditions=_list_of(_CONDITION, 16)),
        ),
        (api, "Workload"): _kind(
            api, "Workload", {"type": "object"},
            status=_object(conditions=_list_of(_CONDITION, 16), admissionChecks=_list_of(_CHECK_STATE, 8)),
        ),
    }  # fmt: skip


_VOLCANO, _COSCHEDULING = "scheduling.volcano.sh/v1beta1", "scheduling.x-k8s.io/v1alpha1"

SCHEMAS: Mapping[tuple[str, str], Object] = {
    **_kueue("v1beta2"), **_kueue("v1"),
    (_VOLCANO, "PodGroup"): _kind(_VOLCANO, "PodGroup", _object(
        minMember=_COUNT, minTaskMember={"type": "object", "additionalProperties": _COUNT}, minResources=_RESOURCES,
        queue={"type": "string"}, priorityClassName={"type": "string"},
    )),
    (_COSCHEDULING, "PodGroup"): _kind(_COSCHEDULING, "PodGroup", _object(
        minMember={**_COUNT, "minimum": 1}, minResources=_RESOURCES, scheduleTimeoutSeconds=_COUNT,
    )),
}  # fmt: skip
"""By version of the API, and kind."""
