"""`min_available` of a document: where it may stand, which components may have it, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from fate_flow.components.providers.builtin import BUILTIN_PROVIDER
from fate_flow.core.model.modules import ProviderInfo
from fate_flow.core.model.spec import JobParameters
from tests.kit.jobspec.parsing import parse, problems


@dataclass(frozen=True)
class Module:
    tolerates_missing_roles: frozenset[str] = frozenset()
    starts_without_roles: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset({"guest", "host"})
    default_task_cores: int | None = None
    provider: ProviderInfo = BUILTIN_PROVIDER

    def check(self, parameters: Any, role: str) -> list[str]:
        return []


HOST = frozenset({"host"})
MODULES = {"Reader": Module(HOST), "Sum": Module(starts_without_roles=HOST), "Join": Module()}
COMMON = "job_runtime_conf.job_parameters.common"


def documents(minimum: object = None, hosts: int = 3, **of_components: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """`a_read` makes what `b_sum` takes; both have what stands here under their names, and so has `c_join`."""
    component = {"output": {"data": ["data"]}}
    after = {"input": {"data": {"data": ["a_read.data"]}}, **component}
    dsl = {"components": {"a_read": {"module": "Reader", **component}, "b_sum": {"module": "Sum", **after}}}
    if "c_join" in of_components:
        dsl["components"]["c_join"] = {"module": "Join", **component}
    task_conf = {name: {"min_available": said} for name, said in of_components.items()}
    common = {"min_available": minimum, "task_conf": task_conf}
    conf = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000 + number for number in range(hosts)]},
        "job_parameters": {"common": common},
    }  # fmt: skip
    return dsl, conf


def minimums(*arguments: Any, **more: Any) -> dict[str, Any]:
    spec = parse(*documents(*arguments, **more), modules=MODULES, defaults=JobParameters())
    return {name: dict(task.min_available) for name, task in spec.tasks.items()}


def wrong(*arguments: Any, **more: Any) -> list[str]:
    return problems(*documents(*arguments, **more), modules=MODULES, defaults=JobParameters())


def test_what_the_job_says_holds_where_a_component_can_do_without() -> None:
    assert minimums({"host": 2}) == {"a_read": {"host": 2}, "b_sum": {"host": 2}}
    assert minimums({"host": 2}, c_join={}) == {"a_read": {"host": 2}, "b_sum": {"host": 2}, "c_join": {}}
    assert minimums() == {"a_read": {}, "b_sum": {}}


def test_what_a_component_says_comes_before_it() -> None:
    assert minimums({"host": 2}, b_sum={"host": 1}) == {"a_read": {"host": 2}, "b_sum": {"host": 1}}
    assert minimums(a_read={"host": 3}) == {"a_read": {}, "b_sum": {}}, "all of them, as if nothing was said"


def test_whose_shares_may_break_says_the_module() -> None:
    spec = parse(*documents({"host": 2}), modules=MODULES, defaults=JobParameters())
    assert [set(task.goes_on_without) for task in spec.tasks.values()] == [{"host"}, set()]


@pytest.mark.parametrize(
    ("said", "of_components", "problem"),
    [
        (7, {}, f"{COMMON}.min_available: 7 is not an object"),
        ({"host": 0}, {}, f"{COMMON}.min_available.host: 0 is not a whole number above 0"),
        ({"host": "x"}, {}, f"{COMMON}.min_available.host: 'x' is not a whole number above 0"),
        ({"host": 4}, {}, f"{COMMON}.min_available.host: 4 is more than the 3 parties of that role"),
        ({"arbiter": 1}, {}, f"{COMMON}.min_available.arbiter: no component of this job can do without one "
         "of role arbiter"),
        (None, {"b_sum": {"host": 4}}, f"{COMMON}.task_conf.b_sum.min_available.host: 4 is more than the 3 parties of "
         "that role"),
        (None, {"c_join": {"host": 2}}, f"{COMMON}.task_conf.c_join.min_available.host: Join needs every host: it "
         "cannot do without one"),
        (None, {"a_read": {"host": 2}}, f"{COMMON}.task_conf.b_sum.min_available.host: b_sum needs 3 of role host, but "
         "a_read, which it follows, needs only 2; Sum can run with as few"),
        ({"host": 2}, {"b_sum": {"host": 3}}, f"{COMMON}.task_conf.b_sum.min_available.host: b_sum needs 3 of role "
         "host, but a_read, which it follows, needs only 2; Sum can run with as few"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_the_path_of_the_key(said: object, of_components: Any, problem: str) -> None:
    """Volcano 49, 51, 53: the minimum is at most the size, and all where nothing is said."""
    assert wrong(said, **of_components) == [problem]


def test_a_role_that_is_none_is_refused() -> None:
    [problem] = wrong({"boss": 1})
    assert "boss" in problem
    assert problem.startswith(f"{COMMON}.min_available")
