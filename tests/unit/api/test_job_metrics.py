"""`/v1/job/metrics`, and metrics in FATE 2's form."""

from __future__ import annotations

from typing import Any

from fate_flow.core.metrics.form import read_metric
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.store.values import Metric
from tests.kit.api.client_world import GUEST, HOST, START, World


def loss(*steps: int) -> dict[str, Any]:
    data = [{"metric": 1 / (step + 1), "step": step, "timestamp": 1.5} for step in steps]
    return {
        "name": "loss", "type": "loss", "groups": [{"name": "default", "index": None}], "step_axis": "iterations",
        "data": data,
    }  # fmt: skip


def add(world: World, job_id: str, said: dict[str, Any], version: int = 0, party: Party = GUEST) -> None:
    one, key = read_metric(said), TaskKey(job_id, "toy_0", version, party)
    with world.store.transaction() as tx:
        points = tuple(map(tuple, one["data"]))
        tx.save_metrics([Metric(key, one["namespace"], one["name"], points, one["meta"])], START)


def test_the_points_since_the_last_look(world: World) -> None:
    job_id = world.add_job()
    assert world.ask("job/metrics", {"job_id": job_id})["data"] == {"curves": [], "next": 0}
    assert world.ask("job/explain", {"job_id": job_id})["data"]["newest_metric"] == 0
    add(world, job_id, loss(0, 1))
    add(world, world.add_job(), loss(7))
    first = world.ask("job/metrics", {"job_id": job_id})["data"]
    assert first["curves"] == [{
        "component_name": "toy_0", "role": "guest", "party_id": "9999", "task_version": 0, "namespace": "default",
        "name": "loss", "axis": "iterations", "points": [[0, 1.0, 1.5], [1, 0.5, 1.5]],
    }]  # fmt: skip
    assert world.ask("job/explain", {"job_id": job_id})["data"]["newest_metric"] == first["next"]
    add(world, job_id, {**loss(), "data": {"auc": 0.9}})
    add(world, job_id, loss(2))
    second = world.ask("job/metrics", {"job_id": job_id, "after": first["next"]})["data"]
    assert [one["points"] for one in second["curves"]] == [[[2, 1 / 3, 1.5]]]
    last = world.ask("job/metrics", {"job_id": job_id, "after": second["next"]})["data"]
    assert last == {"curves": [], "next": second["next"]}
    assert world.ask("job/metrics", {"job_id": job_id, "after": -1})["retcode"] == 101


def test_metrics_of_a_component_in_the_forms_of_both_fates(world: World) -> None:
    job_id = world.add_job()
    for said in (loss(0), {**loss(), "name": "summary", "step_axis": None, "data": {"n": 3}}, loss(1)):
        add(world, job_id, said)
    seat = {"job_id": job_id, "role": "guest", "party_id": "9999", "component_name": "toy_0"}
    found = world.ask("tracking/component/metric/all", seat)["data"]["default"]
    assert found["loss"] == {
        "data": [[0, 1.0], [1, 0.5]], "meta": {"metric_type": "loss", "step_axis": "iterations"},
    }
    assert found["summary"]["data"] == [["n", 3]]
    views = world.services.views
    assert views.metrics_in_fate_2(job_id, "toy_0", GUEST) == [
        loss(0, 1), {**loss(), "name": "summary", "step_axis": None, "data": {"n": 3}},
    ]  # fmt: skip
    assert views.metrics_in_fate_2(job_id, "toy_0", HOST) == []
    add(world, job_id, loss(5), version=1)
    assert views.metrics_in_fate_2(job_id, "toy_0", GUEST) == [loss(5)], "those of the newest version"
