"""The same requests to a server of FATE Flow 2 and to ours, and the shapes of the answers: keys and types.

`genuine_answers.json` was recorded once, by the genuine `fate_flow==2.2.0` (`record.py` says how). Its `others` are
requests about everything but jobs, with their answers, from a standalone server with one uploaded table: `{job}` and
`{table}` stand for the names there. Of logs and of the configuration only the shape is kept, and the server has the
name that it would have here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("genuine_answers.json")
UNKNOWN = "20260101000000000001"
_SEAT = {"job_id": UNKNOWN, "role": "guest", "party_id": "9999"}

REFUSED: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "unknown path": ("GET", "no/such/path", {}),
    "another method": ("GET", "job/stop", {}),
    "no such job": ("GET", "job/query", {"job_id": UNKNOWN}),
    "no such seat": ("GET", "job/query", _SEAT),
    "no dag": ("POST", "job/submit", {}),
    "a list as dag": ("POST", "job/submit", {"dag_schema": []}),
    "null as dag": ("POST", "job/submit", {"dag_schema": None}),
    "stop nothing": ("POST", "job/stop", {}),
    "stop a number": ("POST", "job/stop", {"job_id": 7}),
    "stop no such job": ("POST", "job/stop", {"job_id": UNKNOWN}),
    "rerun nothing": ("POST", "job/rerun", {}),
    "rerun no such job": ("POST", "job/rerun", {"job_id": UNKNOWN}),
    "clean nothing": ("POST", "job/clean", {}),
    "clean no such job": ("POST", "job/clean", {"job_id": UNKNOWN}),
    "notes on nothing": ("POST", "job/notes/add", {}),
    "notes that are none": ("POST", "job/notes/add", {**_SEAT}),
    "logs of nothing": ("POST", "job/log/download", {}),
    "dependencies of nothing": ("GET", "job/dag/dependency", {}),
    "dependencies of no such job": ("GET", "job/dag/dependency", _SEAT),
    "data of nothing": ("GET", "job/data/view", {}),
    "data of no such job": ("GET", "job/data/view", _SEAT),
    "no such task": ("GET", "job/task/query", {"job_id": UNKNOWN}),
    "a version that is no number": ("GET", "job/task/query", {"task_version": "x"}),
    "a limit that is no number": ("GET", "job/list/query", {"limit": "x"}),
    "a page that is no number": ("GET", "job/task/list/query", {"page": "x"}),
}
"""Requests that change nothing, by a name. They are answered alike, word for word."""

_BY_NAME = frozenset({
    "tasks", "component_module", "component_stage", "dependencies",
})  # fmt: skip
"""Objects whose keys are data."""
_ANYTHING = frozenset({
    "parameters", "component_parameters", "task_parameters", "engine_conf", "task_run", "cmd", "inputs", "outputs",
    "extra", "party_tasks", "engine_run", "inheritance", "data_view",
})  # fmt: skip
"""Objects that a component, an engine or a user has filled: only their type is compared."""


def about(job_id: str) -> dict[str, tuple[str, str, Mapping[str, Any]]]:
    """Requests about a job that has ended and has the initiator guest 9999, by a name."""
    seat = {"job_id": job_id, "role": "guest", "party_id": "9999"}
    return {
        "job": ("GET", "job/query", seat),
        "jobs": ("GET", "job/list/query", {"limit": 2, "page": 1, "job_id": job_id}),
        "tasks": ("GET", "job/task/query", seat),
        "list of tasks": ("GET", "job/task/list/query", {"limit": 2, "page": 1, **seat}),
        "dependencies": ("GET", "job/dag/dependency", seat),
        "data": ("GET", "job/data/view", seat),
        "notes": ("POST", "job/notes/add", {**seat, "notes": "a test"}),
        "stop": ("POST", "job/stop", {"job_id": job_id}),
        "queue": ("POST", "job/queue/clean", {}),
    }


def shape_of(value: Any, key: str = "") -> Any:
    """Return keys and types of an answer; of a list, or an object whose keys are data, that of its first value."""
    if isinstance(value, dict):
        if key in _ANYTHING:
            return "object"
        if key in _BY_NAME:
            return {"*": shape_of(next(iter(value.values())))} if value else {}
        return {name: shape_of(one, name) for name, one in sorted(value.items())}
    if isinstance(value, list):
        return "list" if key in _ANYTHING else [shape_of(one) for one in value[:1]]
    return {bool: "bool", int: "int", float: "float", str: "str", type(None): "null"}[type(value)]


def differences(ours: Any, genuine: Any, place: str = "") -> list[str]:
    """Return where a shape is another than the recorded one; a value that is null may have any type."""
    if isinstance(ours, dict) and isinstance(genuine, dict):
        found = [f"{place}.{key}: is missing" for key in genuine.keys() - ours.keys()]
        found += [f"{place}.{key}: is not in FATE's answer" for key in ours.keys() - genuine.keys()]
        return sorted(found) + [
            one for key in sorted(ours.keys() & genuine.keys())
            for one in differences(ours[key], genuine[key], f"{place}.{key}")
        ]  # fmt: skip
    if isinstance(ours, list) and isinstance(genuine, list):
        return differences(ours[0], genuine[0], f"{place}[]") if ours and genuine else []
    return [] if ours == genuine or "null" in (ours, genuine) else [f"{place}: {ours} instead of {genuine}"]


def recorded() -> dict[str, Any]:
    """Return `refused`, the answers to `REFUSED`; `shapes`, of the answers to `about` and to a submit; and `others`, a
    list of `{method, path, sent, answer}`."""
    found: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found
