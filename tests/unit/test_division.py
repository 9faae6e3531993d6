"""How the tests are divided over the processes of `bin/test`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.conftest import pytest_ignore_collect
from tests.division import (
    SECONDS,
    TESTS,
    Numbered,
    group_of,
    has_only_long,
    is_brief,
    is_for_heavy,
    is_reported,
    place,
    takes_servers,
)

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
    ("tests/integration/slurm/test_real_cluster.py::test_a", "integration on slurm"),
    ("tests/heavy/test_fate_ends.py::test_a[x]", "heavy with fate"),
    ("tests/heavy/fate_client_2/test_toy_2.py::test_a", "heavy"),
    ("tests/heavy/test_flower.py::test_a", "heavy"),
])  # fmt: skip
def test_tests_that_borrow_the_same_servers_stay_together(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group


def test_what_waits_stands_at_one_end_and_what_works_at_the_other_the_longest_first(
    monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    for group, seconds in (
        (SQLITE, 100), ("genuine", 90), (OWN, 20), (BRIEF, 10), ("tests/simulation/test_chaos.py", 50)
    ):
        monkeypatch.setitem(SECONDS, group, seconds)
    groups = {
        "tests/unit/test_a.py": 100, "tests/unit/test_b.py": 10_000, "tests/unit/test_c.py": 1, OWN: 8, BRIEF: 90,
        "tests/simulation/test_chaos.py": 5, "tests/integration/test_d.py": 2, "genuine": 1000, SQLITE: 168,
    }  # fmt: skip
    assert sorted(groups, key=lambda group: place(group, groups[group])) == [
        SQLITE, "genuine", OWN, BRIEF, "tests/integration/test_d.py", "tests/unit/test_c.py", "tests/unit/test_a.py",
        "tests/unit/test_b.py", "tests/simulation/test_chaos.py",
    ]  # fmt: skip


@pytest.mark.parametrize(("processes", "computing"), [(1, [0]), (2, [1]), (4, [3]), (5, [4]), (8, [6, 7])])
def test_a_quarter_of_the_processes_and_at_least_one_computes(processes: int, computing: list[int]) -> None:
    assert [number for number in range(processes) if not takes_servers(number, processes)] == computing


def test_the_groups_that_are_known_to_be_long_are_there() -> None:
    files = [path.relative_to(TESTS.parent).as_posix() for path in TESTS.rglob("test_*.py")]
    names = {SQLITE, OF_SERVERS, MARIADB, "genuine", "attacks"}
    assert SECONDS.keys() - names <= {group_of(f"{file}::test_a") for file in files}
    assert names <= SECONDS.keys()


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


@pytest.mark.parametrize(("asked", "is_left_out"), [
    ("tests", True), ("tests/unit", True), ("tests/heavy", None), ("tests/heavy/test_flower.py::test_a", None),
])
def test_heavy_tests_run_when_they_are_named(asked: str, is_left_out: bool | None) -> None:
    config = SimpleNamespace(
        option=SimpleNamespace(markexpr=""), args=[asked], invocation_params=SimpleNamespace(dir=TESTS.parent)
    )
    assert pytest_ignore_collect(TESTS / "heavy", cast(pytest.Config, config)) is is_left_out


@pytest.mark.parametrize("name", ["test_a", "test_b", "test_c"])
def test_of_two_equal_tests_of_real_servers_one_is_heavy(name: str) -> None:
    pair = [_item(f"tests/integration/jobs/test_x.py::{name}[{one}-1]", {"cluster": one, "n": 1}) for one in DATABASES]
    assert [is_for_heavy(item, True) for item in pair] in ([True, False], [False, True])
    assert [is_for_heavy(item, False) for item in pair] == [False, False], "the one on MariaDB is skipped"


def test_which_one_is_decided_by_the_name() -> None:
    ids = [f"tests/integration/jobs/test_x.py::test_{number}[sqlite]" for number in range(40)]
    heavy = [is_for_heavy(_item(one, {"cluster": "sqlite"}), True) for one in ids]
    assert 10 < sum(heavy) < 30


def test_the_simulation_is_on_sqlite_with_the_heavy_tests() -> None:
    name = "tests/simulation/test_x.py::test_a"
    assert is_for_heavy(_item(f"{name}[1-sqlite]", {"seed": 1, "store": "sqlite"}), True)
    assert not is_for_heavy(_item(f"{name}[1-memory]", {"seed": 1, "store": "memory"}), True)
    assert not is_for_heavy(_item("tests/unit/store/test_x.py::test_a[sqlite]", {"kind": "sqlite"}), True)


DATABASES = ("sqlite", "mariadb")


def _item(nodeid: str, params: dict[str, object]) -> pytest.Item:
    return cast(pytest.Item, SimpleNamespace(nodeid=nodeid, callspec=SimpleNamespace(params=params)))
