"""Which parameters a component gets at which party, and where it need not run."""

from __future__ import annotations

import itertools

import pytest

from tests.kit.jobspec.fate_v1_documents import GUEST, HOST, SECOND_HOST, a_conf, a_dsl, read, with_parameters
from tests.kit.jobspec.fate_v1_problems import message_of


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
    ({"0|1": _value("both"), "1|0": _value("higher")}, "higher", "higher"),
    ({"1|0": _value("higher"), "0|1": _value("both")}, "higher", "higher"),
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


def test_the_order_of_keys_never_decides_what_a_party_gets():
    """The digest that binds a job does not contain that order, so another meaning would run unseen."""
    blocks = {name: _value(name) for name in ("0|1", "1|0", "0", "0|7", "all")}
    found = set()
    for order in itertools.permutations(blocks.items()):
        task = with_parameters(_value("common"), host=dict(order)).tasks["x"]
        found.add(tuple(task.parameters[party]["v"] for party in task.parties))
    assert found == {("common", "0|7", "1|0")}


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
