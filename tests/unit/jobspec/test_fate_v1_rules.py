"""One table for each rule of the v1 adapter."""

from __future__ import annotations

import pytest

from fate_flow.core.model.spec import JobParameters, Party
from fate_flow.jobspec.fate_v1.job_parameters import REMOVED_KEYS_WARNING
from tests.kit.jobspec.fate_v1_documents import (
    GUEST,
    TOY_CONF,
    TOY_DSL,
    a_conf,
    a_dsl,
    changed,
    problems,
    problems_of,
    read,
)
from tests.kit.jobspec.fate_v1_problems import COMMON, READER, message_of


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
    found = problems(a_dsl(), conf, modules={}, defaults=JobParameters())
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
