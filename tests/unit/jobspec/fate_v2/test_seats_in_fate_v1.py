"""The parties of a component, and of its sources, in the form of FATE v1: `parties` and `input_parties`."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.spec import Input, JobParameters, Party, Source
from tests.kit.jobspec.parsing import parse, problems

ANNA, BOB, CARL = Party("guest", "9999"), Party("host", "10000"), Party("host", "10001")
DEFAULTS = JobParameters()
DSL = {"components": {
    "read_0": {"module": "Reader", "output": {"data": ["data"]}},
    "read_1": {"module": "Reader", "output": {"data": ["data"]}},
    "sum_0": {"module": "SecureSum", "input": {"data": {"data": ["read_0.data"]}}},
}}  # fmt: skip


def conf(**task_conf: Any) -> dict[str, Any]:
    reads = {"table": {"namespace": "a", "name": "b"}}
    return {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000, 10001]},
        "job_parameters": {"common": {"task_conf": task_conf}},
        "component_parameters": {"common": {"read_0": reads, "read_1": reads, "sum_0": {"column": "x"}}},
    }  # fmt: skip


def test_a_component_runs_where_its_parties_are() -> None:
    spec = parse(
        DSL, conf(read_1={"parties": ["host 10001"]}, sum_0={"parties": ["guest", "host"]}), modules=CATALOGUE,
        defaults=DEFAULTS,
    )  # fmt: skip
    assert {name: task.parties for name, task in spec.tasks.items()} == {
        "read_0": (ANNA, BOB, CARL), "read_1": (CARL,), "sum_0": (ANNA, BOB, CARL),
    }  # fmt: skip


def test_a_party_reads_the_sources_that_are_its_own() -> None:
    dsl = {"components": {**DSL["components"], "sum_0": {
        "module": "SecureSum", "input": {"data": {"data": ["read_0.data", "read_1.data"]}},
    }}}  # fmt: skip
    readers = {"data.data": [["guest", "host 10000"], ["host 10001"]]}
    spec = parse(dsl, conf(sum_0={"input_parties": readers}), modules=CATALOGUE, defaults=DEFAULTS)
    assert spec.tasks["sum_0"].inputs == (
        Input("data", "data", (Source("read_0", "data"),), frozenset({ANNA, BOB})),
        Input("data", "data", (Source("read_1", "data"),), frozenset({CARL})),
    )


def test_a_party_that_reads_no_source_is_named() -> None:
    only = {"input_parties": {"data.data": [["guest"]]}}
    assert problems(DSL, conf(sum_0=only), modules=CATALOGUE, defaults=DEFAULTS) == [
        "dsl.components.sum_0.input.data.data: is missing at host 10000, host 10001; SecureSum needs a table there"
    ]


@pytest.mark.parametrize(("task_conf", "problem"), [
    ({"parties": "host"}, ".parties: 'host' is not a list of roles and parties, such as host and host 10000"),
    ({"parties": ["host 7"]}, ".parties: 'host 7' is no party that the component can have: guest 9999, host 10000, "
     "host 10001"),
    ({"input_parties": {"data.data": [["guest"], ["host"]]}}, ".input_parties.'data.data': has 2 lists for 1 sources"),
    ({"input_parties": {"data.data": ["guest"]}}, ".input_parties.'data.data'[0]: 'guest' is not a list of roles and "
     "parties, such as host and host 10000"),
])  # fmt: skip
def test_what_is_wrong_is_named_by_its_path(task_conf: dict[str, Any], problem: str) -> None:
    path = "job_runtime_conf.job_parameters.common.task_conf.sum_0"
    assert problems(DSL, conf(sum_0=task_conf), modules=CATALOGUE, defaults=DEFAULTS) == [path + problem]
