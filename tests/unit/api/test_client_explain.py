"""What explain, the queue and a stop say of a job besides its status: its name, its times, its tasks as they follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from client_world import HOST, START, TOY, World, make_world

from fate_flow.core.ceilings import Ceilings
from fate_flow.core.status import JobStatus

TOYS = "c_first", "a_second", "b_third"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = make_world(tmp_path)
    yield made
    made.store.close()


def a_chain(*names: str) -> dict[str, Any]:
    """Each reads what the one before has left."""
    tables = [{}, *({"input": {"data": {"data": [f"{name}.data"]}}} for name in names)]
    return {"components": {
        name: {"module": "Reader" if not table else "Intersection", "output": {"data": ["data"]}, **table}
        for name, table in zip(names, tables, strict=False)
    }}  # fmt: skip


def test_explain_shows_each_task_after_those_that_it_needs(world: World) -> None:
    table = {"common": {TOYS[0]: {"table": {"namespace": "n", "name": "t"}}}}
    document = replace(TOY, dsl=a_chain(*TOYS), runtime_conf={**TOY.runtime_conf, "component_parameters": table})
    job_id = world.add_job(document=document)
    for name in sorted(TOYS):
        world.add_task(job_id, name)
    for _ in range(2):
        said = world.ask("job/explain", {"job_id": job_id})["data"]
        assert [task["component_name"] for task in said["tasks"]] == list(TOYS)


def test_a_document_that_cannot_be_read_any_more_keeps_no_job_from_being_explained(world: World) -> None:
    job_id = world.add_job(document=replace(TOY, dsl={"components": {"x": {"module": "NoMore"}}}))
    world.add_task(job_id)
    assert len(world.ask("job/explain", {"job_id": job_id})["data"]["tasks"]) == 1


def test_explain_says_the_name_and_since_when(world: World) -> None:
    job_id = world.add_job(document=replace(TOY, name="monthly totals"), f_start_time=None)
    said = world.ask("job/explain", {"job_id": job_id})["data"]
    assert (said["name"], said["start_time"], said["end_time"]) == ("monthly totals", None, None)
    assert START <= said["create_time"] <= said["time"]
    assert said["waiting_seconds"] >= 0
    ended = world.add_job(status=JobStatus.SUCCESS)
    said = world.ask("job/explain", {"job_id": ended})["data"]
    assert (said["end_time"], said["waiting_seconds"]) == (START, None)


@pytest.mark.parametrize(("least", "removed"), [(None, 60), (90, 90)])
def test_explain_says_when_an_ended_job_is_removed(tmp_path: Path, least: int | None, removed: int) -> None:
    world = make_world(tmp_path, ceilings=Ceilings(least_ttl=least))
    ended, other = world.add_job(status=JobStatus.SUCCESS, f_ttl=60), world.add_job(f_ttl=60)
    said = world.ask("job/explain", {"job_id": ended})["data"]
    assert (said["ttl"], said["removed_after"]) == (60, said["end_time"] + removed * 1_000)
    said = world.ask("job/explain", {"job_id": other})["data"]
    assert (said["ttl"], said["removed_after"]) == (60, None)
    world.store.close()


def test_the_queue_names_its_jobs(world: World) -> None:
    named = world.add_job(document=replace(TOY, name="monthly totals"))
    other = world.add_job(document=replace(TOY, name=""))
    said = world.ask("queue/list", {})["data"]
    assert [(one["job_id"], one["name"]) for one in said["jobs"]] == [(named, "monthly totals"), (other, "")]


@pytest.mark.parametrize("initiator", ["own", "other"])
def test_a_stop_of_a_job_that_is_over_says_so_and_changes_nothing(world: World, initiator: str) -> None:
    more = {} if initiator == "own" else {"initiator": HOST}
    job_id = world.add_job(status=JobStatus.FAILED, **more)
    said = world.ask("job/stop", {"job_id": job_id, "now": True})
    words = f"job {job_id} is over already: it ended as failed; nothing was stopped"
    assert said == {"retcode": 0, "retmsg": words}
    (row,) = world.ask("job/query", {"job_id": job_id})["data"]
    assert (row["f_cancel_signal"], row["f_stop_now"]) == (False, False)
