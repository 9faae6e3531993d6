"""Job files for tests, as their YAML is read: a small one, and one that says everything."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.spec import JobSpec
from fate_flow.jobspec.formats import NATIVE, parse, parse_or_problems
from fate_flow.jobspec.native import reader
from fate_flow.jobspec.native.reader import Translation
from fate_flow.jobspec.text.document import Findings
from tests.kit.jobspec.fate_v1_documents import DEFAULTS, MODULES

SMALL: Mapping[str, Any] = {
    "version": 1, "initiator": "guest 9001", "parties": {"guest": [9001], "host": [9002, "9004"]},
    "tasks": {"read": {"component": "Reader"}},
}

RETRY = {
    "on_events": ["error"], "max_attempts": 2, "max_interruptions": 4, "duration": 60.5,
    "backoff": {"first": 1, "factor": 2, "longest": 9, "jitter": 0.5},
}
LIFECYCLE = {
    "retry": RETRY, "stop_duration": 7.5, "policies": [
        {"event": "any", "action": "fail_job"}, {"events": ["task_failed"], "action": "cancel_job", "timeout": 5},
        {"exit_code": 7, "action": "ignore"}],
    "min_available": {"guest": 1, "host": 1, "arbiter": 1, "local": 0}, "priority": 3,
}
FULL: Mapping[str, Any] = {
    "version": 1, "name": "full", "description": "all keys",
    "initiator": "guest 9001",
    "parties": {"guest": [9001], "host": [9002, 9004], "arbiter": [9003], "local": [0]},
    "resources": {
        "cores": 3, "memory": 512, "gpus": 1, "queue": "long", "labels": ["a"], "longest_pending": 60, "parallelism": 2,
        "partitions": 11,
    },
    "timeout": 600, "task_timeout": 100, "stage": "train", "ttl": 86_400, "max_failed_workers": 9,
    "model": {"id": "m", "version": 1},
    **LIFECYCLE,
    "at": {
        "host": {
            "resources": {
                "cores": 5, "memory": 6, "gpus": 4, "queue": "short", "labels": ["b"], "longest_pending": 0.5,
                "parallelism": 7, "partitions": 12,
            },
            "task_timeout": 101,
        },
        "host 9004": {"resources": {"cores": 8, "memory": 9, "parallelism": 10}, "task_timeout": 102},
    },
    "tasks": {
        "fit": {
            "component": "HeteroLR",
            "inputs": {
                "data": {
                    "data": ["read.raw"], "named": {"table": {"namespace": "n", "name": "t"}},
                    "made": {"output": {"job_id": "2026", "task": "f", "output": "o"}},
                    "own": {"from": "read.raw", "parties": ["guest"]},
                },
                "isometric_model": ["read.m"], "cache": ["read.c"],
                "eval_data": "read.raw",
                "model": {
                    "input_model": ["read.m"],
                    "old": {"model": {"id": "1", "version": 2, "task": "f", "output": "m"}},
                    "others": {"from": "read.m", "parties": ["host 9004"]},
                },
            },
            "stage": "train",
            "outputs": {"data": ["scores"], "model": ["weights"], "cache": ["kept"]},
            "after": ["read"],
            "parties": ["guest", "host"],
            "ports": {"fl": {"listen": ["guest"], "connect": ["host 9002"]}},
            "parameters": {"alpha": {"beta": [1, 2]}},
            "at": {
                "guest": {
                    "parameters": {"label": "y"}, "run": True, "timeout": 11,
                    "resources": {"cores": 14, "memory": 15, "gpus": 16, "queue": "there", "labels": ["y"]},
                    "inputs": {
                        "named": {"table": {"namespace": "n2", "name": "t2"}},
                        "made": {"output": {"job_id": "2027", "task": "f2", "output": "o2"}},
                    },
                },
                "host 9004": {"parameters": {"gamma": 2}, "run": False, "timeout": 12},
            },
            "timeout": 13, "resources": {"cores": 17, "memory": 18, "gpus": 19, "queue": "own", "labels": ["x"]},
            **LIFECYCLE,
        },
        "read": {"component": "Reader", "outputs": {"data": ["raw"], "model": ["m"], "cache": ["c"]}},
    },
}


def a_file(base: Mapping[str, Any] = SMALL, **changes: Any) -> dict[str, Any]:
    """A copy with other values for some of its top keys; None drops a key."""
    changed = {**copy.deepcopy(dict(base)), **changes}
    return {key: value for key, value in changed.items() if value is not None}


def with_task(**changes: Any) -> dict[str, Any]:
    """The small file with other values in its only task."""
    return a_file(tasks={"read": {"component": "Reader", **changes}})


def translated(document: Any) -> Translation:
    """What the file stands for in FATE v1; its shape must be right."""
    findings = Findings(strict=True)
    found = reader.translated(JobDocument(NATIVE, document), MODULES, findings)
    assert found is not None, findings.problems
    return found


def wrong_with(document: Any) -> list[str]:
    """All that is wrong with a file, its shape and then its content."""
    return parse_or_problems(JobDocument(NATIVE, document), modules=MODULES, defaults=DEFAULTS, strict=True)[1]


def spec_of(document: dict[str, Any]) -> JobSpec:
    return parse(JobDocument(NATIVE, document), modules=MODULES, defaults=DEFAULTS)
