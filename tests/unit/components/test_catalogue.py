"""What may be said to which component."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fate_flow.components.providers.description import own_parameters
from fate_flow.components.providers.table import CATALOGUE, PROVIDERS

UPLOAD = {"file": "/tmp/a.csv", "namespace": "demo", "name": "a", "head": 1, "partition": 2, "id_delimiter": ","}
TABLE = {"namespace": "demo", "name": "a"}

GOOD = [
    ("Upload", "local", UPLOAD),
    ("Upload", "local", {**UPLOAD, "destroy": True, "extend_sid": 0, "head": False, "remove_source": 1}),
    ("Upload", "local", {**UPLOAD, "id_delimiter": "\t", "partition": None}),
    ("Upload", "local", {**UPLOAD, "id_column": "x", "feature_column": "y,z", "extend_sid": 0}),
    ("Download", "local", {**TABLE, "output_path": "/tmp/b.csv"}),
    ("Writer", "local", {**TABLE, "output_path": "/tmp/b.csv"}),
    ("Writer", "local", {**TABLE, "output_namespace": "copies", "output_name": "a", "destroy": True}),
    ("Fetch", "local", {**TABLE, "connector": "c", "source": "t", "id_column": "id", "feature_column": "x,y"}),
    ("Reader", "guest", {"table": TABLE}),
    ("Reader", "host", {"table": {"namespace": "ü/..", "name": "."*3}}),
    ("Intersection", "host", {}),
    ("Intersection", "guest", {"intersect_method": "raw"}),
    ("SecureSum", "guest", {"column": "x0"}),
    ("SecureSum", "host", {"column": "x0", "precision": 0}),
    ("SecureAddExample", "guest", {"data_num": 1000, "partition": 4, "seed": 123}),
]

BAD = [
    ("Upload", "local", {**UPLOAD, "file": ""}, "file: '' is not the path of a CSV file"),
    ("Upload", "local", {**UPLOAD, "name": None}, "name is missing; "),
    ("Upload", "local", {**UPLOAD, "namespace": ".."}, "namespace: '..' is not printable text"),
    ("Upload", "local", {**UPLOAD, "name": "n" * 201}, "is not printable text of at most 200 bytes"),
    ("Upload", "local", {**UPLOAD, "name": "\ud800"}, "name: '\\ud800' is not printable text"),
    ("Upload", "local", {**UPLOAD, "head": 2}, "head: 2 is not true, false, 1 or 0"),
    ("Upload", "local", {**UPLOAD, "head": "1"}, "head: '1' is not"),
    ("Upload", "local", {**UPLOAD, "id_delimiter": ", "}, "id_delimiter: ', ' is not one character"),
    ("Upload", "local", {**UPLOAD, "id_delimiter": '"'}, "id_delimiter"),
    ("Upload", "local", {**UPLOAD, "partition": 0}, "partition: 0 is not a whole number from 1 to 10000"),
    ("Upload", "local", {**UPLOAD, "partition": True}, "partition: True"),
    ("Upload", "local", {**UPLOAD, "id_column": 5}, "id_column: 5 is not the name of a column"),
    ("Upload", "local", {**UPLOAD, "id_column": "x", "extend_sid": 1}, "id_column: 'x' excludes extend_sid"),
    ("Upload", "guest", UPLOAD, "Upload does not run at role 'guest', only at local"),
    ("Download", "local", TABLE, "output_path is missing; the path of the CSV file to write is needed"),
    ("Writer", "local", TABLE, "output_path is missing, and so are output_namespace and output_name"),
    ("Writer", "local", {**TABLE, "output_name": "b"}, "output_namespace and output_name: one of them is missing"),
    ("Writer", "local", {**TABLE, "target": "t"}, "connector and target: one of them is missing"),
    ("Writer", "local", {**TABLE, "connector": "c", "target": "a.b"}, "target: 'a.b' is not the name of a table: 1 to"),
    ("Writer", "guest", {**TABLE, "output_path": "/tmp/b.csv"}, "Writer does not run at role 'guest', only at local"),
    ("Fetch", "local", {**TABLE, "source": "t"}, "connector is missing"),
    ("Fetch", "local", {**TABLE, "connector": "c", "source": "a b"}, "source: 'a b' is not the name of a table"),
    ("Reader", "guest", {}, "table is missing"),
    ("Reader", "guest", {"table": "demo.a"}, "table: 'demo.a' is not {\"namespace\": text, \"name\": text}"),
    ("Reader", "host", {"table": {"name": "a"}}, "table: "),
    ("SecureSum", "guest", {"column": "x", "precision": 19}, "precision: 19 is not a whole number of decimals"),
    ("SecureSum", "guest", {}, "column is missing"),
    ("SecureAddExample", "host", {"data_num": 1.5}, "data_num: 1.5 is not a whole number"),
]


@pytest.mark.parametrize(("module", "role", "parameters"), GOOD)
def test_what_is_right_has_no_problems(module, role, parameters):
    assert CATALOGUE[module].check(parameters, role) == []


@pytest.mark.parametrize(("module", "role", "parameters", "problem"), BAD)
def test_a_problem_names_key_value_and_what_is_right(module, role, parameters, problem):
    (found,) = CATALOGUE[module].check(parameters, role)
    assert problem in found


def test_all_problems_are_told_at_once():
    assert len(CATALOGUE["Upload"].check({"head": 7, "partition": -1}, "local")) == 5


def test_unknown_parameters_are_warned_of_and_no_problem():
    info = CATALOGUE["Intersection"]
    parameters = {"intersect_method": "raw", "need_run": True}
    assert info.warnings(parameters) == ["intersect_method: Intersection has no such parameter, it has no effect"]
    assert info.check(parameters, "guest") == []


def test_also_of_those_within_a_table():
    table = {"namespace": "demo", "name": "a", "foo": 1, "a b": None}
    assert CATALOGUE["Reader"].warnings({"table": table}) == [
        f"table.{key}: Reader has no such parameter, it has no effect" for key in ("foo", "'a b'")
    ]
    assert CATALOGUE["Reader"].check({"table": table}, "guest") == []


def test_keys_for_the_coordinator_are_kept_from_components():
    assert own_parameters({"need_run": False, "column": "x"}) == {"column": "x"}


@pytest.mark.parametrize("name", ["SecureAddExample", "secure_add_example", "secureaddexample", "SECUREADDEXAMPLE"])
def test_a_component_is_found_however_its_name_is_written(name):
    assert PROVIDERS.find(name) is CATALOGUE["SecureAddExample"]


def test_an_unknown_component_is_not_found():
    assert PROVIDERS.find("HeteroLR") is None


def test_the_catalogue_is_consistent():
    for module, info in CATALOGUE.items():
        assert info.module == module
        assert info.parameter_group.endswith("Param")
    assert CATALOGUE["Upload"].default_task_cores == 4
    assert CATALOGUE["Download"].default_task_cores == 1


def test_traits_name_parameters_that_the_component_has():
    for info in CATALOGUE.values():
        named = {info.file_read, info.file_written, "connector" if info.uses_connector else ""}
        named |= {"namespace", "name"} if info.reads_by_name else set()
        assert named - {""} <= set(info.parameters), info.module
        assert bool(info.origin) == (info.made_at is not None), info.module


@pytest.mark.parametrize(
    ("module", "parameters", "origin"),
    [
        ("Upload", {}, "upload"), ("Upload", {"is_bound": True}, "table_bind"), ("Writer", {}, "writer"),
        ("Fetch", {}, "table_bind"), ("Download", {}, ""), ("Reader", {}, ""), ("Intersection", {}, ""),
    ],
)  # fmt: skip
def test_a_component_says_whether_its_tables_outlive_the_results_of_the_job(module, parameters, origin):
    assert CATALOGUE[module].table_origin(parameters) == origin


def test_a_component_says_where_its_parameters_name_the_table_that_it_reads():
    assert [info.module for info in CATALOGUE.values() if info.reads_by_name] == ["Download", "Writer"]


def test_the_catalogue_is_light():
    """The server imports it, so it must not bring the libraries of the components."""
    code = (
        "import sys, fate_flow.components.providers.table\n"
        "print([m for m in ('private_set_intersection', 'sqlite3', 'http.client', 'requests', 'yaml')"
        " if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"
