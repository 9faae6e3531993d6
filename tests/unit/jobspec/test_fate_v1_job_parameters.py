"""One table for each rule about job parameters in the v1 adapter."""

from __future__ import annotations

import re

import pytest

from fate_flow.core.model.errors import BadDocument
from fate_flow.core.model.resources import request_of
from fate_flow.core.model.spec import OwnResources
from tests.kit.jobspec.fate_v1_documents import GUEST, HOST, a_conf, a_dsl, problems_of, read, with_job_parameters
from tests.kit.jobspec.fate_v1_problems import COMMON, READER, message_of


@pytest.mark.parametrize(("key", "sent", "field", "kept"), [
    ("task_cores", 3, "task_cores", 3),
    ("task_cores", "3", "task_cores", 3),
    ("task_cores", 3.0, "task_cores", 3),
    ("task_cores", None, "task_cores", 4),
    ("task_parallelism", 5, "task_parallelism", 5),
    ("task_memory", 512, "task_memory", 512),
    ("longest_pending", 90.5, "longest_pending_seconds", 90.5),
    ("longest_pending", 0, "longest_pending_seconds", 0),
    ("computing_partitions", 16, "computing_partitions", 16),
    ("federated_status_collect_type", "PULL", "collect_type", "PULL"),
    ("federated_mode", "SINGLE", "federated_mode", "SINGLE"),
    ("auto_retries", 0, "auto_retries", 0),
    ("auto_retries", 2, "auto_retries", 2),
    ("auto_retry_delay", 0.5, "auto_retry_delay_seconds", 0.5),
    ("auto_retry_delay", 0, "auto_retry_delay_seconds", 0),
    ("auto_retry_delay", "1", "auto_retry_delay_seconds", 1),
    ("auto_retry_delay", "0.5", "auto_retry_delay_seconds", 0.5),
    ("timeout", 60, "timeout_seconds", 60),
    ("task_timeout", 0, "task_timeout_seconds", 0),
    ("task_timeout", 9, "task_timeout_seconds", 9),
    ("job_type", "train", "job_type", "train"),
])
def test_a_job_parameter_reaches_its_field_at_every_party(key, sent, field, kept):
    spec = with_job_parameters({key: sent})
    assert {getattr(spec.parameters[party], field) for party in spec.parties} == {kept}


@pytest.mark.parametrize(("key", "value", "problem"), [
    ("task_cores", "many", "'many' is not a whole number above 0"),
    ("task_cores", 0, "0 is not a whole number above 0"),
    ("task_cores", -1, "-1 is not a whole number above 0"),
    ("task_cores", 1.5, "1.5 is not a whole number above 0"),
    ("task_cores", True, "true is not a whole number above 0"),
    ("task_cores", "4\n", "'4\\n' is not a whole number above 0"),
    ("task_cores", "٣", "'٣' is not a whole number above 0"),
    ("task_cores", [4], "a list is not a whole number above 0"),
    ("task_cores", 2**31, "2147483648 is more than 2147483647"),
    ("task_parallelism", 0, "0 is not a whole number above 0"),
    ("task_memory", -1, "-1 is not a whole number of 0 or more"),
    ("longest_pending", -1, "-1 is not a number of seconds from 0 to 2147483647"),
    ("longest_pending", "1h", "'1h' is not a number of seconds from 0 to 2147483647"),
    ("longest_pending", True, "true is not a number of seconds from 0 to 2147483647"),
    ("computing_partitions", 0, "0 is not a whole number above 0"),
    ("timeout", 0, "0 is not a whole number above 0"),
    ("task_timeout", "soon", "'soon' is not a whole number of 0 or more"),
    ("auto_retries", -1, "-1 is not a whole number of 0 or more"),
    ("auto_retry_delay", -0.1, "-0.1 is not a number of seconds from 0 to 2147483647"),
    ("auto_retry_delay", "1s", "'1s' is not a number of seconds from 0 to 2147483647"),
    ("auto_retry_delay", "-1", "'-1' is not a number of seconds from 0 to 2147483647"),
    ("auto_retry_delay", "9999999999", "9999999999 is not a number of seconds from 0 to 2147483647"),
    ("auto_retry_delay", False, "false is not a number of seconds from 0 to 2147483647"),
    ("priority", 1_001, "1001 is not a whole number from -1000 to 1000"),
    ("priority", "high", "'high' is not a whole number from -1000 to 1000"),
    ("priority", True, "true is not a whole number from -1000 to 1000"),
    ("federated_status_collect_type", "push", "'push' is not one of PUSH, PULL"),
    ("federated_mode", 1, "1 is not one of SINGLE, MULTIPLE"),
    ("job_type", "dance", "'dance' is not one of train, predict"),
    ("model", "churn", "'churn' is not an object"),
    ("inheritance_info", {"job_id": "1", "component_list": ["x"]},
     "reusing finished components of another job is not offered"),
    ("eggroll_run", [], "a list is not an object"),
    ("spark_run", 1, "1 is not an object"),
    ("user", 7, "7 is not text"),
    ("task_conf", "x", "'x' is not an object"),
])
def test_a_wrong_job_parameter_is_refused_with_its_path(key, value, problem):
    assert message_of(conf=a_conf(job_parameters={"common": {key: value}})) == f"{COMMON}.{key}: {problem}"


def test_a_wrong_job_parameter_of_one_party_has_the_path_of_that_party():
    conf = a_conf(job_parameters={"role": {"host": {"0|1": {"timeout": "x"}}}})
    assert message_of(conf=conf).startswith("job_runtime_conf.job_parameters.role.host.0|1.timeout: 'x' is not")


@pytest.mark.parametrize(("key", "value"), [
    ("retry", {"max_attempts": 2}), ("policies", []), ("min_available", {"host": 1}), ("stop_duration", 5),
    ("priority", 1),
])
@pytest.mark.parametrize(("role", "where"), [("host", "0"), ("host", "all"), ("guest", "0")])
def test_what_holds_for_the_whole_job_is_not_said_to_one_party(role, where, key, value):
    block = {key: value, "task_conf": {"x": {key: value, "timeout": 7}}}
    conf = a_conf(job_parameters={"role": {role: {where: block}}})
    place = f"job_runtime_conf.job_parameters.role.{role}.{where}"
    text = "cannot differ by party, it applies to all: set it in job_parameters.common"
    assert problems_of(a_dsl(x=READER), conf)[:2] == [
        f"{place}.{key}: {text}", f"{place}.task_conf.x.{key}: {text}.task_conf.x"]


@pytest.mark.parametrize(("key", "value"), [
    ("timeout", 7), ("auto_retries", 1), ("auto_retry_delay", 1), ("federated_mode", "SINGLE"),
    ("federated_status_collect_type", "PULL"),
])
def test_what_fate_has_for_the_whole_job_has_no_effect_below_another_party(key, value):
    spec = with_job_parameters({}, host={"0": {key: value, "user": "x"}}, guest={"0": {key: value}})
    assert spec.warnings == (
        f"job_runtime_conf.job_parameters.role.host.0.{key}: has no effect: it applies to the whole job: "
        "set it in job_parameters.common",)


@pytest.mark.parametrize("empty", [{}, None, []])
def test_an_empty_inheritance_is_none(empty):
    assert with_job_parameters({"inheritance_info": empty}).warnings == ()


def test_a_party_has_the_job_parameters_of_its_role():
    spec = with_job_parameters({"task_cores": 2}, host={"all": {"task_cores": 6}, "1": {"task_parallelism": 3}})
    assert [spec.parameters[party].task_cores for party in spec.parties] == [2, 6, 6, 2]
    assert [spec.parameters[party].task_parallelism for party in spec.parties] == [1, 1, 3, 1]
    assert spec.common.task_cores == 2


def test_a_component_may_state_resources_of_its_own():
    spec = with_job_parameters(
        {"task_cores": 2, "eggroll_run": {"eggroll.session.processors.per.node": 7}, "task_conf": {"x": {"memory": 9}}},
        host={"1": {"task_conf": {"x": {"cores": 5, "gpus": 1, "queue": "q"}}}})
    task = spec.tasks["x"]
    assert [task.resources_at(party) for party in spec.parties] == [
        OwnResources(memory=9), OwnResources(memory=9), OwnResources(5, 9, 1, "q"), OwnResources()]
    parties = spec.parties
    asked = [request_of(one, spec.parameters_of(task, one), 1) for one in parties[:3]]
    assert [(one.task_cores, one.task_memory, one.task_gpus) for one in asked] == [(7, 9, 0), (7, 9, 0), (5, 9, 1)]


def test_each_label_stands_once_and_a_component_may_have_others_than_the_job():
    spec = with_job_parameters({"labels": ["big", "ssd", "big"], "task_conf": {"x": {"labels": ["a100"]}}})
    assert list(spec.common.labels) == ["big", "ssd"]
    assert list(spec.parameters_of(spec.tasks["x"], spec.initiator).labels) == ["a100"]


@pytest.mark.parametrize(("own", "problem"), [
    ({"cores": 0}, "cores: 0 is not a whole number above 0"), ({"memory": -1}, "memory: -1 is not a whole number of 0"),
    ({"gpus": "x"}, "gpus: 'x' is not a whole number of 0"), ({"queue": "a b"}, "queue: 'a b' is not a queue: 1 to 30"),
    ({"labels": "big"}, "labels: 'big' is not a list of labels"),
    ({"labels": ["big", 7]}, "labels: 7 is not a label: 1 to 30 letters"),
    ({"labels": [f"n{one}" for one in range(11)]}, "labels: has 11 labels; 10 are the most"),
])
def test_resources_of_a_component_that_make_no_sense_are_refused(own, problem):
    with pytest.raises(BadDocument, match=re.escape(f"job_parameters.common.task_conf.x.{problem}")):
        with_job_parameters({"task_conf": {"x": own}})


def test_options_of_engines_are_kept_and_merged():
    spec = with_job_parameters({"spark_run": {"a": 1, "b": {"x": 1}}}, host={"0": {"spark_run": {"b": {"y": 2}}}})
    assert spec.parameters[HOST].extra == {"spark_run": {"a": 1, "b": {"x": 1, "y": 2}}}
    assert spec.parameters[GUEST].extra == {"spark_run": {"a": 1, "b": {"x": 1}}}


def test_cores_per_node_are_a_number():
    key = "eggroll.session.processors.per.node"
    assert with_job_parameters({"eggroll_run": {key: "3"}}).common.extra == {"eggroll_run": {key: 3}}
    conf = a_conf(job_parameters={"common": {"eggroll_run": {key: "x"}}})
    assert message_of(conf=conf) == f"{COMMON}.eggroll_run.'{key}': 'x' is not a whole number of 0 or more"


@pytest.mark.parametrize(("common", "host", "partitions"), [
    ({}, {}, 4),
    ({"task_cores": 6}, {}, 6),
    ({"task_cores": 6}, {"task_cores": 1}, 6),
    ({"computing_partitions": 9}, {}, 9),
    ({"task_cores": 6, "eggroll_run": {"eggroll.session.processors.per.node": 3}}, {}, 3),
])
def test_partitions_are_the_cores_of_the_initiator_unless_given(common, host, partitions):
    spec = with_job_parameters(common, host={"0": host})
    assert spec.parameters[HOST].computing_partitions == partitions


@pytest.mark.parametrize(("task_conf", "task_timeout", "limit"), [
    (None, None, 0),
    (None, 30, 30),
    ({"x": {"timeout": 5}}, None, 5),
    ({"x": {"timeout": 5}}, 30, 5),
    ({"x": {"timeout": 0}}, 30, 0),
    ({"x": {"timeout": None}}, 30, 30),
    ({"x": None}, 30, 30),
])
def test_the_limit_of_a_task(task_conf, task_timeout, limit):
    task = with_job_parameters({"task_conf": task_conf, "task_timeout": task_timeout}).tasks["x"]
    assert task.timeout_seconds == task.timeout_at(HOST) == limit
    assert task.party_timeouts == {}


def test_a_party_may_have_its_own_limit_for_a_task():
    task = with_job_parameters(
        {"task_timeout": 30}, host={"1": {"task_conf": {"x": {"timeout": 7}}}}).tasks["x"]
    assert [task.timeout_at(party) for party in task.parties] == [30, 30, 7]
    assert task.timeout_seconds == 30


def test_a_job_and_its_tasks_have_priorities_that_every_party_reads():
    conf = a_conf(job_parameters={"common": {"priority": -7, "task_conf": {"x": {"priority": 3}}}})
    spec = read(a_dsl(x={"module": "Reader"}, y={"module": "Reader"}), conf)
    assert (spec.priority, [task.priority for task in spec.tasks.values()]) == (-7, [3, 0])
    assert spec.conf["job_parameters"]["common"]["priority"] == -7
    assert read(a_dsl(), a_conf()).priority == 0


@pytest.mark.parametrize(("task_conf", "message"), [
    ({"x": 3}, "x: 3 is not an object"),
    ({"x": {"timeout": -2}}, "x.timeout: -2 is not a whole number of 0 or more"),
    ({"x": {"priority": -1_001}}, "x.priority: -1001 is not a whole number from -1000 to 1000"),
    ({"nope": {"timeout": 1}}, "nope: is not known; known here: x"),
    ({"x": {"retry": {"max_atempts": 5}}}, "x.retry.max_atempts: is not known; did you mean max_attempts"),
    ({"x": {"policies": [{"event": "any", "acton": "ignore", "action": "ignore"}]}},
     "x.policies[0].acton: is not known; did you mean action"),
])
def test_a_wrong_task_conf_is_refused(task_conf, message):
    conf = a_conf(job_parameters={"common": {"task_conf": task_conf}})
    assert message_of(conf=conf) == f"{COMMON}.task_conf.{message}"


@pytest.mark.parametrize(("task_conf", "warning"), [
    ({"x": {"polices": []}}, "x.polices: is not known; did you mean policies; it is ignored"),
    ({"x": {"color": 1}}, "x.color: is not known; it is ignored"),
    ({"x": {"launcher": "deepspeed"}}, "x.launcher: has no effect: tasks are launched as local processes"),
])
def test_an_odd_task_conf_gives_a_warning(task_conf, warning):
    assert with_job_parameters({"task_conf": task_conf}).warnings == (f"{COMMON}.task_conf.{warning}",)


@pytest.mark.parametrize(("key", "meant"), [
    ("polices", "; did you mean policies"), ("min_availabel", "; did you mean min_available"),
    ("retyr", "; did you mean retry"), ("magic", ""),
])
def test_a_block_of_ours_that_is_misspelt_gives_a_warning_with_its_name(key, meant):
    assert with_job_parameters({key: []}).warnings == (f"{COMMON}.{key}: is not known{meant}; it is ignored",)


# ------------------------------------------------------------------ default cores


@pytest.mark.parametrize(("common", "cores"), [({}, 1), ({"task_cores": 3}, 3)])
def test_a_job_of_one_component_has_the_cores_of_its_module_unless_told(common, cores):
    conf = a_conf(initiator={"role": "local", "party_id": 0}, role={"local": [0]}, job_parameters={"common": common})
    assert read(a_dsl(up={"module": "Upload"}), conf).common.task_cores == cores


def test_a_job_of_two_components_has_the_cores_of_the_server():
    conf = a_conf(initiator={"role": "local", "party_id": 0}, role={"local": [0]})
    assert read(a_dsl(up={"module": "Upload"}, up_2={"module": "Upload"}), conf).common.task_cores == 4
