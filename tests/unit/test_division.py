"""How the tests are divided over the processes of `bin/test`."""

from __future__ import annotations

import pytest

from tests.division import group_of, place

SQLITE, OF_SERVERS = "integration of jobs on sqlite", "integration of servers on sqlite"
MARIADB, OWN = "integration on mariadb", "tests/integration/jobs/test_real_native.py"


@pytest.mark.parametrize(("nodeid", "group"), [
    ("tests/unit/test_layers.py::test_a[b]", "tests/unit/test_layers.py"),
    ("tests/simulation/test_chaos.py::test_a", "tests/simulation/test_chaos.py"),
    ("tests/genuine/test_checklist.py::test_a", "genuine"),
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
        "genuine": 1000, OWN: 8, SQLITE: 168, OF_SERVERS: 100, MARIADB: 33, "tests/simulation/test_mutants.py": 50,
    }  # fmt: skip
    assert sorted(groups, key=lambda group: place(group, groups[group])) == [
        MARIADB, "genuine", SQLITE, OF_SERVERS, OWN, "tests/chaos/test_chaos.py", "tests/unit/test_layers.py",
        "tests/simulation/test_chaos.py", "tests/simulation/test_mutants.py",
    ]  # fmt: skip
