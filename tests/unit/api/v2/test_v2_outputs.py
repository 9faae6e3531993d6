"""What a task has put out, as clients of FATE Flow 2 ask for it."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

import pytest
from werkzeug.test import TestResponse

from tests.kit.api.client_world import World

ROWS = [("a", "1", "2"), ("b", "3", "4")]
UNKNOWN = "20260101000000000001"
PATHS = ("table", "display", "download")


@pytest.fixture
def task(world: World) -> dict[str, str]:
    """A task with an output of one table, and one of two."""
    job_id = world.add_job()
    world.add_task(job_id, f_status="success", f_party_status="success", f_end_time=1, f_reason="done")
    for data_name, table in (("train", "numbers"), ("parts.0", "first"), ("parts.1", "second")):
        world.add_output(job_id, world.add_table("it", table, ROWS), data_name=data_name)
    return {"job_id": job_id, "role": "guest", "party_id": "9999", "task_name": "toy_0"}


def asked(world: World, path: str, task: dict[str, str], /, **more: str) -> TestResponse:
    return world.client.get(f"/v2/output/data/{path}", query_string={**task, **more})


def files_of(response: TestResponse) -> dict[str, str]:
    assert response.mimetype == "application/gzip", response.data
    with tarfile.open(fileobj=io.BytesIO(response.data), mode="r:gz") as tar:
        return {one.name: tar.extractfile(one).read().decode() for one in tar}      # type: ignore[union-attr]


def test_tables_are_listed_by_key_and_without_an_envelope(world: World, task: dict[str, str]) -> None:
    assert asked(world, "table", task).json == {
        "train": [{"namespace": "it", "name": "numbers"}],
        "parts": [{"namespace": "it", "name": "first"}, {"namespace": "it", "name": "second"}],
    }  # fmt: skip


def test_rows_are_shown_by_key_and_without_an_envelope(world: World, task: dict[str, str]) -> None:
    found = asked(world, "display", task).json
    assert {key: len(tables) for key, tables in found.items()} == {"train": 1, "parts": 2}
    for shown in (*found["train"], *found["parts"]):
        assert (shown["data"], shown["total"]) == ([list(one) for one in ROWS], 2)
        assert shown["metadata"]["header"] == "id,x,y"


def test_tables_are_downloaded_in_a_folder_for_each_key(world: World, task: dict[str, str]) -> None:
    response = asked(world, "download", task, path="/somewhere")
    name = f"{task['job_id']}_guest_9999_toy_0"
    assert response.headers["Content-Disposition"] == f"attachment; filename={name}"
    files = files_of(response)
    assert set(files) == {
        f"{key}.{end}" for key in ("train/0", "parts/0", "parts/1") for end in ("csv", "meta")
    }  # fmt: skip
    assert files["train/0.csv"] == "id,x,y\na,1,2\nb,3,4\n"
    assert json.loads(files["train/0.meta"]) == {"header": ["id", "x", "y"]}
    assert set(files_of(asked(world, "download", task, output_key="train"))) == {"train/0.csv", "train/0.meta"}


def test_what_is_not_there_cannot_be_downloaded(world: World, task: dict[str, str]) -> None:
    found = asked(world, "download", task, output_key="magic").json
    assert found == {"code": 7001, "message": "No found table: output_key[magic]"}
    world.ask("table/delete", {"namespace": "it", "table_name": "numbers"})
    found = asked(world, "download", task).json
    assert found == {"code": 7001, "message": "No found table: name[numbers],namespace[it]"}
    assert asked(world, "display", task).json["train"] == []


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("other", [{"job_id": UNKNOWN}, {"role": "host", "party_id": "10000"}, {"task_name": "x"}])
def test_of_an_unknown_task_the_client_is_told_so(
    world: World, task: dict[str, str], path: str, other: dict[str, str]
) -> None:  # fmt: skip
    wanted = {**task, **other}
    text = ",".join(f"{key}[{wanted[key]}]" for key in ("job_id", "role", "party_id", "task_name"))
    assert asked(world, path, wanted).json == {"code": 2000, "message": f"No found task: {text}"}


def test_arguments_that_are_missing_are_named(world: World) -> None:
    found: Any = world.client.get("/v2/output/data/table").json
    assert found["data"] == {"querystring": {"job_id": ["Missing data for required field."]}}


def test_a_field_that_fate_has_quoted_is_quoted_once(world: World, task: dict[str, str]) -> None:
    """Its pipeline takes the last but one column of predictions without the rules of CSV."""
    detail = """"{'0': 0.25, '1': 0.75}\""""
    world.add_output(task["job_id"], world.add_table("it", "scores", [("a", 'x,"y"', detail)]), data_name="scores")
    files = files_of(asked(world, "download", task, output_key="scores"))
    assert files["scores/0.csv"] == 'id,x,y\na,"x,""y""",' + f"{detail}\n"
