"""The DAG of FATE 2 as a job: what it means here, and what is refused by its path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.modules import ModuleInfo
from fate_flow.core.model.spec import (
    Input,
    JobParameters,
    JobSpec,
    ModelReference,
    NamedOutput,
    NamedTable,
    OwnResources,
    Party,
    Source,
)
from fate_flow.jobspec.fate_v2.reader import FATE_V2
from fate_flow.jobspec.formats import (
    as_given_to,
    digest_of,
    parse,
    parse_or_problems,
    with_disclosure,
    withheld_from,
)
from tests.kit.jobspec.fate_v2_documents import GUEST, HOST, a_training, channels, fate_table, output

ANNA, BOB, CARL = Party("guest", "9999"), Party("host", "10000"), Party("arbiter", "10001")
DEFAULTS = JobParameters(task_cores=4, timeout_seconds=3600)
Dag = dict[str, Any]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, ModuleInfo]:
    return fate_table(tmp_path_factory.mktemp("providers")).components


def parsed(body: Mapping[str, Any], modules: Mapping[str, ModuleInfo]) -> JobSpec:
    return parse(JobDocument(FATE_V2, body), modules=modules, defaults=DEFAULTS)


def problems(body: Mapping[str, Any], modules: Mapping[str, ModuleInfo]) -> list[str]:
    return parse_or_problems(JobDocument(FATE_V2, body), modules=modules, defaults=DEFAULTS)[1]


def test_the_job_of_a_client_is_read_as_it_is(modules: Mapping[str, ModuleInfo]) -> None:
    spec = parsed(a_training(), modules)
    assert spec.initiator == ANNA
    assert spec.parties == (ANNA, BOB, CARL)
    assert {name: (one.module, one.stage, one.parties) for name, one in spec.tasks.items()} == {
        "reader_0": ("fate.reader", "default", (ANNA, BOB)),
        "psi_0": ("fate.psi", "default", (ANNA, BOB)),
        "lr_0": ("fate.coordinated_lr", "train", (ANNA, BOB, CARL)),
        "evaluation_0": ("fate.evaluation", "default", (ANNA,)),
    }
    assert spec.tasks["lr_0"].inputs == (
        Input("data", "train_data", (Source("psi_0", "output_data"),), frozenset({ANNA, BOB})),
    )
    assert spec.tasks["evaluation_0"].inputs == (
        Input("data", "input_datas", (Source("lr_0", "train_output_data"),), frozenset({ANNA})),
    )
    assert spec.tasks["reader_0"].parameters == {
        ANNA: {"namespace": "experiment", "name": "breast_hetero_guest"},
        BOB: {"namespace": "experiment", "name": "breast_hetero_host"},
    }
    assert spec.tasks["lr_0"].parameters[CARL] == {"epochs": "10", "tol": None}
    assert spec.warnings == ()


def test_the_conf_of_the_job(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    body["dag"]["conf"] |= {
        "priority": 3, "cores": 8, "computing_partitions": 16, "auto_retries": 2, "sync_type": "poll",
        "task": {"provider": "fate:2.2.0@local", "timeout": 60, "engine_run": {"cores": 2}},
    }  # fmt: skip
    own = {"cores": 6, "memory": 100, "gpus": 1, "queue": "big"}
    body["dag"]["tasks"]["lr_0"]["conf"] = {"timeout": 90, "engine_run": own}
    spec = parsed(body, modules)
    assert spec.tasks["lr_0"].resources_at(BOB) == OwnResources(**own)
    assert spec.tasks["psi_0"].resources == {}
    common = spec.common
    assert (spec.priority, common.task_cores, common.task_parallelism) == (3, 2, 4)
    assert (common.computing_partitions, common.auto_retries) == (16, 2)
    assert {name: one.timeout_at(ANNA) for name, one in spec.tasks.items()} == {
        "reader_0": 60, "psi_0": 60, "lr_0": 90, "evaluation_0": 60,
    }  # fmt: skip


def test_the_order_is_that_of_dependent_tasks_and_of_inputs(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    del body["dag"]["tasks"]["psi_0"]["dependent_tasks"]
    body["dag"]["tasks"]["evaluation_0"]["dependent_tasks"] = ["psi_0"]
    tasks = parsed(body, modules).tasks
    assert tasks["psi_0"].upstream == {"reader_0"}
    assert tasks["evaluation_0"].upstream == {"psi_0", "lr_0"}


def test_each_party_reads_the_channels_that_are_its_own(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    tasks = body["dag"]["tasks"]
    tasks["reader_1"] = {**tasks["reader_0"], "parties": [HOST]}
    tasks["psi_0"]["inputs"]["data"]["input_data"] = channels(
        output("reader_0", "output_data", GUEST), output("reader_1", "output_data", HOST)
    )
    found = parsed(body, modules).tasks["psi_0"].inputs
    assert [(one.sources, one.parties) for one in found] == [
        ((Source("reader_0", "output_data"),), {ANNA}), ((Source("reader_1", "output_data"),), {BOB}),
    ]  # fmt: skip
    tasks["psi_0"]["inputs"]["data"]["input_data"] = channels(output("reader_1"))
    assert problems(body, modules) == [
        "dag.tasks.psi_0.inputs.data.input_data.task_output_artifact: is missing; fate.psi needs it in stage default "
        "at guest 9999: an output of kind dataframe or table, such as reader_0.output_data"
    ]


def test_an_input_from_the_warehouse_is_a_table_of_the_party_that_reads_it(
    modules: Mapping[str, ModuleInfo]
) -> None:
    body = a_training()
    of_job = {"job_id": "2026010112000000000001234", "producer_task": "p", "output_artifact_key": "o"}
    for stored in (
        {"namespace": "n", "name": "t"},
        [{"namespace": "n", "name": "t", "parties": [GUEST]}, {**of_job, "parties": [HOST]}],
    ):
        body["dag"]["tasks"]["psi_0"] |= {"inputs": {"data": {"input_data": {"data_warehouse": stored}}}}
        psi = parsed(body, modules).tasks["psi_0"]
        of_host = NamedTable("n", "t") if isinstance(stored, dict) else NamedOutput(of_job["job_id"], "p", "o")
        assert psi.stored == {ANNA: {"input_data": (NamedTable("n", "t"),)}, BOB: {"input_data": (of_host,)}}
        assert psi.inputs == ()
    for wrong, why in (
        ({"name": "t"}, ".data_warehouse: has name; it has namespace and name, or job_id, producer_task, "),
        ({"namespace": "n", "name": "t", "dataset_id": 1}, ".data_warehouse.dataset_id: is not offered; name the"),
        ({"namespace": "n", "name": 7}, "stored_inputs.input_data: table.name: 7 is not "),
        ([{"namespace": "n", "name": "t"}] * 2, ".data_warehouse: names 2 tables; fate.psi takes one"),
    ):
        body["dag"]["tasks"]["psi_0"] |= {"inputs": {"data": {"input_data": {"data_warehouse": wrong}}}}
        assert any(why in one for one in problems(body, modules)), (why, problems(body, modules))


def test_a_task_without_a_stage_has_that_of_the_dag_if_its_component_has_it(
    modules: Mapping[str, ModuleInfo]
) -> None:
    body = a_training()
    del body["dag"]["tasks"]["psi_0"]["stage"]
    assert parsed(body, modules).tasks["psi_0"].stage == "default"


def test_own_components_are_reached_by_their_provider(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    body["dag"]["tasks"] = {
        "sum_0": {"component_ref": "secure_add_example", "conf": {"provider": "fate_flow"}, "parties": [GUEST, HOST]}
    }
    body["dag"]["party_tasks"] = {}
    assert parsed(body, modules).tasks["sum_0"].module == "SecureAddExample"


def test_the_parameters_of_one_party_are_its_own_and_bind_all(modules: Mapping[str, ModuleInfo]) -> None:
    whole = with_disclosure(JobDocument(FATE_V2, a_training()), (), lambda: "ab" * 32)
    given = as_given_to(whole, "10000")
    assert given.body["dag"]["party_tasks"]["guest_9999"] == {"parties": [GUEST]}
    assert given.body["dag"]["party_tasks"]["host_10000"] == a_training()["dag"]["party_tasks"]["host_10000"]
    assert withheld_from(given) == {ANNA}
    assert digest_of(given) == digest_of(whole)
    spec = parse(given, modules=modules, defaults=DEFAULTS)
    assert spec.tasks["reader_0"].parameters[ANNA] == {}
    assert spec.tasks["reader_0"].parameters[BOB]["name"] == "breast_hetero_host"


def test_counts_of_workers_are_known_to_all(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    body["dag"]["party_tasks"]["guest_9999"]["tasks"]["lr_0"] = {"parameters": {"replicas": 2}}
    given = as_given_to(with_disclosure(JobDocument(FATE_V2, body), (), lambda: "ab" * 32), "10000")
    assert given.body["dag"]["party_tasks"]["guest_9999"] == {
        "parties": [GUEST], "tasks": {"lr_0": {"parameters": {"replicas": 2}}},
    }  # fmt: skip


def a_prediction(**channel: Any) -> Dag:
    """The job that `pipeline` makes after `deploy`: the ids of the models stand in the conf of the job."""
    body = a_training()
    dag = body["dag"]
    dag["stage"] = "predict"
    dag["conf"]["model_warehouse"] = {"model_id": "202611220728176148780", "model_version": "0"}
    dag["tasks"]["lr_0"]["inputs"] = {
        "data": {"test_data": {"task_output_artifact": [output("psi_0", "output_data", GUEST, HOST)]}},
        "model": {"input_model": {"model_warehouse": {**output("lr_0", "output_model", GUEST, HOST), **channel}}},
    }  # fmt: skip
    evaluated = {"task_output_artifact": [output("lr_0", "test_output_data", GUEST)]}
    dag["tasks"]["evaluation_0"]["inputs"]["data"]["input_datas"] = evaluated
    return body


@pytest.mark.parametrize(("channel", "model"), [
    ({}, ModelReference("202611220728176148780", 0, "lr_0", "output_model")),
    ({"model_id": "churn", "model_version": 3}, ModelReference("churn", 3, "lr_0", "output_model")),
])  # fmt: skip
def test_a_prediction_reads_models_of_the_store(
    channel: dict[str, Any], model: ModelReference, modules: Mapping[str, ModuleInfo]
) -> None:
    task = parsed(a_prediction(**channel), modules).tasks["lr_0"]
    assert (task.stage, task.parties) == ("predict", (ANNA, BOB, CARL))
    [found] = [one for one in task.inputs if one.kind == "model"]
    assert (found.key, found.sources, found.models, found.parties) == ("input_model", (), (model,), {ANNA, BOB})
    assert [task.models_at(party) for party in (ANNA, BOB, CARL)] == [(model,), (model,), ()]


def test_data_that_is_there_already_is_read_by_its_parties(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    del body["dag"]["tasks"]["reader_0"], body["dag"]["party_tasks"]
    body["dag"]["tasks"]["psi_0"] |= {"dependent_tasks": [], "inputs": {"data": {"input_data": {"data_warehouse": [
        {"namespace": "experiment", "name": "guest", "parties": [GUEST]},
        {"job_id": "202611220728176148780", "producer_task": "psi_0", "output_artifact_key": "output_data",
         "parties": [HOST]},
    ]}}}}  # fmt: skip
    task = parsed(body, modules).tasks["psi_0"]
    assert task.inputs == ()
    assert task.stored == {
        ANNA: {"input_data": (NamedTable("experiment", "guest"),)},
        BOB: {"input_data": (NamedOutput("202611220728176148780", "psi_0", "output_data"),)},
    }
    assert task.parameters == {ANNA: {}, BOB: {}}


def test_a_table_for_all_parties(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    there = {"data_warehouse": {"namespace": "experiment", "name": "ours"}}
    body["dag"]["tasks"]["psi_0"]["inputs"]["data"]["input_data"] = there
    task = parsed(body, modules).tasks["psi_0"]
    assert [task.stored_at(party) for party in (ANNA, BOB)] == [(NamedTable("experiment", "ours"),)] * 2


def test_a_model_without_an_id_is_refused(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_prediction()
    del body["dag"]["conf"]["model_warehouse"]
    assert problems(body, modules) == [
        "dag.tasks.lr_0.inputs.model.input_model.model_warehouse.model_id: is missing, also in dag.conf.model_warehouse"
    ]


def test_the_job_names_the_models_that_it_makes(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    body["dag"]["conf"] |= {"model_id": "churn", "model_version": "2"}
    spec = parsed(body, modules)
    assert (spec.model_id, spec.model_version) == ("churn", 2)


# ---------------------------------------------------------------------- refused


def _set(*path: str, value: object) -> Callable[[Dag], None]:
    def change(body: Dag) -> None:
        inside: Any = body
        for key in path[:-1]:
            inside = inside.setdefault(key, {})
        inside[path[-1]] = value

    return change


_TASKS = ("dag", "tasks")


@pytest.mark.parametrize(("change", "problem"), [
    (_set("schema_version", value="1.0"), "schema_version: '1.0' is not offered"),
    (_set("kind", value="bfia"), "kind: 'bfia' is not offered; only fate is"),
    (_set("dag", "stage", value="trian"), "dag.stage: 'trian' is not one of default, train"),
    (_set("dag", "conf", "scheduler_party_id", value="10000"), "dag.conf.scheduler_party_id: '10000' is another party"),
    (_set("dag", "conf", "initiator_party_id", value="7"), "dag.conf.initiator_party_id: party '7' is no party of"),
    (_set("dag", "conf", "cores", value="many"), "dag.conf.cores: 'many' is not a whole number above 0"),
    (_set("dag", "conf", "priority", value=5000), "dag.conf.priority: 5000 is not a whole number from -1000"),
    (_set("dag", "conf", "task", "launcher_name", value="deepspeed"), "dag.conf.task.launcher_name: 'deepspeed'"),
    (_set("dag", "conf", "task", "engine_run", value={"nodes": 2}), "dag.conf.task.engine_run.nodes: is not known"),
    (_set("dag", "conf", "task", "provider", value="fate:2.1.0@local"), "dag.tasks.reader_0.component_ref: party 9999 "
     "has fate 2.2.0, not version '2.1.0'"),
    (_set("dag", "conf", "task", "provider", value="fate:2.2.0@docker"), "dag.conf.task.provider: 'fate:2.2.0@docker'"),
    (_set(*_TASKS, "psi_0", "conf", value={"engine_run": {"cores": 0}}), "dag.tasks.psi_0.conf.engine_run.cores: 0 is"),
    (_set(*_TASKS, "psi_0", "conf", value={"engine_run": {"nodes": 1}}), "dag.tasks.psi_0.conf.engine_run.nodes: is "
     "not known"),
    (_set(*_TASKS, "psi_0", "component_ref", value="pis"), "dag.tasks.psi_0.component_ref: party 9999 has fate 2.2.0, "
     "which has no component 'pis'; did you mean psi"),
    (_set(*_TASKS, "psi_0", "dependent_tasks", value=["reader_9"]), "dag.tasks.psi_0.dependent_tasks[0]: there is no"),
    (_set(*_TASKS, "psi_0", "stage", value="train"), "dag.tasks.psi_0.stage: 'train' is not a stage of fate.psi"),
    (_set(*_TASKS, "psi_0", "parties", value=[{"role": "host", "party_id": ["7"]}]), "dag.tasks.psi_0.parties: host 7"),
    (_set(*_TASKS, "lr_0", "parameters", value={"epoch": "3"}), "dag.tasks.lr_0.parameters: at guest 9999: epoch: "
     "is not known; did you mean epochs"),
    (_set(*_TASKS, "lr_0", "inputs", "data", "train_data", value=channels(output("psi_0", "model"))),
     "dag.tasks.lr_0.inputs.data.train_data.task_output_artifact"),
    (_set(*_TASKS, "lr_0", "inputs", "data", "train_data", value={**channels(output("psi_0")), "data_warehouse": []}),
     "dag.tasks.lr_0.inputs.data.train_data: has task_output_artifact and data_warehouse"),
    (_set(*_TASKS, "lr_0", "inputs", "data", "train_data", value=channels({**output("psi_0"), "index": 0})),
     "dag.tasks.lr_0.inputs.data.train_data.task_output_artifact.index: is not known"),
    (_set(*_TASKS, "lr_0", "outputs", "metric", value={"metric": {"output_artifact_key_alias": "m"}}),
     "dag.tasks.lr_0.outputs.metric.metric: 'm': other names of metrics are not offered"),
    (_set(*_TASKS, "lr_0", "outputs", "data", value={"train_output_data": {"output_artifact_type_alias": "table"}}),
     "dag.tasks.lr_0.outputs.data.train_output_data.output_artifact_type_alias: 'table' is not offered; only data is"),
    (_set("dag", "party_tasks", "guest_9999", "tasks", "reader_9", value={}),
     "dag.party_tasks.guest_9999.tasks.reader_9: is not known; did you mean reader_0"),
    (_set("dag", "party_tasks", "guest_9999", "conf", value={"cores": 1}), "dag.party_tasks.guest_9999.conf: a"),
])  # fmt: skip
def test_what_is_not_offered_is_refused_by_its_path(
    change: Callable[[Dag], None], problem: str, modules: Mapping[str, ModuleInfo]
) -> None:
    body = a_training()
    change(body)
    found = problems(body, modules)
    assert any(one.startswith(problem) for one in found), found


@pytest.mark.parametrize("value", [None, [], 3, "dag", {"dag": []}, {"dag": {"parties": 3, "tasks": []}}])
def test_another_value_is_refused(value: Any, modules: Mapping[str, ModuleInfo]) -> None:
    assert problems(value, modules) != []


def test_keys_that_fate_drops_are_warnings(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    body["dag"]["conf"]["task_parallelism"] = 2
    assert parsed(body, modules).warnings == ("dag.conf.task_parallelism: is not known; it is ignored",)


def test_other_names_of_outputs(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    body["dag"]["tasks"]["psi_0"]["outputs"] = {"data": {"output_data": {"output_artifact_key_alias": "common"}}}
    body["dag"]["tasks"]["lr_0"]["inputs"]["data"]["train_data"] = channels(output("psi_0", "common"))
    assert parsed(body, modules).tasks["lr_0"].inputs[0].sources == (Source("psi_0", "common"),)


def test_outputs_may_be_named_as_they_are(modules: Mapping[str, ModuleInfo]) -> None:
    """FATE's schema needs both names of each output that a DAG lists."""
    body = a_training()
    names = {"data": "train_output_data", "model": "output_model", "metric": "metric"}
    body["dag"]["tasks"]["lr_0"]["outputs"] = {
        section: {key: {"output_artifact_key_alias": key, "output_artifact_type_alias": section}}
        for section, key in names.items()
    }
    spec = parsed(body, modules)
    assert spec.tasks["evaluation_0"].inputs == parsed(a_training(), modules).tasks["evaluation_0"].inputs
    assert spec.warnings == ()


def test_arbiters_are_parties_like_others(modules: Mapping[str, ModuleInfo]) -> None:
    body = a_training()
    body["dag"]["tasks"]["lr_0"]["parties"] = [GUEST, HOST]
    assert parsed(body, modules).tasks["lr_0"].parties == (ANNA, BOB)
