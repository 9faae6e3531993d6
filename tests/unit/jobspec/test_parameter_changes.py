"""What may be changed about a job that has been submitted, and what it is then."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.spec import JobParameters, JobSpec
from fate_flow.jobspec.parameters import Change, changed_components, changed_conf, read_change
from tests.kit.job_documents import job
from tests.kit.jobspec.parsing import parse
from tests.kit.modules import Module

MODULES = {"Work": Module()}
DEFAULTS = JobParameters(task_cores=1)
DOCUMENT = job({"guest": ["9999"], "host": ["10000", "10001"]}, {"a": [], "b": ["a"]}, cores=2, retries=1)


def spec_of(conf: Any) -> JobSpec:
    return parse(DOCUMENT.dsl, conf, modules=MODULES, defaults=DEFAULTS)


SPEC = spec_of(DOCUMENT.runtime_conf)


def changed(**body: Any) -> JobSpec:
    return spec_of(changed_conf(SPEC, read_change(body)))


def test_what_is_said_is_merged_and_the_rest_stays() -> None:
    new = changed(
        job_parameters={"common": {"task_cores": 3}, "role": {"host": {"1": {"task_memory": 5}}}},
        component_parameters={"common": {"a": {"x": {"y": 1}}}, "role": {"host": {"0": {"b": {"z": [1]}}}}},
    )
    assert [new.parameters[party].task_cores for party in new.parties] == [3, 3, 3]
    assert [new.parameters[party].task_memory for party in new.parties] == [0, 0, 5]
    assert [new.parameters[party].auto_retries for party in new.parties] == [1, 1, 1]
    assert [dict(new.tasks["b"].parameters[party]) for party in new.parties] == [{}, {"z": [1]}, {}]
    assert changed_components(SPEC, new) == ("a", "b")
    again = spec_of(changed_conf(new, Change({}, {"common": {"a": {"x": {"w": 2}}}})))
    assert again.tasks["a"].parameters[again.initiator] == {"x": {"y": 1, "w": 2}}
    assert changed_components(new, again) == ("a",)
    assert again.changeable_conf["component_parameters"]["role"] == {"host": {"0": {"b": {"z": [1]}}}}


def test_null_takes_back_what_was_said() -> None:
    new = changed(component_parameters={"common": {"a": {"x": 1, "y": 2}}})
    again = spec_of(changed_conf(new, Change({"common": {"task_cores": None}}, {"common": {"a": {"x": None}}})))
    assert again.tasks["a"].parameters[again.initiator] == {"y": 2}
    assert again.common.task_cores == DEFAULTS.task_cores


def test_a_component_that_is_not_to_run_any_more_is_another() -> None:
    new = changed(component_parameters={"role": {"host": {"all": {"b": {"need_run": False}}}}})
    assert changed_components(SPEC, new) == ("b",)


def test_cores_make_no_component_another() -> None:
    assert changed_components(SPEC, changed(job_parameters={"common": {"task_cores": 9, "timeout": 5}})) == ()


def test_retry_and_the_words_of_fate_for_it_replace_each_other() -> None:
    new = changed(job_parameters={"common": {"retry": {"max_attempts": 4}}})
    assert (new.tasks["a"].retry.retries, new.conf["job_parameters"]["common"].get("auto_retries")) == (3, None)
    old = spec_of(changed_conf(new, Change({"common": {"auto_retries": 2}}, {})))
    assert (old.tasks["a"].retry.retries, "retry" in old.conf["job_parameters"]["common"]) == (2, False)


def test_what_a_client_sends_back_as_it_was_is_no_change() -> None:
    new = changed(**SPEC.changeable_conf)
    assert new.changeable_conf == SPEC.changeable_conf


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "job_parameters or component_parameters; nothing would be changed"),
        ({"job_parameters": []}, "job_parameters: a list is not an object"),
        ({"component_parameters": "x"}, "component_parameters: 'x' is not an object"),
        ({"job_parameters": {"common": 7}}, "job_parameters.common: 7 is not an object"),
        ({"job_parameters": {"role": 7}}, "job_parameters.role: 7 is not an object"),
        ({"job_parameters": {"role": {"host": 7}}}, "job_parameters.role.host: 7 is not an object"),
        ({"job_parameters": {"role": {"host": {"0": 7}}}}, "job_parameters.role.host.0: 7 is not an object"),
        ({"job_parameters": {"common": {"job_type": "predict"}}},
         "job_parameters.common.job_type: cannot be changed; these can: task_cores,"),
        ({"job_parameters": {"common": {"priority": 4}}}, "priority: cannot be changed; flow job priority changes it"),
        ({"job_parameters": {"role": {"guest": {"0": {"user": "u"}}}}}, "job_parameters.role.guest.0.user: cannot be"),
        ({"component_parameters": {"common": {"c": {}}}},
         "component_parameters.common.c: is not one of this job's components: a, b"),
        ({"component_parameters": {"role": {"host": {"0|1": {"c": {}}}}}}, "component_parameters.role.host.0|1.c: is"),
    ],
)  # fmt: skip
def test_what_cannot_be_changed_is_said_by_its_path(body: dict[str, Any], text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        changed(**body)
    assert text in caught.value.message.replace('"', "")
