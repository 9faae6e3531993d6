"""Metrics of a task, as clients of FATE Flow 2 ask for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fate_flow.core.metrics.form import read_metric
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.status import JobStatus
from fate_flow.store.values import Metric
from tests.kit.api.client_world import GUEST, START, World

LOSS = {
    "name": "loss", "type": "loss", "groups": [{"name": "default", "index": None}], "step_axis": "iterations",
    "data": [{"metric": 0.5, "step": 0, "timestamp": 1.5}, {"metric": 0.25, "step": 1, "timestamp": 2.5}],
}  # fmt: skip
SUMMARY = {**LOSS, "name": "summary", "type": "custom", "step_axis": None, "data": {"n": 3}}


@pytest.fixture
def task(world: World) -> dict[str, str]:
    job_id = world.add_job(status=JobStatus.SUCCESS)
    world.add_task(job_id, f_status="success", f_party_status="success", f_end_time=1, f_reason="done")
    for said in (LOSS, SUMMARY):
        one = read_metric(said)
        points = tuple(map(tuple, one["data"]))
        with world.store.transaction() as tx:
            key = TaskKey(job_id, "toy_0", 0, GUEST)
            tx.save_metrics([Metric(key, one["namespace"], one["name"], points, one["meta"])], START)
    return {"job_id": job_id, "role": "guest", "party_id": "9999", "task_name": "toy_0"}


def asked(world: World, path: str, task: dict[str, str], /, **more: str) -> Any:
    return world.client.get(f"/v2/output/metric/{path}", query_string={**task, **more}).json


def test_metrics_are_listed_as_they_were_reported(world: World, task: dict[str, str]) -> None:
    assert asked(world, "query", task) == {"code": 0, "message": "success", "data": [LOSS, SUMMARY]}
    keys = [{key: one[key] for key in ("name", "type", "groups", "step_axis")} for one in (LOSS, SUMMARY)]
    assert asked(world, "key/query", task)["data"] == keys


@pytest.mark.parametrize(("filters", "expected"), [
    ({"name": "summary"}, [SUMMARY]),
    ({"type": "loss", "step_axis": "iterations"}, [LOSS]),
    ({"name": "magic"}, []),
    ({"name": None, "other": 1}, [LOSS, SUMMARY]),
])  # fmt: skip
def test_filters_choose_metrics(world: World, task: dict[str, str], filters: dict[str, Any], expected: Any) -> None:
    assert asked(world, "query", task, filters=json.dumps(filters))["data"] == expected


@pytest.mark.parametrize("filters", ["name", "[]"])
def test_filters_that_cannot_be_read_are_refused(world: World, task: dict[str, str], filters: str) -> None:
    found = asked(world, "query", task, filters=filters)
    assert (found["code"], found["message"].startswith(f"filters: '{filters}' is not")) == (5001, True)


def test_metrics_are_deleted_once(world: World, task: dict[str, str]) -> None:
    for is_there in (True, False):
        found = world.client.post("/v2/output/metric/delete", json=task).json
        assert found == {"code": 0, "message": "success", "data": is_there}
    assert asked(world, "query", task)["data"] == []


@pytest.mark.parametrize("path", ["query", "key/query"])
def test_of_an_unknown_task_the_client_is_told_so(world: World, task: dict[str, str], path: str) -> None:
    found = asked(world, path, {**task, "task_name": "x"})
    assert (found["code"], found["message"].endswith("task_name[x]")) == (2000, True)
