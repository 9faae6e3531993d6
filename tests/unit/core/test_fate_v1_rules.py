"""One table for each rule of the v1 adapter."""

from __future__ import annotations

import pytest
from fate_v1_documents import (
    TOY_CONF,
    TOY_DSL,
    a_conf,
    a_dsl,
    changed,
    problems_of,
    read,
    with_job_parameters,
    with_parameters,
)

from fate_flow.core import fate_v1
from fate_flow.core.errors import BadDocument
from fate_flow.core.fate_v1_job_parameters import REMOVED_KEYS_WARNING
from fate_flow.core.spec import JobParameters, Party

GUEST, HOST, SECOND_HOST, ARBITER = (
    Party("guest", "9001"), Party("host", "9002"), Party("host", "9004"), Party("arbiter", "9003"))
COMMON = "job_runtime_conf.job_parameters.common"
READER = {"module": "Reader", "output": {"data": ["raw"], "model": ["m"], "cache": ["c"]}}


def message_of(dsl=None, conf=None, *, strict=False):
    with pytest.raises(BadDocument) as caught:
        read(dsl, conf, strict=strict)
    return caught.value.message


# ------------------------------------------------------------------ the runtime conf


def test_as_many_parties_as_the_documents_say_and_no_more():
    def conf(hosts):
        return changed(a_conf(), "role", {"guest": [9001], "host": [9002, *range(20_000, 20_000 + hosts - 1)]})

    assert len(read(conf=conf(255)).parties) == 256
    assert message_of(conf=conf(256)) == "job_runtime_conf.role: names 257 parties; 256 is the most"


@pytest.mark.parametrize(("path", "value", "message"), [
    ("dsl_version", None, "dsl_version: is missing"),
    ("dsl_version", 1, "dsl_version: 1 is not 2: only the v2 version runtime conf is supported"),
    ("dsl_version", "1", "dsl_version: '1' is not 2: only the v2 version runtime conf is supported"),
    ("dsl_version", True, "dsl_version: true is not 2: only the v2 version runtime conf is supported"),
    ("dsl_version", "2\n", "dsl_version: '2\\n' is not 2: only the v2 version runtime conf is supported"),
    ("initiator", None, "initiator: is missing"),
    ("initiator", [], "initiator: a list is not an object"),
    ("initiator", {"role": "guest"}, "initiator.party_id: is missing"),
    ("initiator", {"party_id": 9001}, "initiator.role: is missing"),
    ("initiator.role", "boss", "initiator.role: 'boss' is not one of guest, host, arbiter, local"),
    ("initiator.party_id", "x", "initiator.party_id: 'x' is not a party id (1 to 10 digits)"),
    ("initiator.party_id", 9002, "initiator: guest 9002 is not in job_runtime_conf.role.guest"),
    ("initiator.role", "host", "initiator: host 9001 is not in job_runtime_conf.role.host"),
    ("role", None, "role: is missing"),
    ("role", {}, "role: names no party"),
    ("role", {"guest": [], "host": []}, "role: names no party"),
    ("role", [9001], "role: a list is not an object"),
    ("role", {"guest": 9001}, "role.guest: 9001 is not a list"),
    ("role", {"guest": [9001], "boss": [1]}, "role: 'boss' is not one of guest, host, arbiter, local"),
    ("role", {"guest": [9001], "host": [1, 9002.5]}, "role.host[1]: 9002.5 is not a party id (1 to 10 digits)"),
    ("role", {"guest": [9001], "host": [True]}, "role.host[0]: true is not a party id (1 to 10 digits)"),
    ("role", {"guest": [9001], "host": [None]}, "role.host[0]: is missing"),
    ("role", {"guest": [9001], "host": [-1]}, "role.host[0]: -1 is not a party id (1 to 10 digits)"),
    ("role", {"guest": [9001, "9001"]}, "role.guest[1]: guest 9001 is there twice"),
    ("role", {"guest": [9001], "host": list(range(300))}, "role: names 301 parties; 256 is the most"),
    ("job_parameters", [], "job_parameters: a list is not an object"),
    ("job_parameters", {"common": 3}, "job_parameters.common: 3 is not an object"),
    ("job_parameters", {"role": []}, "job_parameters.role: a list is not an object"),
    ("job_parameters", {"role": {"host": {"0": 1}}}, "job_parameters.role.host.0: 1 is not an object"),
    ("component_parameters", "x", "component_parameters: 'x' is not an object"),
    ("component_parameters", {"common": {"x": [1]}}, "component_parameters.common.x: a list is not an object"),
    ("component_parameters", {"role": {"host": {"all": {"x": 1}}}},
     "component_parameters.role.host.all.x: 1 is not an object"),
])
def test_a_wrong_conf_is_refused_with_the_path(path, value, message):
    assert message_of(conf=changed(a_conf(), path, value)) == f"job_runtime_conf.{message}"


@pytest.mark.parametrize(("conf", "problem"), [
    (None, "is missing"), (1, "1 is not an object"), ("x", "'x' is not an object"), ([], "a list is not an object"),
])
def test_a_conf_that_is_no_object_is_refused(conf, problem):
    found = fate_v1.problems(a_dsl(), conf, modules={}, defaults=JobParameters())
    assert found == [f"job_runtime_conf: {problem}"]


@pytest.mark.parametrize("version", [2, "2"])
def test_version_2_may_be_a_number_or_text(version):
    assert read(conf=a_conf(dsl_version=version)).conf["dsl_version"] == 2


@pytest.mark.parametrize(("sent", "kept"), [
    (9001, "9001"), ("9001", "9001"), ("0009001", "9001"), (0, "0"), ("0", "0"),
])
def test_party_ids_become_text_without_leading_zeros(sent, kept):
    conf = a_conf(initiator={"role": "guest", "party_id": sent}, role={"guest": [sent], "host": [sent]})
    assert read(conf=conf).parties == (Party("guest", kept), Party("host", kept))


def test_a_role_without_parties_is_no_role():
    assert read(conf=a_conf(role={"guest": [9001], "host": [], "arbiter": None})).parties == (GUEST,)


# ------------------------------------------------------------------ job parameters


@pytest.mark.parametrize(("key", "sent", "field", "kept"), [
    ("task_cores", 3, "task_cores", 3),
    ("task_cores", "3", "task_cores", 3),
    ("task_cores", 3.0, "task_cores", 3),
    ("task_cores", None, "task_cores", 4),
    ("task_parallelism", 5, "task_parallelism", 5),
    ("task_memory", 512, "task_memory", 512),
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
    ("job_type", "predict",
     "'predict' is not offered yet: it needs a store of deployed models; only train jobs run here"),
    ("job_type", "dance", "'dance' is not train"),
    ("inheritance_info", {"job_id": "1", "component_list": ["x"]},
     "taking over finished components of another job is not offered"),
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
    words = "is not a party's own, it holds for all of them: say it in job_parameters.common"
    assert problems_of(a_dsl(x=READER), conf)[:2] == [
        f"{place}.{key}: {words}", f"{place}.task_conf.x.{key}: {words}.task_conf.x"]


@pytest.mark.parametrize(("key", "value"), [
    ("timeout", 7), ("auto_retries", 1), ("auto_retry_delay", 1), ("federated_mode", "SINGLE"),
    ("federated_status_collect_type", "PULL"),
])
def test_what_fate_has_for_the_whole_job_has_no_effect_below_another_party(key, value):
    spec = with_job_parameters({}, host={"0": {key: value, "user": "x"}}, guest={"0": {key: value}})
    assert spec.warnings == (
        f"job_runtime_conf.job_parameters.role.host.0.{key}: has no effect: it holds for the whole job, as "
        "job_parameters.common has it",)


@pytest.mark.parametrize("empty", [{}, None, []])
def test_an_empty_inheritance_is_none(empty):
    assert with_job_parameters({"inheritance_info": empty}).warnings == ()


def test_a_party_has_the_job_parameters_of_its_role():
    spec = with_job_parameters({"task_cores": 2}, host={"all": {"task_cores": 6}, "1": {"task_parallelism": 3}})
    assert [spec.parameters[party].task_cores for party in spec.parties] == [2, 6, 6, 2]
    assert [spec.parameters[party].task_parallelism for party in spec.parties] == [1, 1, 3, 1]
    assert spec.common.task_cores == 2


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


# ------------------------------------------------------------------ who gets which parameters


def _value(block):
    return {"x": {"v": block}}


@pytest.mark.parametrize(("host_blocks", "first", "second"), [
    ({}, "common", "common"),
    ({"all": _value("all")}, "all", "all"),
    ({"0": _value("0")}, "0", "common"),
    ({"1": _value("1")}, "common", "1"),
    ({"0|1": _value("both")}, "both", "both"),
    ({"0": _value("0"), "all": _value("all")}, "0", "all"),
    ({"all": _value("all"), "0": _value("0")}, "0", "all"),
    ({"0": _value("0"), "0|1": _value("both")}, "0", "both"),
    ({"0|1": _value("both"), "1": _value("1")}, "both", "1"),
    ({"0|1": _value("both"), "1|0": _value("later")}, "later", "later"),
    ({"all": _value("all"), "0|1": _value("both")}, "both", "both"),
    ({"0|7": _value("half")}, "half", "common"),
    ({"7": _value("none")}, "common", "common"),
    ({"0|0": _value("0")}, "0", "common"),
    ({"all": {}}, "common", "common"),
    ({"all": None}, "common", "common"),
    ({"00": _value("0")}, "common", "common"),
    ({" 0": _value("0")}, "common", "common"),
    ({"0 | 1": _value("0")}, "common", "common"),
    ({"0|": _value("0")}, "common", "common"),
    ({"": _value("0")}, "common", "common"),
    ({"0\n": _value("0")}, "common", "common"),
    ({"ALL": _value("0")}, "common", "common"),
    ({"-1": _value("0")}, "common", "common"),
])
def test_the_block_that_counts_is_the_most_special_one(host_blocks, first, second):
    task = with_parameters(_value("common"), host=host_blocks).tasks["x"]
    assert [task.parameters[party]["v"] for party in task.parties] == ["common", first, second]


@pytest.mark.parametrize(("general", "special", "merged"), [
    ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
    ({"a": 1}, {"a": 2}, {"a": 2}),
    ({"a": {"x": 1, "y": 1}}, {"a": {"y": 2, "z": 2}}, {"a": {"x": 1, "y": 2, "z": 2}}),
    ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    ({"a": {"x": 1}}, {"a": 3}, {"a": 3}),
    ({"a": 3}, {"a": {"x": 1}}, {"a": {"x": 1}}),
    ({"a": 3}, {"a": None}, {"a": None}),
])
def test_objects_are_merged_and_all_else_is_replaced(general, special, merged):
    task = with_parameters({"x": general}, host={"0": {"x": special}}).tasks["x"]
    assert task.parameters[HOST] == merged
    assert task.parameters[GUEST] == task.parameters[SECOND_HOST] == general


@pytest.mark.parametrize(("parameters", "warning"), [
    ({"common": {"y": {}}}, "common.y: is not known; it is ignored"),
    ({"x": {}}, "x: is not known; it is ignored"),
    ({"role": {"local": {"0": {"x": {}}}}}, "role.local: the job has no such role; it is ignored"),
    ({"role": {"boss": {"0": {}}}}, "role.boss: the job has no such role; it is ignored"),
    ({"role": {"host": {"x": {}}}},
     'role.host.x: is not an index of job_runtime_conf.role.host ("0", "0|2" or "all"); it is ignored'),
    ({"role": {"host": {"0": {"y": {}}}}}, "role.host.0.y: is not known; it is ignored"),
])
def test_parameters_for_nobody_give_a_warning_and_are_an_error_in_strict_mode(parameters, warning):
    conf = a_conf(component_parameters=parameters)
    path = "job_runtime_conf.component_parameters."
    assert read(conf=conf).warnings == (path + warning,)
    assert message_of(conf=conf, strict=True) == path + warning.removesuffix("; it is ignored")


def test_an_index_beyond_the_list_gives_a_warning():
    spec = with_parameters({}, host={"1|2|30": {"x": {"v": 1}}})
    assert spec.warnings == (
        "job_runtime_conf.component_parameters.role.host.1|2|30: has no effect: the role has 2 of them, none at 2, 30",)
    assert spec.tasks["x"].parameters[SECOND_HOST] == {"v": 1}


def test_very_many_blocks_below_a_role_are_refused():
    conf = a_conf(component_parameters={"role": {"host": {str(number): {} for number in range(1001)}}})
    assert message_of(conf=conf) == "job_runtime_conf.component_parameters.role.host: has 1001 keys; 1000 is the most"


# ------------------------------------------------------------------ need_run and the modules' own checks


@pytest.mark.parametrize(("need_run", "passed"), [(False, {GUEST, HOST, SECOND_HOST}), (True, set()), (None, set())])
def test_need_run_says_where_a_task_passes(need_run, passed):
    task = with_parameters({"x": {"need_run": need_run, "v": 1}}).tasks["x"]
    assert task.passed_at == passed
    assert task.parameters[GUEST] == {"v": 1}


@pytest.mark.parametrize("value", ["false", 0, 1, [], {}])
def test_need_run_is_true_or_false(value):
    conf = a_conf(component_parameters={"role": {"host": {"all": {"x": {"need_run": value}}}}})
    message = message_of(conf=conf)
    assert message.startswith("job_runtime_conf.component_parameters.role.host.all.x.need_run: ")
    assert message.endswith(" is not true or false")


def test_what_a_module_refuses_is_refused_with_component_and_party():
    conf = a_conf(component_parameters={"role": {"host": {"1": {"x": {"cardinality_only": True}}}}})
    assert message_of(a_dsl(x={"module": "Intersection"}), conf) == (
        "job_runtime_conf.component_parameters: x at host 9004: cardinality_only: is not offered")


def test_parameters_do_not_matter_where_a_component_need_not_run():
    conf = a_conf(component_parameters={"common": {"x": {"cardinality_only": True, "need_run": False}}})
    assert read(a_dsl(x={"module": "Intersection"}), conf).tasks["x"].passed_at


def test_a_parameter_that_a_module_does_not_know_is_named_once():
    conf = a_conf(component_parameters={"common": {"x": {"odd": 1, "known": 2}}})
    dsl = a_dsl(x={"module": "Fussy"})
    text = "job_runtime_conf.component_parameters: x: odd has no effect"
    assert read(dsl, conf).warnings == (text,)
    assert message_of(dsl, conf, strict=True) == text


# ------------------------------------------------------------------ warnings


@pytest.mark.parametrize("key", ["work_mode", "backend"])
@pytest.mark.parametrize("strict", [False, True])
def test_work_mode_and_backend_give_the_warning_of_fate(key, strict):
    conf = a_conf(job_parameters={"common": {key: 0}, "role": {"host": {"0": {key: 1}}}})
    assert read(conf=conf, strict=strict).warnings == (REMOVED_KEYS_WARNING,)


@pytest.mark.parametrize(("path", "named"), [
    ("color", "job_runtime_conf.color"),
    ("initiator.color", "job_runtime_conf.initiator.color"),
    ("job_parameters.color", "job_runtime_conf.job_parameters.color"),
    ("job_parameters.common.color", "job_runtime_conf.job_parameters.common.color"),
    ("job_parameters.role.host.0.color", "job_runtime_conf.job_parameters.role.host.0.color"),
    ("evil\nkey\x1b[31m", "job_runtime_conf.'evil\\nkey\\x1b[31m'"),
    ("output_path", "job_runtime_conf.output_path"),
])
def test_an_unknown_key_is_ignored_and_named_and_an_error_in_strict_mode(path, named):
    conf = changed(a_conf(), path, 1)
    assert read(conf=conf).warnings == (f"{named}: is not known; it is ignored",)
    assert message_of(conf=conf, strict=True) == f"{named}: is not known"


@pytest.mark.parametrize("path", ["color", "initiator.color", "job_parameters.common.task_conf.y"])
def test_null_is_not_given(path):
    assert read(conf=changed(a_conf(), path, None), strict=True).warnings == ()


@pytest.mark.parametrize("path", ["color", "input.color", "output.color"])
def test_an_unknown_key_of_a_component_is_ignored_and_named(path):
    dsl = changed(a_dsl(), f"components.x.{path}", [])
    assert read(dsl).warnings == (f"dsl.components.x.{path}: is not known; it is ignored",)
    assert message_of(dsl, strict=True) == f"dsl.components.x.{path}: is not known"


@pytest.mark.parametrize("key", ["computing_engine", "model_id", "model_version", "roles", "engines_address"])
@pytest.mark.parametrize("strict", [False, True])
def test_what_the_servers_set_has_no_effect(key, strict):
    spec = read(conf=a_conf(job_parameters={"common": {key: "mine"}}), strict=strict)
    assert spec.warnings == (f"{COMMON}.{key}: has no effect: the servers set it",)
    assert key not in spec.common.extra


@pytest.mark.parametrize("key", ["conf_path", "dsl_path"])
def test_the_paths_of_the_client_are_of_no_interest(key):
    assert read(conf=a_conf(**{key: "/home/ann/x.json"}), strict=True).warnings == ()


@pytest.mark.parametrize(("provider", "is_ours"), [
    ("fate_flow", True), ("fate_flow@0.1.0", True), (None, True),
    ("fate", True), ("fate@1.11.2", True), ("fater", False), ("fate_flowers", False), (7, False),
])
def test_another_provider_gives_a_warning(provider, is_ours):
    in_dsl = read(a_dsl(x={"module": "Reader", "provider": provider}))
    in_conf = read(conf=a_conf(provider={"common": {"x": provider}}))
    at_hosts = read(conf=a_conf(provider={"role": {"host": {"all": {"x": provider}}}}))
    for spec, path in (
        (in_dsl, "dsl.components.x.provider"),
        (in_conf, "job_runtime_conf.provider.common.x"),
        (at_hosts, "job_runtime_conf.provider.role.host.all.x"),
    ):
        assert [warning.partition(": ")[0] for warning in spec.warnings] == ([] if is_ours else [path])


def test_of_very_many_warnings_the_first_are_kept():
    spec = read(conf=a_conf(**{f"color_{number}": 1 for number in range(150)}))
    assert len(spec.warnings) == 101
    assert spec.warnings[-1] == "... and 50 more"


def test_the_toy_of_the_genuine_client_is_an_error_in_strict_mode():
    assert "secure_add_example_0: is not an index" in message_of(TOY_DSL, TOY_CONF, strict=True)


# ------------------------------------------------------------------ the DSL


@pytest.mark.parametrize(("dsl", "message"), [
    ({}, "dsl.components: is missing"),
    ({"components": None}, "dsl.components: is missing"),
    ({"components": {}}, "dsl.components: has 0 components; 1 to 1000 make a job"),
    ({"components": []}, "dsl.components: a list is not an object"),
    ([], "dsl: a list is not an object"),
    ("{}", "dsl: '{}' is not an object"),
    (a_dsl(**{f"c{number}": {"module": "Reader"} for number in range(1001)}),
     "dsl.components: has 1001 components; 1 to 1000 make a job"),
    (a_dsl(x=None), "dsl.components.x: is missing"),
    (a_dsl(x=[]), "dsl.components.x: a list is not an object"),
    (a_dsl(x={}), "dsl.components.x.module: is missing"),
    (a_dsl(x={"module": 3}), None),
    (a_dsl(pipeline={"module": "Reader"}),
     "dsl.components.pipeline: the name stands for the whole job; another one is needed"),
    (a_dsl(x={"module": "Reader", "output": []}), "dsl.components.x.output: a list is not an object"),
    (a_dsl(x={"module": "Reader", "output": {"data": "raw"}}), "dsl.components.x.output.data: 'raw' is not a list"),
    (a_dsl(x={"module": "Reader", "output": {"data": {"raw": 1}}}),
     "dsl.components.x.output.data: an object is not a list"),
    (a_dsl(x={"module": "Reader", "output": {"data": ["a", "a"]}}),
     "dsl.components.x.output.data[1]: 'a' is there twice"),
])
def test_a_wrong_dsl_is_refused_with_the_path(dsl, message):
    found = message_of(dsl)
    assert found == message if message else found.startswith("dsl.components.x.module: 3 is not known here")


def test_an_unknown_module_is_refused_and_the_known_ones_are_named():
    assert message_of(a_dsl(x={"module": "Foo"})) == (
        "dsl.components.x.module: 'Foo' is not known here; known: DataTransform, Evaluation, Fussy, HeteroLR, "
        "HeteroSecureBoost, Intersection, Reader, SecureAddExample, Upload; components of FATE that train or "
        "predict run on FATE's own server")


@pytest.mark.parametrize("name", ["x", "A-1_b", "_", "0", "a" * 30])
def test_a_component_name_that_is_right(name):
    assert list(read(a_dsl(**{name: {"module": "Reader"}})).tasks) == [name]


@pytest.mark.parametrize("name", ["", "a" * 31, "-x", "--help", "a.b", "a b", "a/b", "..", "x\n", "é", "a\x00b"])
def test_a_component_name_that_is_wrong(name):
    message = message_of(a_dsl(**{name: {"module": "Reader"}}))
    assert message.startswith("dsl.components: ")
    assert "is not a component name (1 to 30 of letters, digits, _ and -, no - first; " in message
    assert "FATE's own tables have room for 30)" in message
    assert message.isprintable()


@pytest.mark.parametrize("alias", ["", "a.b", "../x", "a" * 31, 3, None, "a\n"])
def test_an_output_alias_that_is_wrong(alias):
    assert message_of(a_dsl(x={"module": "Reader", "output": {"data": [alias]}})).startswith(
        "dsl.components.x.output.data[0]: ")


def _after(**inputs):
    """A DSL with a component that takes these inputs."""
    return a_dsl(x=READER, y={"module": "DataTransform", "input": inputs})


@pytest.mark.parametrize(("inputs", "message"), [
    ({"data": ["x.raw"]}, "input.data: a list is not an object"),
    ({"data": {"data": "x.raw"}}, "input.data.data: 'x.raw' is not a list"),
    ({"data": {"data": [7]}}, "input.data.data[0]: 7 is not <component>.<output>"),
    ({"data": {"data": ["raw"]}}, "input.data.data[0]: 'raw' is not <component>.<output>"),
    ({"data": {"data": ["x.raw.more"]}}, "input.data.data[0]: 'x.raw.more' is not <component>.<output>"),
    ({"data": {"data": ["x.raw", "z.raw"]}}, "input.data.data[1]: 'z.raw': there is no component 'z'"),
    ({"data": {"data": ["x.row"]}}, "input.data.data[0]: 'x.row': the data outputs of x are: raw"),
    ({"data": {"data": ["x.m"]}}, "input.data.data[0]: 'x.m': the data outputs of x are: raw"),
    ({"model": {"a": 1}}, "input.model: an object is not a list"),
    ({"model": ["x.raw"]}, "input.model[0]: 'x.raw': the model outputs of x are: m"),
    ({"isometric_model": ["x.c"]}, "input.isometric_model[0]: 'x.c': the model outputs of x are: m"),
    ({"cache": ["x.m"]}, "input.cache[0]: 'x.m': the cache outputs of x are: c"),
    ({"model": ["pipeline.x.m"]},
     "input.model[0]: 'pipeline.x.m' is a stored model, and there is no store of models yet"),
    ({"data": {"a b": ["x.raw"]}}, "input.data.'a b': 'a b' is not an output name "
     "(1 to 30 of letters, digits, _ and -, no - first; FATE's own tables have room for 30)"),
    ({"data": {"data": ["y.raw"]}}, "input.data.data[0]: 'y.raw': the data outputs of y are: none"),
])
def test_a_wrong_input_is_refused_with_the_path(inputs, message):
    assert message_of(_after(**inputs)) == f"dsl.components.y.{message}"


@pytest.mark.parametrize(("inputs", "kind", "key"), [
    ({"data": {"data": ["x.raw"]}}, "data", "data"),
    ({"data": {"train_data": ["x.raw"]}}, "data", "train_data"),
    ({"data": {"validate_data": ["x.raw"]}}, "data", "validate_data"),
    ({"data": {"test_data": ["x.raw"]}}, "data", "test_data"),
    ({"data": {"eval_data": ["x.raw"]}}, "data", "eval_data"),
    ({"model": ["x.m"]}, "model", "model"),
    ({"isometric_model": ["x.m"]}, "isometric_model", "isometric_model"),
    ({"cache": ["x.c"]}, "cache", "cache"),
])
def test_every_kind_of_input_makes_an_edge(inputs, kind, key):
    spec = read(_after(**inputs), strict=True)
    task = spec.tasks["y"]
    assert [(one.kind, one.key) for one in task.inputs] == [(kind, key)]
    assert task.upstream == {"x"}


def test_an_unusual_data_key_is_used_with_a_warning():
    spec = read(_after(data={"left": ["x.raw"]}))
    assert spec.tasks["y"].upstream == {"x"}
    assert len(spec.warnings) == 1
    assert spec.warnings[0].startswith("dsl.components.y.input.data.left: is not one of data, eval_data")
    assert message_of(_after(data={"left": ["x.raw"]}), strict=True).startswith("dsl.components.y.input.data.left: ")


@pytest.mark.parametrize("inputs", [{}, {"data": {}}, {"data": {"data": []}}, {"data": None, "model": None}])
def test_no_input_makes_no_edge(inputs):
    assert read(_after(**inputs)).tasks["y"].inputs == ()


def test_one_input_may_have_several_sources():
    task = read(_after(data={"data": ["x.raw", "x.raw"]})).tasks["y"]
    assert [source.alias for source in task.inputs[0].sources] == ["raw", "raw"]


def test_components_may_stand_in_any_order():
    dsl = a_dsl(
        c={"module": "DataTransform", "input": {"data": {"data": ["b.raw"]}}},
        b={**READER, "input": {"data": {"data": ["a.raw"]}}},
        a=READER)
    assert list(read(dsl).tasks) == ["a", "b", "c"]


def test_a_loop_is_refused_and_drawn():
    dsl = a_dsl(
        a={**READER, "input": {"data": {"data": ["b.raw"]}}},
        b={**READER, "input": {"model": ["a.m"]}})
    assert message_of(dsl) in ("dsl.components: a->b form a loop", "dsl.components: b->a form a loop")


def test_a_component_that_takes_from_itself_is_a_loop():
    assert message_of(a_dsl(a={**READER, "input": {"data": {"data": ["a.raw"]}}})) == "dsl.components: a form a loop"


def test_a_component_that_runs_nowhere_is_refused():
    assert message_of(a_dsl(x={"module": "Upload"})) == (
        "dsl.components.x.module: 'Upload' runs at local; the job has only guest, host, arbiter")


# ------------------------------------------------------------------ who may be what


@pytest.mark.parametrize(("module", "roles", "is_refused"), [
    ("HeteroLR", {"guest": [1], "arbiter": [1], "host": [2]}, True),
    ("HeteroLR", {"guest": [1], "arbiter": [1]}, True),
    ("HeteroLR", {"guest": [1], "arbiter": [1], "host": [1]}, False),
    ("HeteroLR", {"guest": [1], "arbiter": [1], "host": [2, 1]}, False),
    ("HeteroLR", {"guest": [1], "arbiter": [3], "host": [2]}, False),
    ("HeteroLR", {"guest": [1], "arbiter": [2], "host": [2]}, False),
    ("HeteroSecureBoost", {"guest": [1], "arbiter": [1], "host": [2]}, False),
    ("Reader", {"guest": [1], "arbiter": [1], "host": [2]}, False),
])
def test_a_guest_that_is_arbiter_must_be_host_for_some_algorithms(module, roles, is_refused):
    conf = a_conf(initiator={"role": "guest", "party_id": 1}, role=roles)
    found = problems_of(a_dsl(x={"module": module}), conf)
    assert found == ([
        "job_runtime_conf.role: 1 is guest and arbiter at once; x (HeteroLR) needs it to be a host as well, "
        "or another arbiter"] if is_refused else [])


# ------------------------------------------------------------------ size and sanity


def _nested(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(("value", "problem"), [
    (_nested(80), "is more than 64 levels deep"),
    ([0] * 100_001, "is too big: a document has at most 100000 values and 4000000 characters"),
    ("x" * 4_000_001, "is too big: a document has at most 100000 values and 4000000 characters"),
    (float("nan"), "nan is not JSON"),
    (float("inf"), "inf is not JSON"),
    (10**5000, "a very long number is not JSON"),
    ({1, 2}, "a set is not JSON"),
    (b"x", "a bytes is not JSON"),
    ((1, 2), "a tuple is not JSON"),
    ("\ud800", "'\\ud800' is not text"),
    ({"\udfff": 1}, "'\\udfff' is not text"),
    ({1: 2}, "1 is not text"),
], ids=range(12))
def test_what_is_no_json_of_a_sane_size_is_refused(value, problem):
    conf = a_conf(component_parameters={"common": {"x": {"v": value}}})
    message = message_of(conf=conf)
    assert message.startswith("job_runtime_conf.component_parameters.common.x.v")
    assert message.endswith(problem)
    assert len(message) < 1000


def test_a_document_that_contains_itself_is_too_deep():
    conf = a_conf()
    conf["self"] = conf
    assert message_of(conf=conf).endswith("is more than 64 levels deep")


def test_a_dsl_has_the_same_limits():
    assert message_of(a_dsl(x=_nested(80))).endswith("is more than 64 levels deep")


def test_too_many_tasks_over_all_parties_are_refused():
    dsl = a_dsl(**{f"c{number}": {"module": "Reader"} for number in range(201)})
    conf = a_conf(role={"guest": [9001], "host": list(range(1, 101))})
    assert message_of(dsl, conf) == "job_runtime_conf: makes 20301 tasks over all parties; 20000 is the most"


def test_a_conf_that_would_grow_with_its_parties_is_refused():
    many = {f"p{number}": 1 for number in range(20_000)}
    conf = a_conf(role={"guest": [9001], "host": list(range(1, 61))}, component_parameters={"common": {"x": many}})
    assert message_of(conf=conf).startswith("job_runtime_conf: has 200")
    assert message_of(conf=conf).endswith(" values, too many for 61 parties")


def test_text_in_a_message_is_cut_and_printable():
    conf = a_conf(job_parameters={"common": {"task_cores": "\x1b[31m\u202e" + "z" * 10_000}})
    message = message_of(conf=conf)
    assert len(message) < 250
    assert message.isprintable()


# ------------------------------------------------------------------ all problems at once


def test_all_problems_are_named_at_once():
    dsl = a_dsl(x={"module": "Foo"}, y={"module": "Reader", "output": {"data": "raw"}})
    parameters = {"common": {"task_cores": 0}, "role": {"host": {"0": {"timeout": "x"}}}}
    conf = a_conf(dsl_version=1, job_parameters=parameters)
    assert [message.partition(": ")[0] for message in problems_of(dsl, conf)] == [
        "job_runtime_conf.dsl_version",
        "job_runtime_conf.job_parameters.common.task_cores",
        "job_runtime_conf.job_parameters.role.host.0.timeout",
        "dsl.components.x.module",
        "dsl.components.y.output.data",
    ]


def test_a_component_that_is_wrong_is_not_said_to_be_missing():
    takes = {"module": "DataTransform", "input": {"data": {"data": ["x.raw", "-x.raw"]}}}
    found = problems_of(a_dsl(**{"x": {**READER, "module": "Foo"}, "-x": READER, "y": takes}))
    assert [message.partition(": ")[0] for message in found] == ["dsl.components.x.module", "dsl.components"]


def test_the_first_of_the_problems_is_what_parse_raises():
    conf = a_conf(dsl_version=1, role={})
    assert problems_of(conf=conf)[0] == message_of(conf=conf)


def test_documents_that_are_right_have_no_problems():
    assert problems_of() == []


def test_strict_problems_come_with_the_others():
    assert problems_of(conf=a_conf(color=1, dsl_version=3), strict=True) == [
        "job_runtime_conf.color: is not known",
        "job_runtime_conf.dsl_version: 3 is not 2: only the v2 version runtime conf is supported"]
