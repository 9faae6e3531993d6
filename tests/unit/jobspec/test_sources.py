"""Where each value of a job comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from fate_flow.core.model.spec import Party
from fate_flow.jobspec.sources import Sources
from tests.kit.jobspec.fate_v1_documents import (
    DEFAULTS,
    GUEST,
    HOST,
    MODULES,
    SECOND_HOST,
    UPLOAD_CONF,
    UPLOAD_DSL,
    FakeModule,
    a_conf,
    a_dsl,
)
from tests.kit.jobspec.parsing import parse

JOB = "job_runtime_conf.job_parameters"


def sources(common: dict[str, Any] | None = None, **roles: Any) -> Sources:
    conf = a_conf(job_parameters={"common": common or {}, "role": roles})
    dsl = a_dsl(x={"module": "Reader"}, y={"module": "Reader"})
    return Sources(parse(dsl, conf, modules=MODULES, defaults=DEFAULTS), DEFAULTS)


def of_task(
    found: Sources, name: str = "x", party: Party = GUEST, described: Any = None
) -> dict[str, tuple[Any, str, str]]:
    values = {task.name: values for task, values in found.of_tasks(party, described)}[name]
    return {key: (one.value, one.source, one.where) for key, one in values.items()}


def test_what_a_task_states_of_its_resources_is_told_with_its_place():
    found = sources({"task_conf": {"x": {"cores": 3}}}, host={"1": {"task_conf": {"x": {"gpus": 1}}}})
    values = of_task(found, party=SECOND_HOST)
    assert values["cores"] == (3, "document", f"{JOB}.common.task_conf.x.cores")
    assert values["gpus"] == (1, "document", f"{JOB}.role.host.1.task_conf.x.gpus")
    assert not {"cores", "gpus", "memory", "queue"} & of_task(found, "y", SECOND_HOST).keys()


def test_cores_and_memory_are_told_party_by_party():
    found = sources({"task_cores": 2}, host={"1": {"task_cores": 3}})
    cores = [found.of_party(party)["task_cores"] for party in (GUEST, HOST, SECOND_HOST)]
    assert [(one.value, one.where) for one in cores] == [
        (2, f"{JOB}.common.task_cores"), (2, f"{JOB}.common.task_cores"), (3, f"{JOB}.role.host.1.task_cores")]
    memory = found.of_party(HOST)["task_memory"]
    assert (memory.value, memory.source, memory.where) == (0, "server default", "job_default_config.task_memory")


def test_how_long_a_worker_may_wait_for_a_place_has_its_source():
    found = sources(host={"1": {"longest_pending": 60}})
    said = [found.of_party(party)["longest_pending"] for party in (HOST, SECOND_HOST)]
    assert [(one.value, one.source, one.where) for one in said] == [
        (0, "default", ""), (60, "document", f"{JOB}.role.host.1.longest_pending")]


def test_the_cores_of_a_component_that_knows_better_are_its_own():
    conf = {**UPLOAD_CONF, "job_parameters": {"common": {}}}
    spec = parse(UPLOAD_DSL, conf, modules=MODULES, defaults=DEFAULTS)
    cores = Sources(spec, DEFAULTS).of_party(spec.initiator)["task_cores"]
    assert (cores.value, cores.source) == (1, "default")


@pytest.mark.parametrize(("common", "value", "where"), [
    ({}, 0, "job_default_config.task_timeout"), ({"task_timeout": 5}, 5, f"{JOB}.common.task_timeout"),
    ({"task_timeout": 5, "task_conf": {"x": {"timeout": 6}}}, 6, f"{JOB}.common.task_conf.x.timeout"),
])
def test_the_time_of_a_task(common, value, where):
    found = of_task(sources(common))["timeout"]
    assert (found[0], found[2]) == (value, where)


def test_a_party_has_the_last_word_on_its_own_workers():
    described = {("x", "timeout"): {"value": 7, "source": "ceilings.task_timeout"}}
    found = sources({"task_timeout": 9}, host={"all": {"task_conf": {"y": {"timeout": 8}}}})
    assert of_task(found, "x", HOST, described)["timeout"] == (7, "party", "ceilings.task_timeout of host 9002")
    assert of_task(found, "y", HOST, described)["timeout"] == (
        8,
        "document",
        f"{JOB}.role.host.all.task_conf.y.timeout",
    )


def test_the_time_to_stop():
    assert of_task(sources())["stop_duration"] == (None, "party", "its limits.stop_grace")
    found = sources({"stop_duration": 5, "task_conf": {"y": {"stop_duration": 6}}})
    assert of_task(found)["stop_duration"] == (5, "document", f"{JOB}.common.stop_duration")
    assert of_task(found, "y")["stop_duration"] == (6, "document", f"{JOB}.common.task_conf.y.stop_duration")


def test_the_rule_of_retries_key_by_key():
    rule = {"max_attempts": 2, "backoff": {"first": 1}}
    found = sources({"retry": rule, "task_conf": {"y": {"retry": {"duration": 60}}}})
    of_x, of_y = of_task(found), of_task(found, "y")
    attempts = (2, "document", f"{JOB}.common.retry.max_attempts")
    assert of_x["retry.max_attempts"] == of_y["retry.max_attempts"] == attempts
    assert of_x["retry.duration"] == (0, "default", "")
    assert of_y["retry.duration"] == (60, "document", f"{JOB}.common.task_conf.y.retry.duration")
    assert of_x["retry.backoff.first"] == (1, "document", f"{JOB}.common.retry.backoff.first")
    assert of_x["retry.backoff.factor"] == (2, "default", "")
    assert of_x["retry.on_events"] == (["error", "interruption", "out_of_memory", "timeout"], "default", "")


@pytest.mark.parametrize(("common", "retry"), [
    ({}, ("none", "server default", "job_default_config.auto_retries")),
    ({"auto_retries": 0}, ("none", "document", f"{JOB}.common.auto_retries")),
    ({"auto_retries": 2}, ("auto_retries: 2", "document", f"{JOB}.common.auto_retries")),
])
def test_without_a_rule_the_automatic_retries_are_told(common, retry):
    assert of_task(sources(common))["retry"] == retry


@pytest.mark.parametrize(("common", "value", "where"), [
    ({}, "waits", ""), ({"auto_retries": 2}, "waits", ""), ({"retry": {"max_attempts": 2}}, "waits", ""),
    ({"retry": {"on_events": ["no_capacity"]}}, "waits", f"{JOB}.common.retry.on_events"),
    ({"retry": {"duration": 60}}, "waits 60 s", f"{JOB}.common.retry.duration"),
    ({"retry": {"on_events": ["error"], "duration": 60}}, "ends the job", f"{JOB}.common.retry.on_events"),
    ({"task_conf": {"x": {"retry": {"on_events": ["error"], "duration": 60}}}}, "waits", ""),
])
def test_what_a_lack_of_capacity_means_is_told_of_the_job_alone(common, value, where):
    found = sources(common)
    no_capacity = found.of_job()["no_capacity"]
    assert vars(no_capacity) == {"value": value, "source": "document" if where else "default", "where": where}
    assert "no_capacity" not in of_task(found).get("retry.on_events", [()])[0]


def test_the_priority_of_the_job():
    assert vars(sources().of_job()["priority"]) == {"value": 0, "source": "default", "where": ""}
    assert sources({"priority": 5}).of_job()["priority"].where == f"{JOB}.common.priority"


def test_the_time_of_the_job():
    timeout = sources().of_job()["timeout"]
    assert (timeout.value, timeout.where) == (259200, "job_default_config.job_timeout")
    assert sources({"timeout": 5}).of_job()["timeout"].where == f"{JOB}.common.timeout"


def test_the_rules_are_told_in_the_order_in_which_they_are_tried():
    jobs = [{"event": "worker_failed", "action": "fail_job"}, {"exit_code": 3, "action": "ignore"}]
    own = [{"events": ["start_timeout", "gang_broken"], "action": "restart_task", "timeout": 5}]
    found = sources({"policies": jobs, "task_conf": {"y": {"policies": own}}})
    of_x = [
        ("worker_failed: fail_job", "document", f"{JOB}.common.policies[0]"),
        ("exit code 3: ignore", "document", f"{JOB}.common.policies[1]"),
    ]
    of_y = ("gang_broken, start_timeout: restart_task after 5 s", "document", f"{JOB}.common.task_conf.y.policies[0]")
    assert [value for key, value in of_task(found).items() if "policies" in key] == of_x
    values = of_task(found, "y")
    assert [values[f"policies[{place}]"] for place in range(3)] == [of_y, *of_x]


def test_of_a_role_with_enough_parties_it_is_told_how_many_that_are():
    common = {"min_available": {"host": 1}, "task_conf": {"y": {"min_available": {"host": 2}}}}
    conf, dsl = a_conf(job_parameters={"common": common}), a_dsl(x={"module": "Adds"}, y={"module": "Adds"})
    found = Sources(parse(dsl, conf, modules={"Adds": Adds()}, defaults=DEFAULTS), DEFAULTS)
    assert of_task(found)["min_available.host"] == (1, "document", f"{JOB}.common.min_available.host")
    assert not [key for key in of_task(found, "y") if "min_available" in key]      # all two


@dataclass(frozen=True)
class Adds(FakeModule):
    tolerates_missing_roles: frozenset[str] = frozenset()
    starts_without_roles: frozenset[str] = frozenset({"host"})
