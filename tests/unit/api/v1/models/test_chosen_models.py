"""Job files that name a stored model by a deployment, or as the newest one: the server that takes them chooses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fate_flow.core.model.status import JobStatus
from fate_flow.store.values import Deployment
from tests.kit.api.client_world import START, World, make_world
from tests.kit.api.models import add_model
from tests.kit.components.tiny_provider import THREE

MADE = "20260101120000777777"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path, modules=THREE.components)
    world.add_table("it", "others", [("a", "1", "2")])
    yield world
    world.store.close()


def reading(*models: Mapping[str, Any] | str, section: bool = False) -> dict[str, Any]:
    """A job file with a task for each of these models."""
    tasks: dict[str, Any] = {
        "read": {
            "component": "Reader", "outputs": {"data": ["rows"]},
            "parameters": {"table": {"namespace": "it", "name": "others"}},
        },
    }  # fmt: skip
    for number, model in enumerate(models):
        given = {"input_model": {"model": model}}
        inputs = {"test_data": "read.rows", **({"model": given} if section else given)}
        tasks[f"score{number}"] = {"component": "Fit", "stage": "predict", "inputs": inputs}
    return {"version": 1, "initiator": "guest 9999", "parties": {"guest": [9999]}, "tasks": tasks}


def a_model(task: str = "fit_0", **named: Any) -> dict[str, Any]:
    return {**named, "task": task, "output": "model"}


def sent(world: World, file: dict[str, Any], path: str = "job/submit") -> dict[str, Any]:
    return world.ask(path, {"job_file": yaml.safe_dump(file)})


def read_by(world: World, said: dict[str, Any]) -> list[tuple[str, int]]:
    """Id and version of the models that the job has."""
    assert said["retcode"] == 0, said
    [row] = world.ask("job/query", {"job_id": said["jobId"]})["data"]
    found = [one["input"]["model"]["input_model"][0]["model"] for name, one in row["f_dsl"]["components"].items()
             if name != "read"]  # fmt: skip
    return [(one["id"], one["version"]) for one in found]


def is_deployed(world: World, name: str, version: int, *parts: str, model_id: str = MADE) -> None:
    components = {f"task{number}": {"module": "Fit", "input": {"model": [f"pipeline.{part}"]}}
                  for number, part in enumerate(parts)}  # fmt: skip
    document = {"dsl": {"components": components}, "component_parameters": {}, "role": {}}
    with world.store.transaction() as tx:
        tx.save_deployment(Deployment(name, model_id, version, document, START + version))


@pytest.mark.parametrize("section", [False, True])
def test_the_newest_version_is_chosen_and_noted(world: World, section: bool) -> None:
    for version in (0, 3):
        add_model(world, MADE, version)
    assert sent(world, reading(a_model(id=MADE, version="latest"), section=section), "job/validate")["retcode"] == 0
    said = sent(world, reading(a_model(id=MADE, version="latest"), section=section))
    assert read_by(world, said) == [(MADE, 3)]
    noted = [one["message"] for one in world.ask("job/history", {"job_id": said["jobId"]})["data"]["moves"]
             if (one["level"], one["new"]) == ("model", "chosen")]  # fmt: skip
    place = "tasks.score0.inputs.model.input_model" if section else "tasks.score0.inputs.input_model"
    assert noted == [f"{place}: latest is fit_0.model of model {MADE} version 3"]


def test_all_that_is_named_of_a_model_is_of_one_version(world: World) -> None:
    """A rerun that fails half way leaves a version with some of the models."""
    for version, task in ((0, "fit_0"), (0, "scale_0"), (1, "fit_0"), (1, "scale_0"), (2, "scale_0")):
        add_model(world, MADE, version, task)
    both = [a_model(task, id=MADE, version="latest") for task in ("fit_0", "scale_0")]
    assert read_by(world, sent(world, reading(*both))) == [(MADE, 1), (MADE, 1)]
    assert read_by(world, sent(world, reading(both[1]))) == [(MADE, 2)]


def test_a_deployment_stands_for_id_and_version(world: World) -> None:
    for version in (0, 1, 2):
        add_model(world, MADE, version)
    is_deployed(world, "20260101120000000000001", 0, "fit_0.model")
    is_deployed(world, "20260101120000000000002", 1, "fit_0.model")
    by_name = a_model(deployment="20260101120000000000001")
    assert read_by(world, sent(world, reading(by_name))) == [(MADE, 0)]
    by_number = a_model(deployment=20260101120000000000001)          # YAML without quotes
    assert read_by(world, sent(world, reading(by_number))) == [(MADE, 0)]
    assert read_by(world, sent(world, reading(a_model(id=MADE, version="deployed")))) == [(MADE, 1)]


@pytest.mark.parametrize(("named", "problem"), [
    (a_model(id="nobody", version="latest"), "id: 'nobody' is not in the store of this party"),
    (a_model(id=MADE, version="deployed"), f"version: no version of model '{MADE}' is deployed here"),
    (a_model(deployment="123"), "deployment: '123' is not a deployed model here (flow model list;"),
    (a_model(deployment="named", version=0), "version: is given beside deployment"),
    (a_model(deployment="named", id=MADE), "id: is given beside deployment"),
    (a_model("other", deployment="named"), "task: other.model is not in deployment named, which has fit_0.model"),
    (a_model(id=MADE, version="newest"), "version: 'newest' is not a whole number, latest or deployed"),
    (a_model(id=MADE), "version: is missing"),
])  # fmt: skip
def test_what_cannot_be_chosen_is_named_with_its_line(world: World, named: dict[str, Any], problem: str) -> None:
    add_model(world, MADE)
    is_deployed(world, "named", 0, "fit_0.model", model_id="other")
    for path in ("job/submit", "job/validate"):
        said = sent(world, reading(named), path)
        assert f"tasks.score0.inputs.input_model.model.{problem}" in said["retmsg"], said
        assert "(line " in said["retmsg"]
    assert world.ask("job/list/job", {})["data"]["count"] == 0


def test_parts_that_no_version_has_together_are_named(world: World) -> None:
    add_model(world, MADE, 0, "fit_0")
    add_model(world, MADE, 1, "scale_0")
    both = [a_model(task, id=MADE, version="latest") for task in ("fit_0", "scale_0")]
    said = sent(world, reading(*both))
    assert f"version: no version of model {MADE} here has all of fit_0.model, scale_0.model" in said["retmsg"]
    assert len(said["data"]["problems"]) == 2


def test_a_party_that_is_sent_a_file_without_versions_does_not_choose(world: World) -> None:
    """Only the server that takes a file chooses: in FATE's documents, which may be another server's, nothing is."""
    add_model(world, MADE)
    named = {"model": a_model(id=MADE, version="latest")}
    dsl = {"components": {"score": {"module": "Fit", "input": {"model": {"input_model": [named]}}}}}
    conf = {"dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999}, "role": {"guest": [9999]},
            "job_parameters": {"common": {"task_conf": {"score": {"stage": "predict"}}}}}  # fmt: skip
    said = world.ask("job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    assert "model.version: 'latest' is not a whole number" in said["retmsg"], said


def test_a_model_that_was_chosen_stays_while_its_job_is_not_over(world: World) -> None:
    add_model(world, MADE)
    said = sent(world, reading(a_model(id=MADE, version="latest")))
    add_model(world, MADE, 1)
    assert read_by(world, said) == [(MADE, 0)]
    [row] = world.ask("job/query", {"job_id": said["jobId"]})["data"]
    assert row["f_status"] == JobStatus.WAITING.value
    refused = world.ask("model/delete", {"model_id": MADE, "model_version": "0"})
    assert f"is read by job {said['jobId']}, which is not over" in refused["retmsg"]
