"""The DAG that clients of FATE 2 see of a job in FATE v1's form means the same job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.modules import ModuleInfo
from fate_flow.core.model.spec import JobParameters, JobSpec
from fate_flow.jobspec.fate_v2.reader import FATE_V2
from fate_flow.jobspec.fate_v2.shown import dag_of_fate_v1, shown_dag
from fate_flow.jobspec.formats import parse
from tests.kit.jobspec.fate_v2_documents import GUEST, a_training, fate_table, output

DEFAULTS = JobParameters(task_cores=4, timeout_seconds=3600)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, ModuleInfo]:
    return fate_table(tmp_path_factory.mktemp("providers")).components


def a_job() -> dict[str, Any]:
    """A job with what both forms can say: stored models and data, parameters of one party, limits."""
    body = a_training()
    tasks = body["dag"]["tasks"]
    body["dag"]["conf"] |= {"priority": 3, "auto_retries": 2, "model_id": "churn"}
    tasks["psi_0"] |= {"conf": {"timeout": 60}, "dependent_tasks": [], "inputs": {"data": {"input_data": {
        "data_warehouse": {"namespace": "a", "name": "b"},
    }}}}  # fmt: skip
    del tasks["reader_0"], body["dag"]["party_tasks"]["guest_9999"]["tasks"]["reader_0"], tasks["evaluation_0"]
    body["dag"]["party_tasks"] = {"own": {"parties": [GUEST], "tasks": {"psi_0": {"parameters": {"protocol": "ecdh"}}}}}
    tasks["lr_0"] |= {"stage": "predict", "inputs": {
        "data": {"test_data": {"task_output_artifact": [output("psi_0")]}},
        "model": {"input_model": {"model_warehouse": [
            {**output("lr_0", "output_model"), "model_id": "old", "model_version": "1"},
        ]}},
    }}  # fmt: skip
    return body


def parsed(body: Mapping[str, Any], modules: Mapping[str, ModuleInfo]) -> JobSpec:
    return parse(JobDocument(FATE_V2, body), modules=modules, defaults=DEFAULTS)


def test_a_job_of_another_format_is_shown_as_a_dag_that_means_it(modules: Mapping[str, ModuleInfo]) -> None:
    spec = parsed(a_job(), modules)
    shown = dag_of_fate_v1(spec.dsl, spec.conf)
    again = parsed(shown, modules)
    for name, task in spec.tasks.items():
        other = again.tasks[name]
        assert (other.module, other.stage, other.inputs, other.stored) == (
            task.module, task.stage, task.inputs, task.stored
        )  # fmt: skip
        assert (other.parameters, other.timeout_seconds) == (task.parameters, task.timeout_seconds)
    assert (again.parties, again.initiator, again.priority) == (spec.parties, spec.initiator, 3)


def test_a_dag_is_shown_with_everything_that_it_leaves_open() -> None:
    body = a_training()
    shown = shown_dag(body, {"auto_retries": 0, "task_cores": 4, "computing_partitions": 4, "model_id": "1"})
    conf = shown["dag"]["conf"]
    assert (conf["auto_retries"], conf["cores"], conf["model_id"], conf["extra"]) == (0, 4, "1", None)
    assert conf["task"] == {
        "engine_run": None, "launcher_name": "default", "provider": "fate:2.2.0@local", "timeout": None,
    }  # fmt: skip
    assert shown["dag"]["tasks"]["lr_0"]["outputs"] is None
    assert shown["dag"]["party_tasks"] == body["dag"]["party_tasks"]
