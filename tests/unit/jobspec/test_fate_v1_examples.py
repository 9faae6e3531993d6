"""The examples of the reference, read to the last value."""

from __future__ import annotations

import copy

import pytest

from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.spec import DeclaredOutput, Input, JobParameters, Party, Source
from fate_flow.jobspec.fate_v1.reader import component_parameters_on, effective_document
from tests.kit.jobspec.fate_v1_documents import (
    ARBITER,
    ARBITER_CONF,
    ARBITER_DSL,
    DEFAULTS,
    EXAMPLES,
    GUEST,
    HOST,
    MODULES,
    SECOND_HOST,
    TOY_CONF,
    TOY_DSL,
    TWO_CONF,
    TWO_DSL,
    UPLOAD_CONF,
    UPLOAD_DSL,
    read,
)
from tests.kit.jobspec.parsing import parse

LOCAL = Party("local", "0")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_read_without_a_change_to_it(name):
    dsl, conf = EXAMPLES[name]
    before = copy.deepcopy((dsl, conf))
    read(dsl, conf)
    assert (dsl, conf) == before


@pytest.mark.parametrize("name", ["upload", "two parties", "arbiter"])
def test_an_example_gives_no_warning_and_is_right_in_strict_mode_too(name):
    dsl, conf = EXAMPLES[name]
    assert read(dsl, conf).warnings == ()
    assert read(dsl, conf, strict=True) == read(dsl, conf)


def test_the_upload_runs_at_the_local_party_alone():
    spec = read(UPLOAD_DSL, UPLOAD_CONF)
    assert spec.initiator == LOCAL
    assert spec.parties == (LOCAL,)
    assert spec.roles == {"local": [0]}
    assert spec.common.task_cores == 1
    assert spec.common.federated_mode == "SINGLE"
    task = spec.tasks["upload_0"]
    assert (task.module, task.parties, task.inputs, task.outputs) == ("Upload", (LOCAL,), (), ())
    assert task.parameters[LOCAL]["name"] == "site_a"


def test_the_two_parties_have_their_own_parameters():
    spec = read(TWO_DSL, TWO_CONF)
    assert spec.parties == (GUEST, HOST)
    assert list(spec.tasks) == ["reader_0", "prep_0", "match_0"]
    assert spec.parameters[HOST] == JobParameters(
        task_cores=2, task_parallelism=1, computing_partitions=4, auto_retries=1, timeout_seconds=3600)
    reader = spec.tasks["reader_0"]
    assert reader.parameters[GUEST]["table"]["name"] == "site_a"
    assert reader.parameters[HOST]["table"]["name"] == "site_b"
    assert spec.tasks["match_0"].parameters == {
        GUEST: {"intersect_method": "raw"}, HOST: {"intersect_method": "raw"}}


def test_the_edges_of_the_two_parties():
    spec = read(TWO_DSL, TWO_CONF)
    prep = spec.tasks["prep_0"]
    assert prep.inputs == (Input("data", "data", (Source("reader_0", "raw"),)),)
    assert prep.outputs == (DeclaredOutput("data", "clean"), DeclaredOutput("model", "prep_model"))
    assert spec.tasks["match_0"].upstream == {"prep_0"}


def test_an_arbiter_runs_only_what_its_role_runs():
    spec = read(ARBITER_DSL, ARBITER_CONF)
    assert spec.parties == (GUEST, HOST, SECOND_HOST, ARBITER)
    assert [task.name for task in spec.tasks_of(ARBITER)] == ["fit_0"]
    assert spec.tasks["fit_0"].parties == spec.parties
    assert spec.tasks["fit_0"].inputs == (Input("data", "train_data", (Source("match_0", "joined"),)),)
    assert spec.tasks["fit_0"].parameters[ARBITER] == {"max_iter": 5, "penalty": "L2", "alpha": 0.05}


def test_a_component_that_need_not_run_passes_there():
    report = read(ARBITER_DSL, ARBITER_CONF).tasks["report_0"]
    assert report.parties == (GUEST, HOST, SECOND_HOST)
    assert report.passed_at == {HOST, SECOND_HOST}
    assert report.parameters[HOST] == {}


def test_every_host_gets_the_block_of_its_index():
    reader = read(ARBITER_DSL, ARBITER_CONF).tasks["reader_0"]
    assert [reader.parameters[party]["table"]["name"] for party in reader.parties] == ["site_a", "site_b", "site_c"]


def test_the_toy_of_the_genuine_client_is_taken_with_a_warning():
    spec = read(TOY_DSL, TOY_CONF)
    guest, host = spec.parties
    assert spec.tasks["secure_add_example_0"].parameters == {
        guest: {"partition": 4, "data_num": 1000, "seed": 123}, host: {"partition": 4, "data_num": 1000}}
    assert spec.parameters[guest].extra == {"user": "ann"}
    assert spec.parameters[host].extra == {"user": "bob"}
    assert spec.warnings == (
        "job_runtime_conf.component_parameters.role.host.secure_add_example_0: is not an index of "
        'job_runtime_conf.role.host ("0", "0|2" or "all"); it is ignored',)


def test_the_catalogue_of_the_server_fits():
    assert parse(TOY_DSL, TOY_CONF, modules=CATALOGUE, defaults=DEFAULTS).tasks


def test_the_effective_document_holds_the_parameters_of_one_party():
    conf = {**TWO_CONF, "job_parameters": {
        "common": {"task_cores": 2, "timeout": 3600}, "role": {"host": {"0": {"task_cores": 8}}}}}
    spec = read(TWO_DSL, conf)
    document = effective_document(spec, HOST)
    assert document["job_parameters"] == {
        "job_type": "train", "task_cores": 8, "task_parallelism": 1, "task_memory": 0, "computing_partitions": 2,
        "federated_status_collect_type": "PUSH", "federated_mode": "MULTIPLE", "auto_retries": 0,
        "auto_retry_delay": 1, "timeout": 3600, "task_timeout": 0}
    assert effective_document(spec, GUEST)["job_parameters"]["task_cores"] == 2
    assert {key: document[key] for key in ("dsl_version", "initiator", "role", "component_parameters")} == {
        key: TWO_CONF[key] for key in ("dsl_version", "initiator", "role", "component_parameters")}


def test_the_completed_document_has_ids_as_numbers_and_the_defaults_of_the_server():
    conf = read(TOY_DSL, TOY_CONF).conf
    assert conf["role"] == {"guest": [9999], "host": [10000]}
    assert conf["initiator"] == {"role": "guest", "party_id": 9999}
    assert conf["job_parameters"]["common"]["timeout"] == 259200
    assert conf["job_parameters"]["common"]["task_cores"] == 2
    assert conf["job_parameters"]["role"] == TOY_CONF["job_parameters"]["role"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_party_with_other_defaults_reads_the_same_job_from_the_completed_document(name):
    dsl, conf = EXAMPLES[name]
    spec = read(dsl, conf)
    elsewhere = JobParameters(task_cores=99, timeout_seconds=1, computing_partitions=77, auto_retries=5, task_memory=3)
    again = parse(dsl, spec.conf, modules=MODULES, defaults=elsewhere)
    assert again == spec


def test_what_a_component_is_told_at_a_party():
    spec = read(ARBITER_DSL, ARBITER_CONF)
    assert component_parameters_on(spec, spec.tasks["report_0"], HOST) == {
        "module": "Evaluation",
        "ComponentParam": {"need_run": False},
        "role": {"guest": [9001], "host": [9002, 9004], "arbiter": [9003]},
        "initiator": {"role": "guest", "party_id": 9001},
        "local": {"role": "host", "party_id": 9002},
    }
    fit = component_parameters_on(spec, spec.tasks["fit_0"], ARBITER)
    assert fit["ComponentParam"] == {"max_iter": 5, "penalty": "L2", "alpha": 0.05, "need_run": True}
