"""Notes on a job, and the removal of what its tasks left here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fate_flow.components.tables.table_uri import parse_uri
from fate_flow.core.model.job import TaskKey, Worker
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.store.values import Metric
from tests.kit.api.client_world import GUEST, START, World

UNKNOWN = "202601010000000000000"
ROWS = [("a", "1", "2"), ("b", "3", "4")]


def add_done(world: World, job_id: str = "", status: JobStatus = JobStatus.SUCCESS) -> tuple[str, Path]:
    """A job whose task handed on a table that it made and one that was there before."""
    job_id = world.add_job(job_id, status)
    world.add_task(job_id)
    made = world.add_table("out", f"made_{job_id}", ROWS, job_id)
    world.write("t_storage_table_meta", {"f_name": made.name}, f_origin="output")
    other = world.services.views.table("it", "numbers") or world.add_table("it", "numbers", ROWS)
    world.add_output(job_id, made)
    world.add_output(job_id, other, data_name="read")
    key = TaskKey(job_id, "toy_0", 0, GUEST)
    with world.store.transaction() as tx:
        tx.save_metrics([Metric(key, "train", "loss", ((1, 2),), {}), Metric(key, "train", "auc", (), {})], START)
        tx.save_summary(key, {"rows": 2}, START)
        for task in tx.tasks(job_id):
            world.write("t_task", {"f_job_id": job_id}, f_status="success", f_party_status="success", f_end_time=START,
                        f_federated_reason="done", f_federated_end_time=START)
            assert task.key == key
    return job_id, parse_uri(made.uri).path


def left(world: World) -> dict[str, int]:
    names = ("t_storage_table_meta", "t_tracking_output_data_info", "t_tracking_metric", "t_component_summary")
    return {name.removeprefix("t_"): world.count(name) for name in names}


# ---------------------------------------------------------------------- job/clean


def test_what_the_tasks_made_goes_and_the_job_stays(world: World) -> None:
    job_id, path = add_done(world)
    said = world.ask("job/clean", {"job_id": job_id, "conf_path": "x"})
    assert said["data"] == {"tables": [{"namespace": "out", "table_name": f"made_{job_id}"}], "metrics": 2}
    assert path.exists() is False
    assert left(world) == {
        "storage_table_meta": 1, "tracking_output_data_info": 0, "tracking_metric": 0, "component_summary": 0,
    }  # fmt: skip
    assert world.ask("job/query", {"job_id": job_id})["data"][0]["f_status"] == "success"
    assert world.ask("job/clean", {"job_id": job_id})["data"] == {"tables": [], "metrics": 0}


@pytest.mark.parametrize("more", [{"role": "host", "party_id": 10000}, {"component_name": "other_0"}])
def test_what_is_not_meant_stays(world: World, more: dict[str, Any]) -> None:
    job_id, path = add_done(world)
    before = left(world)
    assert world.ask("job/clean", {"job_id": job_id, **more})["data"] == {"tables": [], "metrics": 0}
    assert (left(world), path.exists()) == (before, True)


@pytest.mark.parametrize("status", [JobStatus.RUNNING, JobStatus.WAITING])
def test_a_job_that_is_not_over_is_left_alone(world: World, status: JobStatus) -> None:
    job_id, path = add_done(world, status=status)
    before = left(world)
    for route in ("job/clean", "tracking/component/metric/delete"):
        said = world.ask(route, {"job_id": job_id})
        text = f"job {job_id} is {status.value}: only what is over is removed; flow job stop ends it"
        assert (said["retcode"], text in said["retmsg"]) == (103, True)
    assert (left(world), path.exists()) == (before, True)


def test_a_job_whose_last_worker_still_ends_is_left_alone(world: World) -> None:
    job_id, _ = add_done(world)
    with world.store.transaction() as tx:
        tx.add_worker(Worker("w1", TaskKey(job_id, "toy_0", 0, GUEST), WorkerStatus.CREATED, "local", "/nowhere"))
    said = world.ask("job/clean", {"job_id": job_id})
    assert (said["retcode"], "its last workers still end" in said["retmsg"]) == (103, True)


@pytest.mark.parametrize(
    ("body", "retcode", "text"),
    [
        ({}, 101, "missing: job_id"), ({"job_id": "../x"}, 101, "job_id"),
        ({"job_id": UNKNOWN}, 102, f"can not found job {UNKNOWN}"),
        ({"job_id": UNKNOWN, "role": "guest"}, 101, "party_id"),
        ({"job_id": UNKNOWN, "party_id": 1}, 101, "role"),
        ({"job_id": UNKNOWN, "component_name": "a/b"}, 101, "component_name"),
    ],
)  # fmt: skip
def test_what_cannot_be_cleaned(world: World, body: dict[str, Any], retcode: int, text: str) -> None:
    said = world.ask("job/clean", body)
    assert (said["retcode"], text in said["retmsg"]) == (retcode, True), said


# ---------------------------------------------------------------------- job/update


def test_notes_on_a_job_are_its_description(world: World) -> None:
    job_id = world.add_job(status=JobStatus.RUNNING)
    body = {"job_id": job_id, "role": "guest", "party_id": 9999}
    assert world.ask("job/update", {**body, "notes": "looks good"})["retcode"] == 0
    assert world.ask("job/query", {"job_id": job_id})["data"][0]["f_description"] == "looks good"
    assert world.ask("job/update", {**body, "notes": ""})["retcode"] == 0
    assert world.ask("job/query", {"job_id": job_id})["data"][0]["f_description"] == ""


@pytest.mark.parametrize(
    ("more", "retcode", "text"),
    [
        ({}, 101, "missing: notes"), ({"notes": 7}, 101, "notes: 7 is not text"),
        ({"notes": "x" * 4_001}, 101, "notes: has 4001 characters"),
        ({"notes": "x", "role": "host"}, 102, "can not found job"), ({"notes": "x", "role": "boss"}, 101, "role"),
        ({"notes": "x", "job_id": UNKNOWN}, 102, "can not found job"),
    ],
)  # fmt: skip
def test_notes_that_cannot_be_written(world: World, more: dict[str, Any], retcode: int, text: str) -> None:
    job_id = world.add_job()
    said = world.ask("job/update", {"job_id": job_id, "role": "guest", "party_id": 9999, **more})
    assert (said["retcode"], text in said["retmsg"]) == (retcode, True), said


# ---------------------------------------------------------------------- metrics, disabled tables


def test_the_metrics_of_a_job_go(world: World) -> None:
    job_id, _ = add_done(world)
    for word in ("True", "False"):
        said = world.ask("tracking/component/metric/delete", {"job_id": job_id})
        assert (said["retcode"], said["data"]) == (0, f"delete status: {word}")
    assert left(world)["tracking_metric"] == 0


def test_the_metrics_of_a_day_go_but_of_what_is_not_over(world: World) -> None:
    for number, status in enumerate((JobStatus.SUCCESS, JobStatus.RUNNING)):
        add_done(world, f"2026010112000000000{number}", status)
    add_done(world, "20260102120000000000")
    for day, data in ((20260101, "delete status: True"), ("20260101", "delete status: False")):
        assert world.ask("tracking/component/metric/delete", {"model": day})["data"] == data
    assert left(world)["tracking_metric"] == 4


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "missing: job_id or model"), ({"job_id": "x"}, "job_id: 'x' is not a job id"),
        ({"model": "yesterday"}, "model: 'yesterday' is not a day"), ({"model": True}, "model: true is not a day"),
        ({"model": 2026, "job_id": UNKNOWN}, "model: 2026 is not a day"),
        ({"model": 20260101, "job_id": "x"}, "job_id: 'x' is not a job id"),
    ],
)  # fmt: skip
def test_no_day_and_no_job_is_no_request(world: World, body: dict[str, Any], text: str) -> None:
    said = world.ask("tracking/component/metric/delete", body)
    assert (said["retcode"], text in said["retmsg"]) == (101, True), said


def test_all_disabled_tables_go_at_once(world: World) -> None:
    files = [parse_uri(world.add_table("n", name, ROWS).uri).path for name in ("a", "b", "c")]
    for name in ("a", "c"):
        world.ask("table/disable", {"namespace": "n", "table_name": name})
    said = world.ask("table/disable/delete", {})
    assert said["data"] == [{"namespace": "n", "table_name": "a"}, {"namespace": "n", "table_name": "c"}]
    assert [file.exists() for file in files] == [False, True, False]
    again = world.ask("table/disable/delete", {})
    assert (again["retcode"], again["retmsg"]) == (101, "no find table: none is disabled")
