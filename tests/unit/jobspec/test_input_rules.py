"""What a component needs and does not get, or gets and does not take, is refused by the document alone, by its key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.spec import Input, JobParameters, JobSpec, NamedOutput, NamedTable, Party, Source
from fate_flow.core.planning.plain_v1 import objection
from fate_flow.jobspec.formats import NATIVE, as_given_to, parse, parse_or_problems, with_disclosure
from tests.kit.components.tiny_provider import THREE
from tests.kit.jobspec.parsing import parse as parse_documents
from tests.kit.jobspec.parsing import problems

READER = {"module": "Reader", "output": {"data": ["data"]}}
MATCH = {"module": "Intersection", "input": {"data": {"data": ["reader_0.data"]}}, "output": {"data": ["data"]}}
SUM = {"module": "SecureSum", "input": {"data": {"data": ["match_0.data"]}}}
TABLE = {"table": {"namespace": "demo", "name": "people"}}


def wrong_with(components: dict[str, Any], role: dict[str, Any] | None = None, **described: Any) -> list[str]:
    conf = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999}, "role": {"guest": [9999], "host": [10000]},
        "component_parameters": {
            "common": {"reader_0": TABLE, "sum_0": {"column": "amount"}, **described}, "role": role or {},
        },
    }  # fmt: skip
    return problems({"components": components}, conf, modules=CATALOGUE, defaults=JobParameters())


def test_a_job_whose_inputs_are_there_is_right():
    assert wrong_with({"reader_0": READER, "match_0": MATCH, "sum_0": SUM}) == []


@pytest.mark.parametrize("module", ["Intersection", "SecureSum"])
def test_a_component_that_needs_a_table_names_one(module):
    assert wrong_with({"sum_0": {"module": module}}) == [
        f"dsl.components.sum_0.input.data.data: is missing; {module} needs a table, such as reader_0.data"
    ]


def test_it_takes_one_table():
    match = {**MATCH, "input": {"data": {"data": ["reader_0.data", "reader_1.data"]}}}
    found = wrong_with({"reader_0": READER, "reader_1": READER, "match_0": match}, reader_1=TABLE)
    assert found == ["dsl.components.match_0.input.data.data: names 2 tables; Intersection takes one"]


def test_an_input_that_is_wrong_is_not_said_to_be_missing():
    match = {**MATCH, "input": {"data": {"data": ["nobody.data"]}}}
    (found,) = wrong_with({"match_0": match})
    assert "there is no component 'nobody'" in found


@pytest.mark.parametrize(("described", "parties"), [
    ({"sync_intersect_ids": False}, "host 10000"),
    ({"cardinality_only": True}, "guest 9999, host 10000"),
])
def test_what_a_party_may_not_learn_is_read_by_no_task_of_it(described, parties):
    found = wrong_with({"reader_0": READER, "match_0": MATCH, "sum_0": SUM}, match_0=described)
    assert found == [
        f"dsl.components.sum_0.input.data.data: match_0 makes no table at {parties}, where sum_0 would read it"
    ]


def test_a_task_that_passes_where_there_is_no_table_is_right():
    found = wrong_with(
        {"reader_0": READER, "match_0": MATCH, "sum_0": SUM}, {"host": {"all": {"sum_0": {"need_run": False}}}},
        match_0={"sync_intersect_ids": False},
    )
    assert found == []


def test_a_component_that_passes_makes_no_table():
    found = wrong_with({"reader_0": READER, "match_0": MATCH}, {"host": {"0": {"reader_0": {"need_run": False}}}})
    assert found == [
        "dsl.components.match_0.input.data.data: reader_0 makes no table at host 10000, where match_0 would read it"
    ]


def test_parties_that_are_told_to_disclose_different_things_are_refused():
    found = wrong_with({"reader_0": READER, "match_0": MATCH}, {"host": {"0": {"match_0": {"cardinality_only": True}}}})
    assert found == [
        "job_runtime_conf.component_parameters: match_0: cardinality_only: host 10000 has true, others have not; "
        "it has to be the same everywhere"
    ]


def test_a_program_may_do_without_a_table():
    assert wrong_with({"run_0": {"module": "Command"}}, run_0={"command": ["/bin/true"]}) == []


# ---------------------------------------------------------------------- by key, role and stage

GUEST, HOST, ARBITER = Party("guest", "9001"), Party("host", "9002"), Party("arbiter", "9003")
TASKS: Mapping[str, Any] = {
    "read": {"component": "Reader", "outputs": {"data": ["rows"]}, "parameters": TABLE},
    "train": {"component": "Fit", "stage": "train", "inputs": {"train_data": "read.rows"}},
    "score": {
        "component": "Fit", "stage": "predict",
        "inputs": {"test_data": "read.rows", "input_model": "train.output_model"},
    },
    "match": {"component": "Intersection", "inputs": {"data": "score.test_output_data"}},
}  # fmt: skip


def a_job(**tasks: Mapping[str, Any] | None) -> dict[str, Any]:
    """A job that trains and predicts, with other values in some tasks; of a value None, the key is left out."""
    changed = {**TASKS}
    for name, values in tasks.items():
        changed[name] = {
            key: one for key, one in {**changed.get(name, {}), **(values or {})}.items() if one is not None
        }  # fmt: skip
    parties = {"guest": [9001], "host": [9002], "arbiter": [9003]}
    return {"version": 1, "initiator": "guest 9001", "parties": parties, "tasks": changed}


def spec_of(document: dict[str, Any]) -> JobSpec:
    return parse(JobDocument(NATIVE, document), modules=THREE.components, defaults=JobParameters(), strict=True)


def problems_of(document: dict[str, Any]) -> list[str]:
    given = JobDocument(NATIVE, document)
    return parse_or_problems(given, modules=THREE.components, defaults=JobParameters(), strict=True)[1]


def test_inputs_and_the_stage_of_a_job_file() -> None:
    spec = spec_of(a_job())
    at_both = frozenset({GUEST, HOST})
    assert [(task.name, task.stage) for task in spec.tasks.values()] == [
        ("read", "default"), ("train", "train"), ("score", "predict"), ("match", "default")
    ]  # fmt: skip
    assert spec.tasks["train"].parties == (GUEST, HOST, ARBITER)
    assert set(spec.tasks["score"].inputs) == {
        Input("data", "test_data", (Source("read", "rows"),), at_both),
        Input("model", "input_model", (Source("train", "output_model"),), at_both),
    }
    assert spec.tasks["match"].inputs == (Input("data", "data", (Source("score", "test_output_data"),)),)
    assert spec.tasks["score"].producers == {"read", "train"}


def test_the_same_job_in_the_documents_of_fate() -> None:
    spec = spec_of(a_job())
    components = spec.dsl["components"]
    assert components["score"]["input"] == {
        "data": {"test_data": ["read.rows"]}, "model": {"input_model": ["train.output_model"]}
    }  # fmt: skip
    assert spec.conf["job_parameters"]["common"]["task_conf"]["score"] == {"stage": "predict"}
    again = parse_documents(spec.dsl, spec.conf, modules=THREE.components, defaults=JobParameters(), strict=True)
    assert again.tasks == spec.tasks


def test_a_list_of_models_is_the_only_model_that_the_stage_takes() -> None:
    inputs = {"data": {"test_data": ["read.rows"]}, "model": ["train.output_model"]}
    assert spec_of(a_job(score={"inputs": inputs})).tasks == spec_of(a_job()).tasks


def test_outputs_may_have_names_of_the_job() -> None:
    spec = spec_of(a_job(
        train={"outputs": {"model": ["m"]}},
        score={"outputs": {"data": ["scored"]}, "inputs": {"test_data": "read.rows", "input_model": "train.m"}},
        match={"inputs": {"data": "score.scored"}},
    ))  # fmt: skip
    assert spec.tasks["match"].producers == {"score"}


MODEL = {"input_model": ["train.output_model"]}
ROWS, SCORE = "read.rows", {"test_data": "read.rows", "input_model": "train.output_model"}


@pytest.mark.parametrize(("tasks", "problem"), [
    ({"train": {"stage": None}}, "tasks.train.stage: is missing; Fit has train and predict"),
    ({"train": {"stage": "default"}}, "tasks.train.stage: 'default' is not a stage of Fit; Fit has train and predict"),
    ({"train": {"inputs": None}},
     "tasks.train.inputs.train_data: is missing; Fit needs it in stage train at guest 9001, host 9002: an output "
     "of kind table, such as read.rows"),
    ({"score": {"inputs": {"test_data": ROWS}}},
     "tasks.score.inputs.input_model: is missing; Fit needs it in stage predict at guest 9001, host 9002: an output "
     "of kind json_model, such as train.output_model"),
    ({"train": {"inputs": {"train_data": ROWS, "trian_data": ROWS}}},
     "tasks.train.inputs.trian_data: Fit has no such input; did you mean train_data"),
    ({"train": {"inputs": {"train_data": ROWS, "data": {"trian_data": [ROWS]}}}},
     "tasks.train.inputs.data.trian_data: Fit has no such data input; did you mean train_data"),
    ({"train": {"inputs": {"train_data": ROWS, "xyz": ROWS}}},
     "tasks.train.inputs.xyz: Fit has no such input; it has: train_data, validate_data, test_data, warm_start_model, "
     "input_model"),
    ({"score": {"inputs": {"test_data": ROWS, "model": {"xyz": ["train.output_model"], **MODEL}}}},
     "tasks.score.inputs.model.xyz: Fit has no such model input; in stage predict it has: input_model"),
    ({"train": {"inputs": {"train_data": ROWS, "test_data": ROWS}}},
     "tasks.train.inputs.test_data: Fit reads it in stage predict, not in stage train"),
    ({"train": {"inputs": {"train_data": [ROWS, ROWS]}}},
     "tasks.train.inputs.train_data: names 2 outputs; Fit takes one"),
    ({"score": {"inputs": {**SCORE, "input_model": ROWS}}},
     "tasks.score.inputs.input_model: 'read.rows': the model outputs of read are: none"),
    ({"score": {"inputs": {**SCORE, "test_data": "train.output_model"}}},
     "tasks.score.inputs.test_data: 'train.output_model': the data outputs of train are: train_output_data, "
     "test_output_data"),
    ({"score": {"inputs": {**SCORE, "test_data": "train.test_output_data"}}},
     "tasks.score.inputs.test_data: Fit makes test_output_data in stage predict, not in stage train; the outputs of "
     "train are: train_output_data, output_model"),
    ({"score": {"inputs": {**SCORE, "test_data": "train.train_output_data"}}},
     "tasks.score.inputs.test_data: train makes no train_output_data at host 9002, where score would read it"),
    ({"score": {"inputs": {"data": {"test_data": [ROWS], "input_model": [ROWS]}}}},
     "tasks.score.inputs.data.input_model: Fit takes it as model, not as data"),
    ({"score": {"inputs": {"data": {"test_data": [ROWS]}, "cache": ["train.output_model"], "input_model": SCORE[
        "input_model"]}}}, "tasks.score.inputs.cache[0]: 'train.output_model': the cache outputs of train are: none"),
    ({"train": {"outputs": {"model": ["a", "b"]}}, "score": {"inputs": {**SCORE, "input_model": "train.a"}}},
     "tasks.train.outputs.model[1]: Fit makes 1 model outputs in stage train: output_model"),
    ({"train": {"at": {"host": {"run": False}}}},
     "tasks.score.inputs.input_model: train makes no output_model at host 9002, where score would read it"),
    ({"match": {"inputs": {"data": "halves.output_datas"}},
      "halves": {"component": "Halves", "inputs": {"input_datas": [ROWS, "score.test_output_data"]}}},
     "tasks.match.inputs.data: halves.output_datas has several artifacts; Intersection takes one"),
    ({"halves": {"component": "Halves", "inputs": {"input_datas": ROWS}},
      "score": {"inputs": {**SCORE, "input_model": "halves.output_folder"}}},
     "tasks.score.inputs.input_model: halves.output_folder is of kind model_directory; Fit reads json_model"),
])  # fmt: skip
def test_what_does_not_fit_the_description_is_refused_by_name(tasks: dict[str, Any], problem: str) -> None:
    assert problems_of(a_job(**tasks)) == [problem]


def test_a_stage_is_of_all_parties_and_known() -> None:
    spec = spec_of(a_job())
    path = "job_runtime_conf.job_parameters"
    for given, problem in (
        ({"common": {"task_conf": {"read": {"stage": "trian"}}}}, f"{path}.common.task_conf.read.stage: 'trian' is"),
        ({"role": {"host": {"0": {"task_conf": {"read": {"stage": "train"}}}}}},
         f"{path}.role.host.0.task_conf.read.stage: cannot differ by party"),
    ):  # fmt: skip
        components = {"components": {"read": spec.dsl["components"]["read"]}}
        conf = {**spec.conf, "job_parameters": given, "component_parameters": {"common": {"read": TABLE}}}
        found = problems(components, conf, modules=THREE.components, defaults=JobParameters(), strict=True)
        assert len(found) == 1
        assert found[0].startswith(problem)


def test_the_stage_of_the_job_is_for_tasks_without_one_whose_component_has_it() -> None:
    spec = spec_of({**a_job(train={"stage": None}), "stage": "train"})
    assert [(task.name, task.stage) for task in spec.tasks.values()] == [
        ("read", "default"), ("train", "train"), ("score", "predict"), ("match", "default")
    ]  # fmt: skip
    assert spec.tasks == spec_of(a_job()).tasks
    assert problems_of({**a_job(), "stage": "cross_validation"}) == [
        "stage: no component of this job has a stage cross_validation"
    ]
    wrong = problems_of({**a_job(score={"stage": None}), "stage": "train"})
    assert wrong[0] == "tasks.score.inputs.test_data: Fit reads it in stage predict, not in stage train"


def test_a_plain_v1_party_knows_no_stages() -> None:
    spec = spec_of(a_job())
    assert objection(spec, ARBITER, THREE.components) == (
        "speaks plain FATE v1, which has no stages: train (stage train), score (stage predict)"
    )
    without = {name: task for name, task in TASKS.items() if name == "read"}
    assert objection(spec_of({**a_job(), "tasks": without}), HOST, THREE.components) == ""


# ---------------------------------------------------------------------- what is there already

OLD_JOB = "2026010112000000000001234"
OF_JOB = {"output": {"job_id": OLD_JOB, "task": "match", "output": "common"}}
ALONE = {"module": "Intersection", "output": {"data": ["data"]}}


def test_an_input_may_be_a_table_of_each_party_or_an_output_of_another_job() -> None:
    components = {"components": {"match_0": ALONE}}
    conf = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9001}, "role": {"guest": [9001], "host": [9002]},
        "component_parameters": {
            "common": {"match_0": {"stored_inputs": {"data": TABLE}, "only_output_key": True}},
            "role": {"host": {"0": {"match_0": {"stored_inputs": {"data": {"table": {"name": "others"}}}}}}},
        },
    }  # fmt: skip
    task = parse_documents(components, conf, modules=CATALOGUE, defaults=JobParameters(), strict=True).tasks["match_0"]
    assert task.stored == {
        GUEST: {"data": (NamedTable("demo", "people"),)}, HOST: {"data": (NamedTable("demo", "others"),)},
    }  # fmt: skip
    assert task.parameters[GUEST] == task.parameters[HOST] == {"only_output_key": True}
    train = spec_of(a_job(train={"inputs": {"train_data": OF_JOB}})).tasks["train"]
    assert train.stored_at(GUEST) == train.stored_at(HOST) == (NamedOutput(OLD_JOB, "match", "common"),)
    assert train.producers == frozenset()


def test_a_job_file_has_inputs_of_a_party_below_at() -> None:
    spec = spec_of(a_job(train={
        "inputs": None,
        "at": {"guest": {"inputs": {"train_data": TABLE}}, "host 9002": {"inputs": {"train_data": OF_JOB}}},
    }))
    assert spec.tasks["train"].stored == {
        GUEST: {"train_data": (NamedTable("demo", "people"),)},
        HOST: {"train_data": (NamedOutput(OLD_JOB, "match", "common"),)},
    }
    again = parse_documents(spec.dsl, spec.conf, modules=THREE.components, defaults=JobParameters(), strict=True)
    assert again.tasks == spec.tasks
    several = spec_of(a_job(halves={"component": "Halves", "inputs": {"input_datas": [TABLE, OF_JOB]}}))
    assert len(several.tasks["halves"].stored_at(GUEST)) == 2
    section = spec_of(a_job(match={"inputs": {"data": {"data": TABLE}}})).tasks["match"]
    assert section.stored_at(HOST) == (NamedTable("demo", "people"),)


def test_what_others_give_their_share_is_not_known_and_not_missed() -> None:
    document = JobDocument(NATIVE, a_job(train={
        "inputs": None, "at": {"guest": {"inputs": {"train_data": OF_JOB}}, "host": {"inputs": {"train_data": TABLE}}},
    }))  # fmt: skip
    at_host = as_given_to(with_disclosure(document, (), lambda: "ab" * 32), HOST.party_id)
    assert (OLD_JOB in str(document.body), OLD_JOB in str(at_host.body)) == (True, False)
    spec, found = parse_or_problems(at_host, modules=THREE.components, defaults=JobParameters(), strict=True)
    assert found == []
    assert spec is not None
    assert (spec.withheld, spec.tasks["train"].stored.keys()) == ({GUEST}, {HOST})


@pytest.mark.parametrize(("inputs", "problem"), [
    ({"data": [TABLE, TABLE]}, "dsl.components.match_0.input.data.data: names 2 tables; Intersection takes one"),
    ({"data": TABLE, "date": TABLE},
     "dsl.components.match_0.input.data.date: Intersection has no such data input; in stage default it has: data"),
    ({"data": "a.b"}, "stored_inputs.data: 'a.b' is not {\"table\": {\"namespace\", \"name\"}} or "),
    ({"data": {**TABLE, **OF_JOB}}, "stored_inputs.data: an object is not {\"table\": "),
    ({"data": {"table": {"name": "x"}}}, "data: table: an object is not an object with namespace and name"),
    ({"data": {"output": {"job_id": "x", "task": "a", "output": "b"}}}, "data: output.job_id: 'x' is not "),
    ([TABLE], "stored_inputs: a list is not an object with inputs by their keys"),
])
def test_a_wrong_input_that_is_there_already_is_named(inputs: Any, problem: str) -> None:
    found = wrong_with({"match_0": ALONE}, match_0={"stored_inputs": inputs})
    assert any(problem in one for one in found), found


@pytest.mark.parametrize(("tasks", "problem"), [
    ({"train": {"at": {"host": {"inputs": {"train_data": TABLE}}}}},
     "tasks.train.inputs.train_data: is given twice at host 9002: as an output of this job, and as a table that is"),
    ({"train": {"inputs": None, "at": {"host": {"inputs": {"train_data": TABLE}}}}},
     "tasks.train.inputs.train_data: is missing; Fit needs it in stage train at guest 9001: an output of kind table"),
    ({"train": {"inputs": {"train_data": TABLE, "test_data": TABLE}}},
     "tasks.train.inputs.test_data: Fit reads it in stage predict, not in stage train"),
    ({"score": {"inputs": {**SCORE, "input_model": TABLE}}},
     "tasks.score.inputs.input_model: is a model; tables and outputs of other jobs are data"),
    ({"train": {"inputs": {"train_data": ["read.rows", TABLE]}}},
     "tasks.train.inputs.train_data: has outputs of tasks and what is there already; use one form of both"),
    ({"train": {"inputs": {"train_data": {"table": {"namespace": "demo"}}}}},
     "tasks.train.inputs.train_data.table.name: is missing"),
    ({"train": {"inputs": {"train_data": {"tabel": {}}}}}, "tasks.train.inputs.train_data.tabel: is not known"),
    ({"train": {"parameters": {"stored_inputs": {}}}},
     "tasks.train.parameters.stored_inputs: cannot be set here; use inputs"),
])  # fmt: skip
def test_a_wrong_input_of_a_job_file_that_is_there_already_is_named(tasks: dict[str, Any], problem: str) -> None:
    [found] = problems_of(a_job(**tasks))
    assert found.startswith(problem)


def test_a_plain_v1_party_reads_outputs_of_the_job_alone() -> None:
    without = {"read": TASKS["read"], "match": {"component": "Intersection", "inputs": {"data": {"data": TABLE}}}}
    assert objection(spec_of({**a_job(), "tasks": without}), HOST, THREE.components) == (
        "speaks plain FATE v1, where an input is always an output of the job: match"
    )
