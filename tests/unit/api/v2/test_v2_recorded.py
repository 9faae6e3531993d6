"""What a genuine FATE Flow 2.2.0 has answered, and what this server answers to the same requests: keys and types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.status import JobStatus
from fate_flow.store.values import OutputTable
from tests.kit.api.client_world import LOCAL, START, World
from tests.kit.fate_2.answers import recorded

RECORDED = recorded()["others"]
ROWS = [("a", "1", "2"), ("b", "3", "4")]
SAME_MESSAGE = (0, 1001, 2000, 5001, 6003, 7001)
"""Codes whose messages are FATE Flow's, too; other refusals say what to use instead."""

DIFFERENT = {
    ("server/fateflow", "grpc_port"): "there is no gRPC",
    ("server/query/all", "permission"): "it has a section of its own",
    ("server/query/all", "site"): "it is said by party",
    ("server/query/all", "client"): "it says more than whether it is on",
    ("server/query/all", "grpc_port"): "there is no gRPC",
    ("server/query/all", "proxy_name"): "there is no proxy",
    ("provider/query", "data"): "FATE is no provider of this server",
    ("permission/role/query", "data"): "FATE Flow has none while it has no authentication",
    ("table/query", "path"): "folders of this server are not told",
}  # fmt: skip
"""Keys that are other than FATE Flow's, or not there, and why."""
KEYS_OF_UPLOADS = frozenset({
    "dtype", "input_format", "label_type", "match_id_name", "match_id_range", "sample_id_name", "tag_value_delimiter",
    "tag_with_value", "weight_type",
})  # fmt: skip
"""Keys of `meta` that are there if the upload has said them."""
SOURCE = frozenset({"component", "output_artifact_key", "output_index", "party_task_id", "task_id", "task_name"})
"""Keys of the `source` of a table, which is known here by its origin and its job."""


@pytest.fixture
def facts(world: World) -> dict[str, str]:
    """A job of the local party that has put out a table, which it has uploaded."""
    job_id = world.add_job(status=JobStatus.SUCCESS, party=LOCAL, initiator=LOCAL)
    done = {"f_status": "success", "f_party_status": "success", "f_end_time": START, "f_reason": "done"}
    world.add_task(job_id, "upload_0", LOCAL, **done)
    table = world.add_table("upload", "sent", ROWS)
    with world.store.transaction() as tx:
        key = TaskKey(job_id, "upload_0", 0, LOCAL)
        tx.save_outputs([OutputTable(key, "table", table.namespace, table.name)], START)
    world.add_log(job_id, "fate_flow_schedule.log", "text\n")
    world.ask("permission/grant", {"party_id": "10000", "dataset": {"namespace": "it", "name": "numbers"}})
    return {"{job}": job_id, "{table}": "sent"}


def filled(value: Any, facts: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: filled(one, facts) for key, one in value.items()}
    return facts.get(value, value) if isinstance(value, str) else value


def said(text: str, facts: dict[str, str]) -> str:
    for name, value in facts.items():
        text = text.replace(name, value)
    return text


def differences(ours: Any, theirs: Any, path: str, key: str = "") -> Iterator[str]:
    """Yield where a key is missing, or a value is of another type."""
    if (path, key) in DIFFERENT:
        return
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name, value in theirs.items():
            if name in ours:
                yield from differences(ours[name], value, path, name)
            elif name not in KEYS_OF_UPLOADS | SOURCE and (path, name) not in DIFFERENT:
                yield f"{key}.{name} is missing"
    elif isinstance(theirs, list) and isinstance(ours, list):
        if theirs and not ours:
            yield f"{key} is empty"
        for one in ours if theirs else ():
            yield from differences(one, theirs[0], path, key)
    elif type(ours) is not type(theirs):
        yield f"{key}: {ours!r} is not as {theirs!r}"


@pytest.mark.parametrize("one", RECORDED, ids=lambda one: f"{one['method']} {one['path']} {json.dumps(one['sent'])}")
def test_the_answer_has_the_keys_and_types_of_fate_flow(
    world: World, facts: dict[str, str], one: dict[str, Any]
) -> None:  # fmt: skip
    sent, theirs = filled(one["sent"], facts), one["answer"]
    how = {"query_string": sent} if one["method"] == "GET" else {"json": sent}
    ours = world.client.open(f"/v2/{one['path']}", method=one["method"], **how).json
    assert ours.get("code") == theirs.get("code"), ours
    if theirs.get("code") in SAME_MESSAGE:
        assert ours.get("message") == (said(theirs["message"], facts) if "message" in theirs else None)
    assert list(differences(ours, theirs, one["path"])) == [], ours
