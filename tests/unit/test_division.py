"""How the tests are divided over the processes of `bin/test`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.division import Numbered, group_of, has_only_long, is_brief, is_reported, place

SQLITE, OF_SERVERS = "integration of jobs on sqlite", "integration of servers on sqlite"
MARIADB, OWN = "integration on mariadb", "tests/integration/jobs/test_real_native.py"
BRIEF = "tests/integration/engine/test_engine.py"


@pytest.mark.parametrize(("nodeid", "group"), [
    ("tests/unit/test_layers.py::test_a[b]", "tests/unit/test_layers.py"),
    ("tests/simulation/test_chaos.py::test_a", "tests/simulation/test_chaos.py"),
    ("tests/genuine/test_checklist.py::test_a", "genuine"),
    ("tests/attacks/test_name_attacks.py::test_a[1]", "attacks"),
    ("tests/integration/jobs/test_real_rerun.py::test_a[sqlite]", SQLITE),
    ("tests/integration/jobs/test_real_rerun.py::test_a[mariadb]", MARIADB),
    ("tests/integration/jobs/test_real_rerun.py::test_b", SQLITE),
    ("tests/integration/servers/test_real_logs.py::test_a[sqlite]", OF_SERVERS),
    ("tests/integration/servers/test_real_logs.py::test_a[mariadb]", MARIADB),
    ("tests/integration/jobs/test_real_native.py::test_a", OWN),
    ("tests/integration/servers/test_cluster_command.py::test_a", "tests/integration/servers/test_cluster_command.py"),
    ("tests/integration/engine/test_engine.py::test_a", "tests/integration/engine/test_engine.py"),
])  # fmt: skip
def test_tests_that_borrow_the_same_servers_stay_together(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group


def test_what_waits_stands_at_one_end_and_what_works_at_the_other() -> None:
    groups = {
        "tests/unit/test_layers.py": 300, "tests/simulation/test_chaos.py": 5, "tests/chaos/test_chaos.py": 40,
        "genuine": 1000, OWN: 8, BRIEF: 90, SQLITE: 168, OF_SERVERS: 100, MARIADB: 33,
        "tests/simulation/test_mutants.py": 50,
    }  # fmt: skip
    assert sorted(groups, key=lambda group: place(group, groups[group])) == [
        MARIADB, "genuine", SQLITE, OF_SERVERS, OWN, "tests/chaos/test_chaos.py", BRIEF, "tests/unit/test_layers.py",
        "tests/simulation/test_chaos.py", "tests/simulation/test_mutants.py",
    ]  # fmt: skip


@pytest.mark.parametrize(("when", "outcome", "is_wanted"), [
    ("setup", "passed", False), ("setup", "failed", True), ("setup", "skipped", True), ("call", "passed", True),
    ("call", "failed", True), ("call", "skipped", True), ("teardown", "passed", False), ("teardown", "failed", True),
])
def test_a_process_tells_what_a_test_came_to_and_what_is_wrong_with_it(
    when: Any, outcome: Any, is_wanted: bool
) -> None:
    report = pytest.TestReport("tests/a.py::test_a", ("tests/a.py", 1, "test_a"), {}, outcome, None, when)
    assert is_reported(report) is is_wanted


@pytest.mark.parametrize("asked", [
    {"verbose": 1}, {"durations": 5}, {"maxfail": 1}, {"xmlpath": "x.xml"}, {"reportchars": "P"}, {"reportchars": "A"},
], ids=str)
def test_a_process_tells_all_when_it_is_asked_to(asked: dict[str, Any]) -> None:
    usual = {"verbose": -1, "durations": None, "maxfail": 0, "xmlpath": None, "reportchars": "fE"}
    of_xdist, alone = ({"workerinput": {}}, {})
    assert is_brief(cast("Any", SimpleNamespace(option=SimpleNamespace(**usual), **of_xdist)))
    assert not is_brief(cast("Any", SimpleNamespace(option=SimpleNamespace(**usual), **alone)))
    assert not is_brief(cast("Any", SimpleNamespace(option=SimpleNamespace(**usual | asked), **of_xdist)))


def test_a_collection_finds_its_tests_as_a_list_does() -> None:
    names = ["a::b", "a::c", "d::e"]
    numbered = Numbered(names)
    assert [numbered.index(name) for name in names] == [0, 1, 2]
    assert numbered == names


@pytest.mark.parametrize(("name", "text", "is_left_out"), [
    ("test_a.py", "pytestmark = pytest.mark.long\n", True),
    ("test_a.py", "pytestmark = [pytest.mark.long, pytest.mark.usefixtures('x')]\n", True),
    ("test_a.py", "@pytest.mark.long\ndef test_a() -> None: ...\n", False),
    ("test_a.py", "    pytestmark = pytest.mark.long\n", False),
    ("kit.py", "pytestmark = pytest.mark.long\n", False),
])
def test_a_file_is_left_out_as_a_whole_when_all_its_tests_are_long(
    name: str, text: str, is_left_out: bool, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert has_only_long(path) is is_left_out
