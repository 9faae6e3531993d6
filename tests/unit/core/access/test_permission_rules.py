"""What a job of another party needs here, and how permissions are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.access.permission import (
    ALL,
    EVERYTHING,
    INCOMING,
    OUTGOING,
    Kind,
    PermissionRule,
    Thing,
    as_written,
    missing,
    read_things,
)
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.spec import JobParameters, Party, Port
from fate_flow.services.artifacts.inputs import named_things
from fate_flow.services.artifacts.kinds import KINDS
from tests.kit.jobspec.parsing import parse

GUEST, HOST = Party("guest", "9999"), Party("host", "10000")
READER, SUM = Thing(Kind.COMPONENT, "Reader"), Thing(Kind.COMPONENT, "SecureSum")
TABLE = Thing(Kind.DATASET, "site_b", "demo")
READS = named_things(KINDS)
BOTH = PermissionRule(components=True, datasets=True)
DSL = {
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["raw"]}},
        "sum_0": {"module": "SecureSum", "input": {"data": {"data": ["reader_0.raw"]}}},
        "sum_1": {"module": "SecureSum", "input": {"data": {"data": ["reader_0.raw"]}}},
    }
}


def spec_of(**at_host: Any) -> Any:
    tables = {"0": {"reader_0": {"table": {"namespace": "demo", "name": "site_b"}}, **at_host}}
    conf = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000]},
        "component_parameters": {
            "common": {"sum_0": {"column": "y"}, "sum_1": {"column": "y"}},
            "role": {"guest": {"0": {"reader_0": {"table": {"namespace": "demo", "name": "site_a"}}}}, "host": tables},
        },
    }
    return parse(DSL, conf, modules=CATALOGUE, defaults=JobParameters())


@pytest.mark.parametrize(
    ("rule", "granted", "missing_things"),
    [
        (BOTH, [], [READER, TABLE, SUM]),
        (PermissionRule(components=True), [], [READER, SUM]),
        (PermissionRule(datasets=True), [], [TABLE]),
        (PermissionRule(), [], []),
        (BOTH, [READER, TABLE], [SUM]),
        (BOTH, [READER, SUM, TABLE], []),
        (BOTH, EVERYTHING.values(), []),
        (BOTH, [EVERYTHING[Kind.COMPONENT]], [TABLE]),
        (BOTH, [EVERYTHING[Kind.DATASET], SUM], [READER]),
        (BOTH, [Thing(Kind.DATASET, "site_b", "other"), Thing(Kind.DATASET, "site_a", "demo")], [READER, TABLE, SUM]),
    ],
)
def test_what_was_not_granted_is_missing(rule: PermissionRule, granted: Any, missing_things: Any) -> None:
    assert missing(rule, spec_of(), HOST, frozenset(granted), READS) == missing_things


@pytest.mark.parametrize(
    ("party", "granted", "directions"),
    [
        (HOST, [], [OUTGOING]), (GUEST, [], [INCOMING]),
        (HOST, [Thing(Kind.STREAM, "SecureSum", INCOMING), *EVERYTHING.values()], [OUTGOING]),
        (HOST, [Thing(Kind.STREAM, "SecureSum", OUTGOING)], []), (HOST, [Thing(Kind.STREAM, ALL, OUTGOING)], []),
    ],
)  # fmt: skip
def test_each_direction_of_streams_is_granted_for_itself(
    party: Party, granted: list[Thing], directions: list[str]
) -> None:
    spec = spec_of()
    ports = (Port("fl", (GUEST,), (HOST,)),)
    task = replace(spec.tasks["sum_0"], ports=ports)
    found = missing(BOTH, replace(spec, tasks={"sum_0": task}), party, frozenset((*granted, SUM)), READS)
    assert found == [Thing(Kind.STREAM, "SecureSum", direction) for direction in directions]
    assert missing(PermissionRule(datasets=True), spec, party, frozenset((TABLE, *EVERYTHING.values())), READS) == []


def test_streams_are_named_with_their_direction() -> None:
    assert str(Thing(Kind.STREAM, "Command", INCOMING)) == "incoming streams of component Command"
    assert str(Thing(Kind.STREAM, ALL, OUTGOING)) == "outgoing streams of all components"


@pytest.mark.parametrize(
    ("task", "missing_things"), [("reader_0", [READER, TABLE]), ("sum_0", [SUM]), ("sum_1", [SUM])]
)
def test_what_one_task_needs(task: str, missing_things: Any) -> None:
    assert missing(BOTH, spec_of(), HOST, frozenset(), READS, task) == missing_things


def test_what_a_party_does_not_run_needs_no_permission() -> None:
    spec = spec_of(sum_0={"need_run": False}, sum_1={"need_run": False})
    assert missing(BOTH, spec, HOST, frozenset(), READS) == [READER, TABLE]
    assert missing(BOTH, spec, GUEST, frozenset(), READS) == [READER, Thing(Kind.DATASET, "site_a", "demo"), SUM]


@pytest.mark.parametrize(
    ("body", "things"),
    [
        ({"component": "reader,secure_sum"}, [READER, SUM]),
        ({"component": " SecureSum , Reader,reader"}, [SUM, READER]),
        ({"component": ["Reader"]}, [READER]),
        ({"component": "*", "dataset": "*"}, list(EVERYTHING.values())),
        ({"dataset": {"namespace": "demo", "name": "site_b", "magic": 1}}, [TABLE]),
        ({"dataset": [{"namespace": "demo", "name": "site_b"}, "*"]}, [TABLE, EVERYTHING[Kind.DATASET]]),
    ],
)
def test_what_is_named_is_read(body: dict[str, Any], things: list[Thing]) -> None:
    assert read_things(body, CATALOGUE) == (things, [])


def test_what_is_known_is_read_and_the_components_of_fate_are_named() -> None:
    things, unknown = read_things({"component": "reader,hetero_lr,dataio, hetero_lr"}, CATALOGUE)
    assert things == [READER]
    assert unknown == [
        f"component: '{name}' is not a component of this server; it is ignored" for name in ("hetero_lr", "dataio")
    ]
    assert read_things({"component": ",".join(map(str, range(103))) + ",*"}, CATALOGUE)[1][100:] == [
        "component: ... and 3 more",
    ]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "missing: component or dataset"),
        ({"component": "magic"}, "component: 'magic' is not one of *, "),
        ({"component": ""}, "component: '' is not one of *, "),
        ({"component": 7}, "component: 7 is not"),
        ({"component": [7]}, "component: a list is not"),
        ({"dataset": "demo"}, "dataset: 'demo' is not"),
        ({"dataset": []}, "missing: component or dataset"),
        ({"dataset": {"name": "x"}}, "dataset.namespace: null is not"),
        ({"dataset": [{"namespace": "demo", "name": ".."}]}, "dataset.name: '..' is not"),
    ],
)
def test_what_names_nothing_that_there_is_is_refused(body: dict[str, Any], text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_things(body, CATALOGUE)
    assert text in caught.value.message


def test_it_is_written_as_it_is_read() -> None:
    written = as_written([SUM, TABLE, READER, EVERYTHING[Kind.DATASET]])
    assert written == {"component": ["Reader", "SecureSum"], "dataset": ["*", {"namespace": "demo", "name": "site_b"}]}
    assert set(read_things(written, CATALOGUE)[0]) == {SUM, TABLE, READER, EVERYTHING[Kind.DATASET]}
