"""The `pipeline` package: a Reader and an Intersection over two parties, built, fitted, followed and read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.genuine.genuine_client import Flow, GenuineClient
from tests.genuine.world import World
from tests.kit.servers.party_servers import GUEST, HOST, csv_text

pytestmark = pytest.mark.timeout(900)

OF_GUEST = {f"id{number:02}": [number, 2 * number] for number in range(10)}
OF_HOST = {f"id{number:02}": [3 * number] for number in range(5, 15)}
COMMON = [f"id{number:02}" for number in range(5, 10)]


@pytest.fixture(scope="module")
def pipeline(genuine: GenuineClient) -> Iterator[Flow]:
    with genuine.forked_pipeline() as step:
        yield step


def run(pipeline: Flow, *text: object) -> dict[str, Any]:
    """What a step of `pipeline_script.py` has printed at its end."""
    done = pipeline(*map(str, text))
    assert done.code == 0, done
    found = json.loads(done.out.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def upload(pipeline: Flow, world: World, folder: Path, table: str) -> None:
    """The guest's half comes from the pipeline itself."""
    (folder / "guest.csv").write_text(csv_text(["id", "x", "y"], OF_GUEST))
    run(pipeline, "upload", folder / "guest.csv", table)
    world.parties.host.has_table(table, csv_text(["id", "z"], OF_HOST))


def read_back(pipeline: Flow, dump: Path) -> None:
    found = run(pipeline, "read", dump)
    reader, intersection = found["reader_0"], found["intersection_0"]
    assert (reader["columns"], len(reader["rows"])) == (["id", "x", "y"], 10)
    assert sorted(row[0] for row in intersection["rows"]) == COMMON
    assert intersection["columns"] == ["id", "x", "y"]
    assert len(intersection["two"]) == 3, "with its header"
    assert set(intersection["table"]) >= {"table_name", "table_namespace"}
    assert reader["summary"]["table_info"]["count"] == 10
    assert (reader["model"], intersection["model"]) == ({}, {})
    assert intersection["summary"] == {"intersect_count": 5, "intersect_rate": 0.5}


def test_a_pipeline_is_fitted_and_read_back(pipeline: Flow, world: World, tmp_path: Path) -> None:
    upload(pipeline, world, tmp_path, "piped")
    fitted = run(pipeline, "fit", GUEST, HOST, "piped", tmp_path / "dump")
    assert fitted["failure"] == ""
    read_back(pipeline, tmp_path / "dump")
    said = run(pipeline, "deploy", tmp_path / "dump")["raised"]
    assert said.startswith("ValueError: Cannot deploy components, error msg is no model: model_version")
    assert "is not in the store of this party" in said


def test_a_pipeline_binds_a_file_of_the_server(pipeline: Flow, world: World) -> None:
    described = run(pipeline, "bind", world.facts["here"], "bound")
    assert (described["table_name"], described["namespace"], described["warnings"]) == ("bound", "it", [])
    world.guest.wait(described["job_id"], "success")
    assert world.guest.ask("table/table_info", {"namespace": "it", "table_name": "bound"})["count"] == 20


def test_a_pipeline_goes_on_after_a_step_has_failed(
    genuine: GenuineClient, pipeline: Flow, world: World, tmp_path: Path
) -> None:
    for party in (world.guest, world.parties.host):
        party.has_lost_table("late")
    fitted = run(pipeline, "fit", GUEST, HOST, "late", tmp_path / "dump")
    assert fitted["job_id"] in fitted["failure"]
    upload(pipeline, world, tmp_path, "late")
    world.parties.wait(fitted["job_id"], "failed")
    assert genuine.flow("job", "rerun", "-j", fitted["job_id"]).document["retmsg"] == "rerun job success"
    assert run(pipeline, "follow", tmp_path / "dump") == {"status": 0}
    read_back(pipeline, tmp_path / "dump")
