"""The file of grants: what it says, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.access.limits import Grants, PartyLimits, TableLimits, described
from fate_flow.core.access.permission import ALL, EVERYTHING, INCOMING, OUTGOING, Kind, Thing
from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.jobspec.grants_file import GRANTS, read_grants, schema_text
from fate_flow.server.grants_file import load_grants

DOCS = Path(__file__).parents[3] / "docs"
TABLE = Thing(Kind.DATASET, "t", "demo")


def read(party: Any, version: Any = 1) -> tuple[dict[str, Grants], tuple[str, ...]]:
    return read_grants({"version": version, "parties": {"9999": party}}, CATALOGUE, "10000")


def test_the_published_schema_is_the_one_that_is_read() -> None:
    published = (DOCS / "grants.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "fate_flow grants schema > docs/grants.schema.json"
    Draft202012Validator.check_schema(json.loads(published))


@pytest.mark.parametrize(
    ("party", "grants"),
    [
        ({}, Grants()),
        ({"components": ["*"], "tables": ["*"]}, Grants(frozenset(EVERYTHING.values()))),
        ({"streams": {"in": ["command"], "out": ["*"]}}, Grants(frozenset({
            Thing(Kind.STREAM, "Command", INCOMING), Thing(Kind.STREAM, ALL, OUTGOING)}))),
        (
            {"components": ["reader", "secure_sum"], "cores": 0, "approval": False},
            Grants(
                frozenset({Thing(Kind.COMPONENT, "Reader"), Thing(Kind.COMPONENT, "SecureSum")}),
                limits=PartyLimits(0, approval=False),
            ),
        ),
        (
            {"tables": [{"namespace": "demo", "name": "t", "columns": ["b", "a"], "uses_a_day": 3}]},
            Grants(frozenset({TABLE}), {TABLE: TableLimits(frozenset({"a", "b"}), 3)}),
        ),
        (
            {"tables": [{"namespace": "demo", "name": "t", "columns": []}]},
            Grants(frozenset({TABLE}), {TABLE: TableLimits(frozenset())}),
        ),
    ],
)
def test_what_a_file_says(party: Any, grants: Grants) -> None:
    assert read(party) == ({"9999": grants}, ())


@pytest.mark.parametrize(
    ("party", "problem"),
    [
        ({"corse": 4}, "parties.9999.corse: is not known; did you mean cores"),
        ({"cores": "4"}, "parties.9999.cores: '4' is not a whole number"),
        ({"programs": ["/bin/sh"]}, "parties.9999.programs[0]: '/bin/sh' is not sha256: and 64 hex digits"),
        ({"least_intersection": 0}, "parties.9999.least_intersection: 0 is less than 1"),
        ({"cores": -1}, "parties.9999.cores: -1 is less than 0"),
        ({"approval": "yes"}, "parties.9999.approval: 'yes' is not true or false"),
        ({"components": ["Raeder"]}, "parties.9999.components[0]: 'Raeder' is not a component of this server; "
                                     "did you mean Reader"),
        ({"components": ["Reader", "Reader"]}, "parties.9999.components[1]: 'Reader' is there twice"),
        ({"components": "Reader"}, "parties.9999.components: 'Reader' is not a list"),
        ({"tables": ["all"]}, """parties.9999.tables[0]: 'all' is neither "*" nor an object with namespace and name"""),
        ({"tables": [7]}, "parties.9999.tables[0]: 7 is not an object or text"),
        ({"tables": [{"name": "t"}]}, "parties.9999.tables[0].namespace: is missing"),
        ({"tables": [{"namespace": "demo", "name": ".."}]}, "parties.9999.tables[0].name: '..' is not"),
        ({"tables": [{"namespace": "demo", "name": "t", "uses": 3}]},
         "parties.9999.tables[0].uses: is not known; known here: namespace, name, columns, uses_a_day"),
        ({"tables": [{"namespace": "demo", "name": "t", "uses_a_day": 0}]},
         "parties.9999.tables[0].uses_a_day: 0 is less than 1"),
        ({"tables": [{"namespace": "demo", "name": "t"}, {"namespace": "demo", "name": "t", "columns": ["x"]}]},
         "parties.9999.tables[1]: table demo/t is there twice"),
        (None, "parties.9999: null is not an object"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_path(party: Any, problem: str) -> None:
    grants, problems = read(party)
    assert grants == {}
    assert any(one.startswith(problem) for one in problems), problems


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"version": 2, "parties": {}}, "version: 2 is not 1"),
        ({"parties": {}}, "version: is missing"),
        ({"version": 1}, "parties: is missing"),
        ({"version": 1, "parties": {"10000": {}}}, "parties.10000: is this party itself, whose jobs need no grants"),
        ({"version": 1, "parties": {"guest": {}}}, "parties.guest: 'guest' is not the id of another party"),
        ([], "a list is not an object"),
    ],
)
def test_what_is_wrong_with_the_whole_file(document: Any, problem: str) -> None:
    grants, problems = read_grants(document, CATALOGUE, "10000")
    assert grants == {}
    assert any(problem in one for one in problems), problems


def test_a_file_is_read_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "grants.yaml"
    path.write_text("version: 1\nparties:\n  9999:\n    corse: 4\n    cores: x\n", encoding="utf-8")
    with pytest.raises(BadSettings) as caught:
        load_grants(path, CATALOGUE, "10000")
    assert sorted(caught.value.message.splitlines()) == [
        f"{path}: parties.9999.cores: 'x' is not a whole number (line 5)",
        f"{path}: parties.9999.corse: is not known; did you mean cores (line 4)",
    ]
    path.write_text("version: 1\nversion: 1\n", encoding="utf-8")
    with pytest.raises(BadRequest, match=f"{path}: line 2: version is there twice"):
        load_grants(path, CATALOGUE, "10000")
    path.write_bytes(b"\xff")
    with pytest.raises(BadSettings, match="is not UTF-8 text"):
        load_grants(path, CATALOGUE, "10000")
    with pytest.raises(BadSettings, match="cannot be read"):
        load_grants(tmp_path / "none.yaml", CATALOGUE, "10000")


_NAMES = st.sampled_from(["t", "u", "x y"])
_TABLES = st.builds(
    lambda name, columns, uses: {
        "namespace": "demo", "name": name, **({} if columns is None else {"columns": columns}),
        **({} if uses is None else {"uses_a_day": uses}),
    },
    st.sampled_from(["t", "u", "v"]), st.none() | st.lists(_NAMES, unique=True), st.none() | st.integers(1, 9),
)  # fmt: skip
_PARTIES = st.fixed_dictionaries(
    {},
    optional={
        "components": st.lists(st.sampled_from(["*", "Reader", "Intersection"]), unique=True),
        "tables": st.lists(_TABLES, unique_by=lambda one: one["name"]),
        "cores": st.integers(0, 99),
        "least_intersection": st.integers(1, 9),
        "programs": st.lists(st.sampled_from("ab").map(lambda digit: f"sha256:{64 * digit}"), unique=True),
        "approval": st.booleans(),
    },
)


@given(_PARTIES, _PARTIES)
def test_files_that_differ_are_described_differently(one: Any, other: Any) -> None:
    [(first, problems), (second, _)] = [read(party) for party in (one, other)]
    assert problems == ()
    assert (described(first["9999"]) == described(second["9999"])) == (first == second)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(
        st.sampled_from(["components", "tables", "cores", "namespace", "name", "columns", "x"]), inside, max_size=3
    ),
    max_leaves=8,
))  # fmt: skip
def test_any_other_value_is_a_problem_and_never_an_error(party: Any) -> None:
    document = {"version": 1, "parties": {"9999": party}}
    grants, problems = read_grants(document, CATALOGUE, "10000")
    assert bool(grants) != bool(problems)
    if not problems:
        Draft202012Validator(dict(GRANTS)).validate(document)
