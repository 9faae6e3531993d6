"""Models of earlier jobs as inputs, and the name of the models that a job makes, in the document alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.spec import Input, JobParameters, JobSpec, ModelReference, Party
from fate_flow.core.planning.plain_v1 import objection
from fate_flow.jobspec.formats import NATIVE, parse, parse_or_problems
from tests.kit.components.tiny_provider import THREE
from tests.kit.jobspec.parsing import parse as parse_documents

GUEST, HOST, ARBITER = Party("guest", "9001"), Party("host", "9002"), Party("arbiter", "9003")
STORED = {"model": {"id": "20261123154500123456", "version": 2, "task": "train", "output": "output_model"}}
REFERENCE = ModelReference("20261123154500123456", 2, "train", "output_model")


def a_job(inputs: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    table = {"table": {"namespace": "demo", "name": "people"}}
    tasks = {
        "read": {"component": "Reader", "outputs": {"data": ["rows"]}, "parameters": table},
        "score": {"component": "Fit", "stage": "predict", "inputs": {"test_data": "read.rows", **inputs}},
    }
    parties = {"guest": [9001], "host": [9002], "arbiter": [9003]}
    return {"version": 1, "initiator": "guest 9001", "parties": parties, "tasks": tasks, **more}


def spec_of(document: dict[str, Any]) -> JobSpec:
    return parse(JobDocument(NATIVE, document), modules=THREE.components, defaults=JobParameters(), strict=True)


def problems_of(document: dict[str, Any]) -> list[str]:
    given = JobDocument(NATIVE, document)
    return parse_or_problems(given, modules=THREE.components, defaults=JobParameters(), strict=True)[1]


@pytest.mark.parametrize("inputs", [
    {"input_model": STORED}, {"input_model": [STORED]}, {"model": {"input_model": STORED}}, {"model": [STORED]},
])  # fmt: skip
def test_a_model_of_the_store_is_an_input(inputs: Mapping[str, Any]) -> None:
    task = spec_of(a_job(inputs)).tasks["score"]
    assert [one for one in task.inputs if one.kind == "model"] == [
        Input("model", "input_model", (), frozenset({GUEST, HOST}), (REFERENCE,))
    ]
    assert (task.models_at(GUEST), task.models_at(ARBITER)) == ((REFERENCE,), ())
    assert task.upstream == {"read"}      # it waits for no other task
    assert str(REFERENCE) == "train.output_model of model 20261123154500123456 version 2"


def test_the_documents_of_fate_name_it_in_the_same_way() -> None:
    spec = spec_of(a_job({"input_model": STORED}))
    assert spec.dsl["components"]["score"]["input"]["model"] == {"input_model": [STORED]}
    again = parse_documents(spec.dsl, spec.conf, modules=THREE.components, defaults=JobParameters(), strict=True)
    assert again.tasks == spec.tasks


def test_a_party_of_plain_v1_has_no_such_models() -> None:
    spec = spec_of(a_job({"input_model": STORED}))
    unstaged = parse_documents(
        {"components": {**spec.dsl["components"]}}, spec.conf, modules=THREE.components, defaults=JobParameters()
    )
    assert "stage predict" in objection(unstaged, HOST, THREE.components)


@pytest.mark.parametrize(("given", "problem"), [
    ({"model": {**STORED["model"], "id": "../x"}},
     "tasks.score.inputs.input_model.model.id: '../x' is not the id of a model (1 to 100 letters, digits, _ . # and -, "
     "a letter, digit or _ first)"),
    ({"model": {**STORED["model"], "version": -1}}, "tasks.score.inputs.input_model.model.version: -1 is less than 0"),
    ({"model": {"id": "m", "version": 0, "task": "train"}},
     "tasks.score.inputs.input_model.model.output: is missing"),
    ({}, "tasks.score.inputs.input_model: is empty"),
    ({**STORED, "task": "train"},
     "tasks.score.inputs.input_model.task: is not known; known here: model, table, output, from, parties"),
    ([STORED, STORED], "tasks.score.inputs.input_model: names 2 outputs; Fit takes one"),
    ("pipeline.train.output_model",
     "tasks.score.inputs.input_model: 'pipeline.train.output_model' is not <task>.<output>"),
])  # fmt: skip
def test_a_wrong_model_is_named_by_its_key(given: object, problem: str) -> None:
    assert problems_of(a_job({"input_model": given})) == [problem]


def test_only_an_input_for_models_takes_one() -> None:
    found = problems_of(a_job({"input_model": STORED, "test_data": STORED}))
    assert found == ["tasks.score.inputs.test_data: an object is not <component>.<output>"]


def test_a_job_may_name_the_models_that_it_makes() -> None:
    assert spec_of(a_job({"input_model": STORED})).model_id == ""
    spec = spec_of(a_job({"input_model": STORED}, model={"id": "churn", "version": 3}))
    assert (spec.model_id, spec.model_version) == ("churn", 3)
    assert spec.conf["job_parameters"]["common"]["model"] == {"id": "churn", "version": 3}
    assert spec_of(a_job({"input_model": STORED}, model={"id": "churn"})).model_version == 0
    (wrong,) = problems_of(a_job({"input_model": STORED}, model={"id": ".x"}))
    assert wrong.startswith("model.id: '.x' is not the id of a model")
