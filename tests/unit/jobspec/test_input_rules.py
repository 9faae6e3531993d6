"""A component without the table that it needs is refused by the document alone, with the key that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.spec import JobParameters
from tests.kit.jobspec.parsing import problems

READER = {"module": "Reader", "output": {"data": ["data"]}}
MATCH = {"module": "Intersection", "input": {"data": {"data": ["reader_0.data"]}}, "output": {"data": ["data"]}}
SUM = {"module": "SecureSum", "input": {"data": {"data": ["match_0.data"]}}}
TABLE = {"table": {"namespace": "demo", "name": "people"}}


def wrong_with(components: dict[str, Any], role: dict[str, Any] | None = None, **described: Any) -> list[str]:
    conf = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999}, "role": {"guest": [9999], "host": [10000]},
        "component_parameters": {
            "common": {"reader_0": TABLE, "sum_0": {"column": "amount"}, **described}, "role": role or {},
        },
    }  # fmt: skip
    return problems({"components": components}, conf, modules=CATALOGUE, defaults=JobParameters())


def test_a_job_whose_inputs_are_there_is_right():
    assert wrong_with({"reader_0": READER, "match_0": MATCH, "sum_0": SUM}) == []


@pytest.mark.parametrize("module", ["Intersection", "SecureSum"])
def test_a_component_that_needs_a_table_names_one(module):
    assert wrong_with({"sum_0": {"module": module}}) == [
        f"dsl.components.sum_0.input.data.data: is missing; {module} needs a table, such as reader_0.data"
    ]


def test_it_takes_one_table():
    match = {**MATCH, "input": {"data": {"data": ["reader_0.data", "reader_1.data"]}}}
    found = wrong_with({"reader_0": READER, "reader_1": READER, "match_0": match}, reader_1=TABLE)
    assert found == ["dsl.components.match_0.input.data.data: names 2 tables; Intersection takes one"]


def test_an_input_that_is_wrong_is_not_said_to_be_missing():
    match = {**MATCH, "input": {"data": {"data": ["nobody.data"]}}}
    (found,) = wrong_with({"match_0": match})
    assert "there is no component 'nobody'" in found


@pytest.mark.parametrize(("described", "parties"), [
    ({"sync_intersect_ids": False}, "host 10000"),
    ({"cardinality_only": True}, "guest 9999, host 10000"),
])
def test_what_a_party_may_not_learn_is_read_by_no_task_of_it(described, parties):
    found = wrong_with({"reader_0": READER, "match_0": MATCH, "sum_0": SUM}, match_0=described)
    assert found == [
        f"dsl.components.sum_0.input.data.data: match_0 makes no table at {parties}, where sum_0 would read it"
    ]


def test_a_task_that_passes_where_there_is_no_table_is_right():
    found = wrong_with(
        {"reader_0": READER, "match_0": MATCH, "sum_0": SUM}, {"host": {"all": {"sum_0": {"need_run": False}}}},
        match_0={"sync_intersect_ids": False},
    )
    assert found == []


def test_a_component_that_passes_makes_no_table():
    found = wrong_with({"reader_0": READER, "match_0": MATCH}, {"host": {"0": {"reader_0": {"need_run": False}}}})
    assert found == [
        "dsl.components.match_0.input.data.data: reader_0 makes no table at host 10000, where match_0 would read it"
    ]


def test_parties_that_are_told_to_disclose_different_things_are_refused():
    found = wrong_with({"reader_0": READER, "match_0": MATCH}, {"host": {"0": {"match_0": {"cardinality_only": True}}}})
    assert found == [
        "job_runtime_conf.component_parameters: match_0: cardinality_only: host 10000 has true, others have not; "
        "it has to be the same everywhere"
    ]


def test_a_program_may_do_without_a_table():
    assert wrong_with({"run_0": {"module": "Command"}}, run_0={"command": ["/bin/true"]}) == []
