"""A native job file, and the two documents that it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.document import FATE_V1, JobDocument
from fate_flow.core.model.retry import Backoff, RetryEvent, RetryRule
from fate_flow.core.model.spec import OwnResources
from fate_flow.jobspec import formats
from fate_flow.jobspec.fate_v1.model_name import with_model
from fate_flow.jobspec.formats import FORMATS, NATIVE
from fate_flow.jobspec.native.schema import JOB
from fate_flow.jobspec.text.document import MAX_DEPTH
from fate_flow.jobspec.text.lines import Lines
from tests.kit.jobspec.fate_v1_documents import DEFAULTS, GUEST, HOST, MODULES, SECOND_HOST, TWO_CONF, TWO_DSL
from tests.kit.jobspec.native_documents import FULL, RETRY, SMALL, a_file, spec_of, translated, with_task, wrong_with
from tests.kit.jobspec.parsing import parse

# ---------------------------------------------------------------------- what it means


def test_a_file_says_what_two_documents_said():
    table = {"namespace": "demo"}
    document = {
        "version": 1, "initiator": "guest 9001", "parties": {"guest": [9001], "host": [9002]},
        "resources": {"cores": 2, "parallelism": 1}, "timeout": 3600,
        "tasks": {
            "reader_0": {"component": "Reader", "outputs": {"data": ["raw"]}, "at": {
                "guest": {"parameters": {"table": {**table, "name": "site_a"}}},
                "host": {"parameters": {"table": {**table, "name": "site_b"}}}}},
            "prep_0": {"component": "DataTransform", "inputs": {"data": {"data": ["reader_0.raw"]}},
                       "outputs": {"data": ["clean"], "model": ["prep_model"]}, "at": {
                "guest": {"parameters": {"with_label": True, "label_name": "y", "output_format": "dense"}},
                "host": {"parameters": {"with_label": False, "output_format": "dense"}}}},
            "match_0": {"component": "Intersection", "inputs": {"data": {"data": ["prep_0.clean"]}},
                        "outputs": {"data": ["joined"]}, "parameters": {"intersect_method": "raw"}},
        },
    }
    conf = {**TWO_CONF, "job_parameters": {"common": {"task_cores": 2, "task_parallelism": 1, "timeout": 3600}}}
    theirs, ours = parse(TWO_DSL, conf, modules=MODULES, defaults=DEFAULTS), spec_of(document)
    assert (ours.tasks, ours.parameters, ours.parties) == (theirs.tasks, theirs.parameters, theirs.parties)


def test_name_and_description_stand_beside_the_documents():
    job = translated(a_file(name="one", description="two"))
    assert not {"name", "description"} & job.runtime_conf.keys()


def test_resources_may_differ_at_a_role_and_at_a_party():
    spec = spec_of(a_file(
        resources={"cores": 1, "memory": 10}, task_timeout=5,
        at={"host": {"resources": {"cores": 2}}, "host 9004": {"resources": {"cores": 3}, "task_timeout": 6}},
    ))
    assert [spec.parameters[party].task_cores for party in (GUEST, HOST, SECOND_HOST)] == [1, 2, 3]
    assert [spec.parameters[party].task_memory for party in (GUEST, HOST, SECOND_HOST)] == [10, 10, 10]
    assert [spec.tasks["read"].timeout_at(party) for party in (GUEST, HOST, SECOND_HOST)] == [5, 5, 6]


def test_a_job_says_how_long_its_workers_may_wait_for_a_place_party_by_party():
    at = {"host 9004": {"resources": {"longest_pending": 5}}}
    spec = spec_of(a_file(resources={"longest_pending": 60.5}, at=at))
    waits = [spec.parameters[party].longest_pending_seconds for party in (GUEST, HOST, SECOND_HOST)]
    assert waits == [60.5, 60.5, 5]
    assert wrong_with(a_file(resources={"longest_pending": -1})) == ["resources.longest_pending: -1 is less than 0"]


def test_a_task_may_state_resources_of_its_own_which_may_differ_at_a_party():
    file = with_task(resources={"cores": 4, "queue": "big"}, at={"host 9004": {"resources": {"cores": 6, "gpus": 2}}})
    spec = spec_of({**file, "resources": {"cores": 1, "memory": 10, "queue": "small"}})
    task = spec.tasks["read"]
    assert [task.resources_at(one) for one in (GUEST, SECOND_HOST)] == [
        OwnResources(cores=4, queue="big"), OwnResources(cores=6, gpus=2, queue="big")]
    found = spec.parameters_of(task, SECOND_HOST)
    assert (found.task_cores, found.task_memory, found.task_gpus, found.queue) == (6, 10, 2, "big")
    assert wrong_with(with_task(resources={"parallelism": 2})) == [
        "tasks.read.resources.parallelism: is not known; known here: cores, memory, gpus, queue, labels"]


def test_a_party_is_stronger_than_its_role_whatever_their_order():
    spec = spec_of(with_task(
        parameters={"a": 0, "b": {"c": 0, "d": 0}}, timeout=1,
        at={"host 9004": {"parameters": {"a": 2, "b": {"c": 2}}, "timeout": 2},
            "host": {"parameters": {"a": 1}, "run": False, "timeout": 3}},
    ))
    task = spec.tasks["read"]
    assert task.parameters[GUEST] == {"a": 0, "b": {"c": 0, "d": 0}}
    assert task.parameters[SECOND_HOST] == {"a": 2, "b": {"c": 2, "d": 0}}
    assert task.passed_at == {HOST, SECOND_HOST}
    assert [task.timeout_at(party) for party in (GUEST, HOST, SECOND_HOST)] == [1, 3, 2]


def test_what_a_job_leaves_goes_after_its_ttl():
    assert spec_of(a_file(ttl=3_600)).ttl_seconds == 3_600
    assert spec_of(a_file()).ttl_seconds is None
    assert wrong_with(a_file(ttl=59)) == ["ttl: 59 is less than 60"]


def test_a_job_may_bound_the_failed_workers_of_all_its_tasks():
    assert spec_of(a_file(max_failed_workers=0)).max_failed_workers == 0
    assert spec_of(a_file()).max_failed_workers is None
    assert wrong_with(a_file(max_failed_workers=-1)) == ["max_failed_workers: -1 is less than 0"]


def test_a_number_that_is_there_in_two_spellings_is_there_twice():
    assert wrong_with(a_file(parties={"guest": [9001, 9001.0]})) == ["parties.guest[1]: 9001.0 is there twice"]


def test_retry_and_stop_duration_are_those_of_the_fate_documents():
    spec = spec_of(a_file(
        retry=RETRY, stop_duration=5, tasks={"a": {"component": "Reader"}, "b": {
            "component": "Reader", "retry": {"max_attempts": 5}, "stop_duration": 6.5}}))
    rule = RetryRule(frozenset({RetryEvent.ERROR}), 2, 4, 60.5, Backoff(1, 2, 9, 0.5))
    assert (spec.tasks["a"].retry, spec.tasks["a"].stop_seconds) == (rule, 5)
    assert (spec.tasks["b"].retry.max_attempts, spec.tasks["b"].stop_seconds) == (5, 6.5)
    assert spec.tasks["b"].retry.backoff == rule.backoff


def test_other_parties_read_the_same_job_in_what_they_are_sent():
    document = a_file(retry=RETRY, stop_duration=5, tasks={"a": {"component": "Reader", "retry": {"max_attempts": 9}}})
    spec = spec_of(document)
    again = parse(spec.dsl, spec.conf, modules=MODULES, defaults=replace(DEFAULTS, auto_retries=7), strict=True)
    assert (again.tasks, again.retry) == (spec.tasks, spec.retry)


def test_other_parties_read_the_same_job_in_the_file_with_defaults():
    document = JobDocument(NATIVE, a_file(
        resources={"memory": 7}, tasks={"a": {"component": "Reader", "retry": {"max_attempts": 9}}}))
    spec = formats.parse(document, modules=MODULES, defaults=replace(DEFAULTS, auto_retries=7, task_cores=3))
    sent = FORMATS[NATIVE].completed(document, spec, "2026010112000000000000001")
    again = formats.parse(sent, modules=MODULES, defaults=replace(DEFAULTS, task_timeout_seconds=9))
    assert (again.tasks, again.parameters, again.retry) == (spec.tasks, spec.parameters, spec.retry)
    assert (sent.body, sent.defaults["task_cores"], "task_memory" in sent.defaults) == (document.body, 3, False)
    dsl, conf = FORMATS[NATIVE].as_fate_v1(sent, spec)
    assert (dsl, conf) == FORMATS[NATIVE].as_fate_v1(sent, again)
    assert conf == with_model(spec.conf, spec.roles, "2026010112000000000000001")
    assert FORMATS[NATIVE].completed(sent, again, "2026010112000000000000001") == sent


@pytest.mark.parametrize(("defaults", "problem"), [
    ({"retry": {"max_attempts": 9}}, "defaults.retry: is not known"),
    ({"task_cores": 0}, "resources.cores: 0 is not a whole number above 0"),
    ({"task_timeout": "x"}, "task_timeout: 'x' is not a whole number of 0 or more"),
])  # fmt: skip
def test_defaults_of_a_file_are_checked(defaults, problem):
    document = JobDocument(NATIVE, a_file(), defaults)
    [found] = formats.parse_or_problems(document, modules=MODULES, defaults=DEFAULTS)[1]
    assert found.startswith(problem)


def test_the_file_has_precedence_over_its_defaults():
    document = JobDocument(NATIVE, a_file(resources={"cores": 2}), {"task_cores": 5})
    spec = formats.parse(document, modules=MODULES, defaults=DEFAULTS)
    assert spec.common.task_cores == 2
    assert FORMATS[NATIVE].as_fate_v1(document, spec)[1]["job_parameters"]["common"]["task_cores"] == 2


def test_the_digest_covers_format_file_and_defaults():
    one = JobDocument(NATIVE, a_file(), {"task_cores": 1})
    as_fate_v1 = JobDocument(FATE_V1, {"dsl": {}, "runtime_conf": {}})
    others = [as_fate_v1, replace(one, defaults={"task_cores": 2}), replace(one, body=a_file(timeout=5))]
    assert len({formats.digest_of(document) for document in (one, *others)}) == 4
    assert formats.digest_of(one) == formats.digest_of(replace(one, body=dict(reversed(one.body.items()))))


def test_a_file_is_not_changed_by_reading_it():
    document = a_file(FULL)
    translated(document)
    assert document == FULL


# ---------------------------------------------------------------------- every key has its place


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that holds no others, with its path."""
    if isinstance(value, (dict, list)) and value:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inside in pairs:
            name = str(key) if {" ", "."}.isdisjoint(str(key)) else repr(key)
            piece = f"[{key}]" if isinstance(value, list) else f".{name}"
            yield from leaves(inside, path + piece)
    else:
        yield path.removeprefix("."), value


def properties(schema: Any, path: str = "") -> Iterator[str]:
    """The path of every key that the schema names, with * for those that the user names."""
    if "$ref" in schema:
        schema = JOB["$defs"][schema["$ref"].rpartition("/")[2]]
    for key, inside in schema.get("properties", {}).items():
        yield f"{path}{key}"
        yield from properties(inside, f"{path}{key}.")
    for inside in schema.get("patternProperties", {}).values():
        yield from properties(inside, f"{path}*.")


def test_the_full_file_says_all_that_can_be_said():
    def there(document: Any, path: list[str]) -> bool:
        if not path:
            return True
        if not isinstance(document, dict):
            return False
        keys = document if path[0] == "*" else {path[0]} & document.keys()
        return any(there(document[key], path[1:]) for key in keys)

    structure = [
        path for path in properties(JOB)
        if ".parameters." not in path        # below it, what editors offer
        and not path.endswith(".model.deployment")      # the server that takes the file writes id and version instead
    ]
    assert [path for path in structure if not there(FULL, path.split("."))] == []


def test_every_path_of_the_documents_leads_back_to_where_its_value_stands():
    job, said = translated(FULL), dict(leaves(FULL))
    documents = {"job_runtime_conf": job.runtime_conf, "dsl": job.dsl}
    reached = set()
    for path, value in leaves(documents):
        native = job.paths.of(path)
        if native == "initiator":
            assert str(value) in said[native]
        elif native != "dsl_version":          # the one thing that only FATE needs to be told
            assert said[native] == value, f"{path} is told as {native}"
        reached.add(native)
    # the stage of the job is for tasks without one whose component has it; here, the only component with stages has one
    assert said.keys() - reached == {"version", "name", "description", "stage"}


@pytest.mark.parametrize(("path", "native"), [
    ("job_runtime_conf", "the job file"), ("job_runtime_conf.role", "parties"),
    ("job_runtime_conf.initiator.party_id", "initiator"), ("job_runtime_conf.initiator", "initiator"),
    ("job_runtime_conf.role.host[1]", "parties.host[1]"), ("dsl", "tasks"), ("dsl.components", "tasks"),
    ("dsl.components.fit", "tasks.fit"), ("dsl.components.fit.input.data.data[0]", "tasks.fit.inputs.data.data[0]"),
    ("job_runtime_conf.job_parameters.common", "the job file"), ("job_runtime_conf.job_parameters.common.else", "else"),
    ("job_runtime_conf.job_parameters.common.retry.backoff.first", "retry.backoff.first"),
    ("job_runtime_conf.job_parameters.common.task_conf.fit", "tasks.fit"),
    ("job_runtime_conf.job_parameters.common.policies[0].event", "policies[0].event"),
    ("job_runtime_conf.component_parameters.common.fit.alpha.beta[1]", "tasks.fit.parameters.alpha.beta[1]"),
    ("job_runtime_conf.component_parameters.role.host.1.fit.gamma", "tasks.fit.at.'host 9004'.parameters.gamma"),
    ("elsewhere.role", "elsewhere.role"),
])  # fmt: skip
def test_a_path_between_and_below_is_known_too(path, native):
    assert translated(FULL).paths.of(path) == native


def test_the_parameters_of_a_task_have_a_path():
    paths = translated(FULL).paths
    assert paths.of_parameters("fit") == "tasks.fit.parameters"
    assert paths.of_parameters("fit", "host 9002") == "tasks.fit.parameters: at host 9002"


def test_resources_that_the_file_does_not_name_have_a_path():
    place = "job_runtime_conf.job_parameters.common.task_parallelism"
    assert translated(a_file()).paths.of(place) == "resources.parallelism"


def test_a_message_ends_with_the_line_of_its_path_or_of_the_next_above():
    lines = Lines({"tasks.fit": 7, "tasks.fit.timeout": 9, "at": 3, "tasks.fit.at.'host 9004'": 11, "names": 3})
    assert lines.in_message("tasks.fit.component: is bad") == "tasks.fit.component: is bad (line 7)"
    assert lines.in_message("host 9002: tasks.fit.timeout: x").endswith("x (line 9)")
    assert lines.in_message("too much at guest 1 (resources.cores, tasks.fit.timeout)").endswith("(line 9)")
    assert lines.in_message("tasks.fit.at.'host 9004'.timeout: x").endswith("(line 11)")
    assert lines.in_message("parties: is bad at host 9002: so") == "parties: is bad at host 9002: so"
    assert lines.in_message("names: is not known; did you mean name").endswith("(line 3)")
    assert lines.after_path("tasks.fit.retry.max_attempts") == "tasks.fit.retry.max_attempts (line 7)"
    assert Lines().in_message("tasks.fit: is bad") == "tasks.fit: is bad"


# ---------------------------------------------------------------------- what is wrong with its shape


@pytest.mark.parametrize(("document", "problem"), [
    (a_file(FULL, tasks={"train": {"component": "Reader", "retry": {"max_atempts": 3}}}),
     "tasks.train.retry.max_atempts: is not known; did you mean max_attempts"),
    ([], "the job file: a list is not an object"),
    (None, "the job file: null is not an object"),
    (a_file(version=2), "version: 2 is not 1"), (a_file(version=None), "version: is missing"),
    (a_file(version=True), "version: true is not 1"), (a_file(initiator=None), "initiator: is missing"),
    (a_file(parties=None), "parties: is missing"), (a_file(tasks=None), "tasks: is missing"),
    (a_file(tasks={}), "tasks: is empty"),
    (a_file(initiator="9001"), "initiator: '9001' is a number without a role; write guest 9001"),
    (a_file(initiator="guest 09001"), "initiator: 'guest 09001' is not a party of the job, such as guest 9999"),
    (a_file(initiator="guest 9001\n"), "initiator: 'guest 9001\\n' is not a party of the job, such as guest 9999"),
    (a_file(parties={"gust": [1]}), "parties.gust: is not known; did you mean guest"),
    (a_file(parties={"guest": 9001}), "parties.guest: 9001 is not a list"),
    (a_file(parties={"guest": []}), "parties.guest: is empty"),
    (a_file(parties={"guest": [9001, 9001]}), "parties.guest[1]: 9001 is there twice"),
    (a_file(parties={"guest": ["x"]}), "parties.guest[0]: 'x' is not the number of a party"),
    (a_file(parties={"guest": [-1]}), "parties.guest[0]: -1 is less than 0"),
    (a_file(parties={"guest": [10**10]}), "parties.guest[0]: 10000000000 is more than 9999999999"),
    (a_file(parties={"guest": [True]}), "parties.guest[0]: true is not a whole number or text"),
    (a_file(resources={"core": 1}), "resources.core: is not known; did you mean cores"),
    (a_file(resources={"cores": 0}), "resources.cores: 0 is less than 1"),
    (a_file(resources={"cores": "2"}), "resources.cores: '2' is not a whole number"),
    (a_file(resources={"cores": 1.5}), "resources.cores: 1.5 is not a whole number"),
    (a_file(timeout=0), "timeout: 0 is less than 1"), (a_file(task_timeout=-1), "task_timeout: -1 is less than 0"),
    (a_file(name="x" * 501), "name: has 501 characters, 500 is the most"),
    (a_file(stop_duration=-1), "stop_duration: -1 is less than 0"),
    (a_file(stop_duration=True), "stop_duration: true is not a number"),
    (a_file(retry=3), "retry: 3 is not an object"),
    (a_file(retry={"on_events": []}), "retry.on_events: is empty"),
    (a_file(retry={"on_events": ["eror"]}),
     "retry.on_events[0]: 'eror' is not one of no_capacity, interruption, error, timeout"),
    (a_file(retry={"backoff": {"jitter": 2}}), "retry.backoff.jitter: 2 is more than 1"),
    (a_file(at={"hosts": {}}), "at.hosts: 'hosts' is not a role or a party, such as host or host 10001"),
    (a_file(at={"host": {"timeout": 1}}), "at.host.timeout: is not known; did you mean task_timeout"),
    (a_file(tasks={"-x": {"component": "Reader"}}),
     "tasks.-x: '-x' is not a name of 1 to 30 letters, digits, _ and -, no - first"),
    (with_task(component=""), "tasks.read.component: is empty"),
    (a_file(tasks={"read": {}}), "tasks.read.component: is missing"),
    (with_task(parameters=[1]), "tasks.read.parameters: a list is not an object"),
    (with_task(at={"guest": {"run": "no"}}), "tasks.read.at.guest.run: 'no' is not true or false"),
    (with_task(inputs=["x.y"]), "tasks.read.inputs: a list is not an object"),
    (with_task(inputs={"data": 7}), "tasks.read.inputs.data: 7 is not an object or a list or text"),
    (with_task(inputs={"data": []}), "tasks.read.inputs.data: is empty"),
    (with_task(inputs={"eval_data": "x"}), "tasks.read.inputs.eval_data: 'x' is not <task>.<output>"),
    (with_task(stage="predicted"), "tasks.read.stage: 'predicted' is not one of default, train, predict, cross_valid"),
    (with_task(inputs={"data": {"data": ["x"]}}), "tasks.read.inputs.data.data[0]: 'x' is not <task>.<output>"),
    (with_task(outputs={"data": ["a", "a"]}), "tasks.read.outputs.data[1]: 'a' is there twice"),
    (with_task(zzz=1), "tasks.read.zzz: is not known; known here: component, inputs, outputs"),
    (a_file(name=1e400), "name: inf is not JSON"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_path_value_and_what_would_be_right(document, problem):
    [found] = wrong_with(document)
    assert found.startswith(problem)


def test_all_that_is_wrong_is_told_at_once():
    assert len(wrong_with(a_file(timeout=0, retry={"duration": -1, "x": 1}, tasks={"a": {}}))) == 4


def test_a_file_without_a_bottom_is_refused():
    endless: dict[str, Any] = {}
    endless["tasks"] = endless
    [problem] = wrong_with(endless)
    assert problem.endswith(f"is more than {MAX_DEPTH} levels deep")


# ---------------------------------------------------------------------- what is wrong with its content


@pytest.mark.parametrize(("document", "problem"), [
    (with_task(at={"arbiter": {}}), "tasks.read.at.arbiter: the job has no arbiter (parties)"),
    (with_task(at={"host 9003": {}}), "tasks.read.at.'host 9003': is none of parties.host: 9002, 9004"),
    (a_file(at={"guest 9002": {}}), "at.'guest 9002': is none of parties.guest: 9001"),
    (with_task(parameters={"need_run": False}),
     "tasks.read.parameters.need_run: cannot be set here; use run, below at"),
    (with_task(at={"host": {"parameters": {"need_run": False}}}),
     "tasks.read.at.host.parameters.need_run: cannot be set here; use run, below at"),
    (a_file(initiator="host 9001"), "initiator: host 9001 is not in parties.host"),
    (a_file(parties={"guest": [9001, "9001"]}), "parties.guest[1]: guest 9001 is there twice"),
    (with_task(component="Reder"), "tasks.read.component: 'Reder' is not known here; known:"),
    (with_task(component="Upload"), "tasks.read.component: 'Upload' runs at local; the job has only guest, host"),
    (with_task(inputs={"data": {"data": ["no.raw"]}}), "tasks.read.inputs.data.data[0]: 'no.raw': there is no "),
    (with_task(inputs={"data": "no.raw"}), "tasks.read.inputs.data: 'no.raw': there is no component"),
    (with_task(inputs={"data": ["no.raw"]}), "tasks.read.inputs.data[0]: 'no.raw': there is no component"),
    (with_task(inputs={"data": {"eval_data": ["no.raw"]}, "eval_data": "no.raw"}), "tasks.read.inputs.eval_data: is g"),
    (with_task(inputs={"data": {"table": ["read.raw"]}}), "tasks.read.inputs.data.table: is not one of data,"),
    (with_task(component="Fussy", parameters={"known": 1, "other": 2}),
     "tasks.read.parameters: other has no effect"),
    (with_task(component="Intersection", at={"host": {"parameters": {"cardinality_only": 1}}}),
     "tasks.read.parameters: at host 9002: cardinality_only: is not offered"),
    (a_file(tasks={"pipeline": {"component": "Reader"}}), "tasks.pipeline: the name is reserved for the whole job"),
    (a_file(tasks={"a": {"component": "Reader", "inputs": {"data": {"data": ["a.x"]}}, "outputs": {"data": ["x"]}}}),
     "tasks: a form a loop"),
])  # fmt: skip
def test_what_the_readers_of_the_documents_find_is_told_in_the_paths_of_the_file(document, problem):
    assert any(found.startswith(problem) for found in wrong_with(document)), wrong_with(document)
    assert not any("job_runtime_conf" in found or "dsl" in found for found in wrong_with(document))


def test_a_small_file_is_right():
    assert wrong_with(SMALL) == []


@pytest.mark.parametrize(("document", "problem"), [
    (a_file(initiator=9001), "initiator: 9001 is a number without a role; write guest 9001"),
    (a_file(initiator="9004"), "initiator: '9004' is a number without a role; write host 9004"),
    (a_file(initiator=9001, parties={"guest": [9001], "host": [9001]}),
     "initiator: 9001 is a number without a role; write guest 9001 or host 9001"),
    (a_file(initiator=7), "initiator: 7 is a number without a role; write guest 7"),
])  # fmt: skip
def test_an_initiator_without_a_role_is_told_what_to_write(document, problem):
    assert wrong_with(document) == [problem]
