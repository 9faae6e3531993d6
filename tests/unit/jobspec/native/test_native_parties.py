"""Where a task of a job file runs, and which party reads which source of an input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.spec import JobParameters, JobSpec, ModelReference, Party, Source
from fate_flow.jobspec.formats import NATIVE, parse, parse_or_problems
from tests.kit.components.tiny_provider import THREE

GUEST, HOST, OTHER = Party("guest", "9001"), Party("host", "9002"), Party("host", "9004")
STORED = {"id": "churn", "version": 2, "task": "train", "output": "output_model"}
MODEL = ModelReference("churn", 2, "train", "output_model")


def a_job(inputs: Mapping[str, Any], **of_task: Any) -> dict[str, Any]:
    """Two tasks make rows, and a third one reads them."""
    read = {
        "component": "Reader", "outputs": {"data": ["rows"]},
        "parameters": {"table": {"namespace": "demo", "name": "people"}},
    }  # fmt: skip
    given = {"test_data": "mine.rows", "input_model": {"model": STORED}, **inputs}
    score = {"component": "Fit", "stage": "predict", "inputs": given, **of_task}
    return {
        "version": 1, "initiator": "guest 9001", "parties": {"guest": [9001], "host": [9002, 9004]},
        "tasks": {"mine": {**read, "parties": ["guest", "host 9002"]}, "theirs": {**read, "parties": ["host"]},
                  "score": score},
    }  # fmt: skip


def spec_of(document: dict[str, Any]) -> JobSpec:
    return parse(JobDocument(NATIVE, document), modules=THREE.components, defaults=JobParameters(), strict=True)


def problems_of(document: dict[str, Any]) -> list[str]:
    given = JobDocument(NATIVE, document)
    return parse_or_problems(given, modules=THREE.components, defaults=JobParameters(), strict=True)[1]


def by(*sources: tuple[str, list[str]]) -> list[dict[str, Any]]:
    return [{"from": source, "parties": places} for source, places in sources]


def test_a_task_runs_where_it_says() -> None:
    spec = spec_of(a_job({"test_data": by(("mine.rows", ["guest"]), ("theirs.rows", ["host"]))}))
    assert {name: one.parties for name, one in spec.tasks.items()} == {
        "mine": (GUEST, HOST), "theirs": (HOST, OTHER), "score": (GUEST, HOST, OTHER)}


def test_parties_read_sources_of_their_own() -> None:
    spec = spec_of(a_job({"test_data": by(("mine.rows", ["guest", "host 9002"]), ("theirs.rows", ["host 9004"]))}))
    found = [(one.sources, one.parties) for one in spec.tasks["score"].inputs if one.key == "test_data"]
    assert found == [((Source("mine", "rows"),), {GUEST, HOST}), ((Source("theirs", "rows"),), {OTHER})]


def test_one_source_for_some_and_a_stored_model_for_some() -> None:
    spec = spec_of(a_job({
        "test_data": {"from": "theirs.rows", "parties": ["host"]},
        "input_model": [{"model": STORED, "parties": ["host"]}],
    }, parties=["host"]))  # fmt: skip
    assert {(one.key, one.sources, one.models, one.parties) for one in spec.tasks["score"].inputs} == {
        ("test_data", (Source("theirs", "rows"),), (), frozenset({HOST, OTHER})),
        ("input_model", (), (MODEL,), frozenset({HOST, OTHER}))}


@pytest.mark.parametrize(("inputs", "of_task", "problem"), [
    ({}, {"parties": ["host 7"]},
     "tasks.score.parties: 'host 7' is no party that the component can have: guest 9001, host 9002, host 9004"),
    ({}, {"parties": []}, "tasks.score.parties: is empty"),
    ({}, {"parties": ["nobody"]}, "tasks.score.parties[0]: 'nobody' is not a role or a party, such as host"),
    ({"test_data": [*by(("mine.rows", ["guest"])), "theirs.rows"]}, {},
     "tasks.score.inputs.test_data[1]: is for all parties; another source of this input names those that read it"),
    ({"input_model": None, "model": [{"model": STORED, "parties": ["guest"]}]}, {},
     "tasks.score.inputs.model[0].parties: is not known; known here: model"),
    ({"test_data": {"from": "mine.rows"}}, {}, "tasks.score.inputs.test_data.parties: is missing"),
    ({"test_data": {"parties": ["guest"]}}, {},
     "tasks.score.inputs.test_data: names no source; write one of from and model"),
    ({"input_model": {"model": STORED, "from": "mine.rows", "parties": ["guest"]}}, {},
     "tasks.score.inputs.input_model: names from and model; write one of from and model"),
    ({"test_data": by(("mine.row", ["guest"]), ("theirs.rows", ["host"]))}, {},
     "tasks.score.inputs.test_data[0].from: "),
    ({"test_data": by(("mine.rows", ["guest"]), ("theirs.rows", ["host 7"]))}, {},
     "'host 7' is no party that the component can have: guest 9001, host 9002, host 9004"),
    ({"test_data": {"table": {"namespace": "n", "name": "t"}, "parties": ["guest"]}}, {},
     "tasks.score.inputs.test_data.parties: is for outputs of tasks and stored models; below at,"),
])  # fmt: skip
def test_what_is_wrong_is_named_by_its_path(inputs: dict[str, Any], of_task: dict[str, Any], problem: str) -> None:
    found = problems_of(a_job(inputs, **of_task))
    assert [one for one in found if problem in one], found
