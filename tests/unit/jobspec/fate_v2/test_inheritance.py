"""`dag.conf.inheritance`: tasks that do not run, because another job has made what others read of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.modules import ModuleInfo
from fate_flow.core.model.spec import (
    InheritedModels,
    JobParameters,
    JobSpec,
    ModelReference,
    NamedOutput,
    Party,
    Source,
)
from fate_flow.jobspec.fate_v2.inheritance import asked_for, with_models
from fate_flow.jobspec.fate_v2.reader import FATE_V2
from fate_flow.jobspec.formats import parse, parse_or_problems
from tests.kit.jobspec.fate_v2_documents import GUEST, HOST, a_training, channels, fate_table, output

ANNA, BOB, CARL = Party("guest", "9999"), Party("host", "10000"), Party("arbiter", "10001")
DEFAULTS = JobParameters(task_cores=4, timeout_seconds=3600)
JOB = "202611220728176148780"
PLACE = "dag.conf.inheritance"


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, ModuleInfo]:
    return fate_table(tmp_path_factory.mktemp("providers")).components


def inheriting(*names: str, **more: Any) -> dict[str, Any]:
    body = a_training()
    body["dag"]["conf"]["inheritance"] = {"job_id": JOB, "task_list": list(names), **more}
    return body


def parsed(body: Mapping[str, Any], modules: Mapping[str, ModuleInfo]) -> JobSpec:
    return parse(JobDocument(FATE_V2, body), modules=modules, defaults=DEFAULTS)


def problems(body: Mapping[str, Any], modules: Mapping[str, ModuleInfo]) -> list[str]:
    return parse_or_problems(JobDocument(FATE_V2, body), modules=modules, defaults=DEFAULTS)[1]


def test_data_of_inherited_tasks_is_read_from_the_other_job(modules: Mapping[str, ModuleInfo]) -> None:
    spec = parsed(inheriting("reader_0", "psi_0"), modules)
    assert {*spec.tasks} == {"lr_0", "evaluation_0"}
    lr, made = spec.tasks["lr_0"], NamedOutput(JOB, "psi_0", "output_data")
    assert (lr.inputs, lr.upstream) == ((), frozenset())
    assert lr.stored == {ANNA: {"train_data": (made,)}, BOB: {"train_data": (made,)}}
    assert spec.tasks["evaluation_0"].inputs[0].sources == (Source("lr_0", "train_output_data"),)
    assert spec.warnings == ()


def test_a_channel_without_parties_is_read_where_the_inherited_task_ran(modules: Mapping[str, ModuleInfo]) -> None:
    body = inheriting("reader_0", "psi_0")
    body["dag"]["tasks"]["lr_0"]["inputs"]["data"]["train_data"] = channels(output("psi_0"))
    assert parsed(body, modules).tasks["lr_0"].stored.keys() == {ANNA, BOB}


def a_prediction(*names: str, **more: Any) -> dict[str, Any]:
    """Train, and predict in the same job."""
    body = inheriting(*names, **more)
    body["dag"]["tasks"]["lr_1"] = {
        "component_ref": "coordinated_lr", "stage": "predict", "dependent_tasks": ["psi_0", "lr_0"],
        "inputs": {"data": {"test_data": channels(output("psi_0", "output_data", GUEST, HOST))},
                   "model": {"input_model": channels(output("lr_0", "output_model", GUEST, HOST))}},
    }  # fmt: skip
    return body


@pytest.mark.parametrize(("more", "model"), [
    ({}, (JOB, 0)), ({"model_id": "churn", "model_version": "3"}, ("churn", 3)),
])  # fmt: skip
def test_models_of_inherited_tasks_are_those_of_the_store(
    more: dict[str, str], model: tuple[str, int], modules: Mapping[str, ModuleInfo]
) -> None:
    task = parsed(a_prediction("lr_0", **more), modules).tasks["lr_1"]
    [found] = [one for one in task.inputs if one.kind == "model"]
    assert (found.sources, found.models) == ((), (ModelReference(*model, "lr_0", "output_model"),))
    assert [task.models_at(party) != () for party in (ANNA, BOB, CARL)] == [True, True, False]
    assert task.upstream == {"psi_0"}, "psi_0 runs"


def test_parameters_of_inherited_tasks_have_no_effect(modules: Mapping[str, ModuleInfo]) -> None:
    spec = parsed(inheriting("reader_0"), modules)
    assert "reader_0" not in spec.tasks
    assert spec.tasks["psi_0"].stored[BOB] == {"input_data": (NamedOutput(JOB, "reader_0", "output_data"),)}


@pytest.mark.parametrize(("asked", "problem"), [
    ({"job_id": JOB, "task_list": ["reader_9"]}, f"{PLACE}.task_list[0]: is not known; did you mean reader_0"),
    ({"job_id": JOB, "task_list": ["reader_0", "psi_0", "lr_0", "evaluation_0"]},
     f"{PLACE}.task_list: names all tasks of the DAG: nothing is left to run"),
    ({"job_id": JOB, "task_list": "reader_0"}, f"{PLACE}.task_list: 'reader_0' is not a list"),
    ({"task_list": ["reader_0"]}, f"{PLACE}.job_id: is missing"),
    ({"job_id": JOB}, f"{PLACE}.task_list: is missing"),
    ({"job_id": "../x", "task_list": ["reader_0"]}, f"{PLACE}.job_id: '../x' is not"),
    ([JOB], f"{PLACE}: "),
])  # fmt: skip
def test_what_is_wrong_is_named_by_its_path(
    asked: object, problem: str, modules: Mapping[str, ModuleInfo]
) -> None:
    body = a_training()
    body["dag"]["conf"]["inheritance"] = asked
    found = problems(body, modules)
    assert any(one.startswith(problem) for one in found), found


def test_an_input_of_data_reads_no_inherited_task_beside_others(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_prediction("lr_0")
    body["dag"]["tasks"]["evaluation_0"]["inputs"]["data"]["input_datas"] = channels(
        output("lr_0", "train_output_data", GUEST), output("lr_1", "test_output_data", GUEST)
    )
    assert problems(body, modules) == [
        "dag.tasks.evaluation_0.inputs.data.input_datas.task_output_artifact: reads lr_0, which is inherited, and "
        "lr_1, which is not: an input of data reads one kind of task alone"
    ]


def test_the_submitting_server_names_the_models(modules: Mapping[str, ModuleInfo]) -> None:
    body = inheriting("psi_0")
    assert asked_for(body) == (JOB, ("psi_0",))
    named = with_models(body, "churn", 4)
    assert parsed(named, modules).inherited == InheritedModels("churn", 4, frozenset({"psi_0"}))
    assert named["dag"]["conf"]["inheritance"] == {
        "job_id": JOB, "task_list": ["psi_0"], "model_id": "churn", "model_version": "4",
    }  # fmt: skip
    assert body == inheriting("psi_0")


@pytest.mark.parametrize("asked", [None, {}, {"job_id": JOB}, {"job_id": 7, "task_list": ["a"]},
                                   {"job_id": JOB, "task_list": []}, {"job_id": JOB, "task_list": [1]}])
def test_another_form_is_left_to_the_reader(asked: object, modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    body["dag"]["conf"]["inheritance"] = asked
    assert asked_for(body) is None
    spec, _ = parse_or_problems(JobDocument(FATE_V2, body), modules=modules, defaults=DEFAULTS)
    assert spec is None or spec.inherited is None
