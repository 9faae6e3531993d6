"""What a job of another party reads beyond the limits of its grants."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.access.limits import Grants, PartyLimits, TableLimits, TableUse, described
from fate_flow.core.access.permission import EVERYTHING, Kind, Thing
from fate_flow.core.model.spec import Input, JobParameters, JobSpec, Party, Source, TaskSpec
from fate_flow.services.artifacts.inputs import named_things
from fate_flow.services.artifacts.kinds import KINDS
from tests.kit.jobspec.parsing import parse

HOST = Party("host", "10000")
TABLE = Thing(Kind.DATASET, "site_b", "demo")
OUTPUT = Thing(Kind.DATASET, "psi_0.psi", "output_20260101120000000001")
RAW, PSI = {"data": {"data": ["reader_0.raw"]}}, {"data": {"data": ["psi_0.psi"]}}
DSL = {
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["raw"]}},
        "psi_0": {"module": "Intersection", "input": RAW, "output": {"data": ["psi"]}},
        "sum_0": {"module": "SecureSum", "input": PSI, "output": {"data": ["total"]}},
        "sum_1": {"module": "SecureSum", "input": {"data": {"data": ["sum_0.total"]}}},
        "sum_2": {"module": "SecureSum", "input": RAW},
        "run_0": {"module": "Command", "input": RAW},
        "run_1": {"module": "Command", "input": PSI},
    }
}
COLUMNS = {"sum_0": "x", "sum_1": "value", "sum_2": "y"}


def use_of(table: dict[str, str] | None = None, **at_host: Any) -> TableUse:
    common: dict[str, Any] = {name: {"column": column} for name, column in COLUMNS.items()}
    common |= {name: {"command": ["true"]} for name in ("run_0", "run_1")}
    common["reader_0"] = {"table": table or {"namespace": "demo", "name": "site_b"}}
    conf = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000]},
        "component_parameters": {"common": common, "role": {"host": {"0": at_host}}},
    }
    spec: JobSpec = parse(DSL, conf, modules=CATALOGUE, defaults=JobParameters())
    return TableUse(spec, HOST, CATALOGUE, named_things(KINDS))


def limited(*columns: str, things: frozenset[Thing] = frozenset({TABLE})) -> Grants:
    return Grants(things, {TABLE: TableLimits(frozenset(columns))})


def beyond(use: TableUse, grants: Grants) -> dict[str, list[str]]:
    found = {task.name: list(use.beyond(task, grants)) for task in use.spec.tasks_of(HOST)}
    return {name: texts for name, texts in found.items() if texts}


WHOLE = "table demo/site_b as a whole (component Command)"


@pytest.mark.parametrize(
    ("columns", "texts"),
    [
        (("x", "y"), {"run_0": [WHOLE], "run_1": [WHOLE]}),
        (("x",), {"sum_2": ["column 'y' of table demo/site_b"], "run_0": [WHOLE], "run_1": [WHOLE]}),
        (
            (),
            {
                "sum_0": ["column 'x' of table demo/site_b"], "sum_2": ["column 'y' of table demo/site_b"],
                "run_0": [WHOLE], "run_1": [WHOLE],
            },
        ),
    ],
)
def test_only_granted_columns_are_read_also_behind_an_intersection(
    columns: tuple[str, ...], texts: dict[str, list[str]]
) -> None:
    assert beyond(use_of(), limited(*columns)) == texts


def test_a_table_without_such_a_limit_is_read_as_a_whole() -> None:
    assert beyond(use_of(), Grants(frozenset({TABLE}), {TABLE: TableLimits(uses_a_day=1)})) == {}
    other = Thing(Kind.DATASET, "other", "demo")
    assert beyond(use_of(), Grants(frozenset({TABLE, other}), {other: TableLimits(frozenset())})) == {}


def test_what_only_ids_are_left_of_has_no_columns_behind_it() -> None:
    """SecureSum on it fails by itself: the column is not there."""
    assert "sum_0" in beyond(use_of(), limited())
    assert "run_1" in beyond(use_of(psi_0={"only_output_key": True}), limited())


def test_outputs_of_other_jobs_need_a_grant_by_name_once_columns_are_limited() -> None:
    named = {"job_id": "20260101120000000001", "component_name": "psi_0", "data_name": "psi"}
    use, everything = use_of(named), frozenset({TABLE, *EVERYTHING.values()})
    assert beyond(use, limited("x", things=everything)) == {"reader_0": [str(OUTPUT)]}
    assert beyond(use, limited("x", things=everything | {OUTPUT})) == {}
    assert beyond(use, Grants(everything)) == {}


def test_a_task_uses_what_it_is_handed_and_a_reader_uses_nothing() -> None:
    use = use_of()
    read = {task.name: use.tables_read(task) for task in use.spec.tasks_of(HOST)}
    handed = frozenset({TABLE})
    assert read == {
        "reader_0": frozenset(), "psi_0": handed, "sum_0": frozenset(), "sum_1": frozenset(), "sum_2": handed,
        "run_0": handed, "run_1": frozenset(),
    }  # fmt: skip


def test_what_does_not_run_here_uses_nothing() -> None:
    use = use_of(**{name: {"need_run": False} for name in DSL["components"]})
    assert not use.tables_read(use.spec.tasks["sum_2"])
    assert beyond(use, limited()) == {}


def test_many_ways_to_a_table_are_followed_once() -> None:
    """Both tasks of a layer read both of the layer before: there are two to the power of 60 ways."""
    raw = TaskSpec("raw", "Reader", (HOST,), parameters={HOST: {"table": {"namespace": "demo", "name": "site_b"}}})
    tasks, before = {"raw": raw}, ("raw",)
    for layer in range(60):
        inputs = (Input("data", "data", tuple(Source(name, "data") for name in before)),)
        before = tuple(f"{side}_{layer}" for side in "ab")
        tasks |= {name: TaskSpec(name, "Intersection", (HOST,), inputs) for name in before}
    inputs = (Input("data", "data", tuple(Source(name, "data") for name in before)),)
    tasks["sum"] = TaskSpec("sum", "SecureSum", (HOST,), inputs, parameters={HOST: {"column": "x"}})
    use = TableUse(JobSpec(HOST, (HOST,), tasks, {}), HOST, CATALOGUE, named_things(KINDS))
    assert list(use.beyond(tasks["sum"], limited())) == ["column 'x' of table demo/site_b"]


def test_grants_are_described_line_by_line() -> None:
    reader = Thing(Kind.COMPONENT, "Reader")
    limits = {TABLE: TableLimits(frozenset({"y", "x"}), 1)}
    grants = Grants(frozenset({reader, TABLE, EVERYTHING[Kind.DATASET]}), limits, PartyLimits(1, approval=True))
    assert list(described(grants).values()) == [
        "all tables", "component Reader", "table demo/site_b (columns x, y; 1 use a day)", "at most 1 core at once",
        "approval of each job",
    ]  # fmt: skip
    assert described(Grants()) == {}


def test_names_that_make_equal_lines_are_different_grants() -> None:
    one = Grants(frozenset({TABLE}), {TABLE: TableLimits(frozenset({"a, b"}))})
    other = Grants(frozenset({TABLE}), {TABLE: TableLimits(frozenset({"a", "b"}))})
    assert list(described(one).values()) == list(described(other).values())
    assert described(one).keys().isdisjoint(described(other).keys())
