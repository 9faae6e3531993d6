"""How the tests are divided over the processes of `bin/test`.

Tests with real servers mostly wait, and all others work. So half of the processes take their work from one end of the
list, where those with servers are, and the others from the other end: a processor always has something to do, and they
meet somewhere in the middle. What is handed out is a *group*: the tests that borrow the same servers, or else a file.

A process has servers of its own, on ports of its own (tests/kit/servers/party_servers.py), so every division is right;
a bad one only starts more of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TESTS = Path(__file__).parent
WITH_SERVERS = ("integration", "genuine", "chaos", "fuzz", "attacks")
"""Folders, those with the longest groups first."""
ONE_GROUP = ("genuine", "attacks")
"""Folders whose tests all share the same servers."""
ON_MARIADB = " on mariadb"
_OWN = re.compile(r"^def (cluster|on_sqlite)\(", re.MULTILINE)
_ALL_LONG = re.compile(r"^pytestmark = .*\bpytest\.mark\.long\b", re.MULTILINE)
_BORROWED = re.compile(r"^ *def test\w*\([^)]*\b(cluster: Cluster|on_sqlite)\b", re.MULTILINE)


def group_of(nodeid: str) -> str:
    """The tests of a group run in one process, one after the other."""
    file = nodeid.partition("::")[0]
    folder = _folder(file)
    if folder == "integration" and _borrows(file):
        # One group for all of SQLite would be the longest by far: everything else ends minutes before it.
        part = file.split("/")[2]
        return f"{folder}{ON_MARIADB}" if "[mariadb" in nodeid else f"{folder} of {part} on sqlite"
    return folder if folder in ONE_GROUP else file


def place(group: str, tests: int) -> tuple[int, int, str]:
    """Where it stands: first those with servers, last the simulation, the longer ones towards the ends."""
    folder = _folder(group)
    if "." not in group:    # no file: the tests of all files that borrow the same servers
        # A test on MariaDB takes several times as long as others: its group, begun late, would end last.
        return (-2 if group.endswith(ON_MARIADB) else -1, -tests, group)
    if folder in WITH_SERVERS:
        # A file that starts servers of its own takes long for its few tests: it must not be begun last.
        return (WITH_SERVERS.index(folder) if _starts(group) else len(WITH_SERVERS), -tests, group)
    return (len(WITH_SERVERS) + 1 + (folder == "simulation"), tests, group)


def has_only_long(path: Path) -> bool:
    """Whether a file marks all of its tests as long."""
    is_of_tests = path.name.startswith("test_") and path.suffix == ".py"
    return is_of_tests and bool(_ALL_LONG.search(path.read_text(encoding="utf-8")))


@cache
def _borrows(file: str) -> bool:
    text = (TESTS.parent / file).read_text(encoding="utf-8")
    return not _OWN.search(text) and bool(_BORROWED.search(text))


@cache
def _starts(file: str) -> bool:
    has_cluster = "running_cluster(" in (TESTS.parent / file).read_text(encoding="utf-8")
    return has_cluster or "/servers/" in file or _folder(file) in ("chaos", "fuzz")


def _folder(name: str) -> str:
    return name.removeprefix("tests/").partition("/")[0].partition(" ")[0]


def is_brief(config: pytest.Config) -> bool:
    """Whether this is a process of xdist, and nobody has asked for more than dots and failures."""
    option = config.option
    asks_for_more = option.verbose > 0 or option.durations or option.maxfail or option.xmlpath
    return hasattr(config, "workerinput") and not asks_for_more and not {"P", "A"} & set(option.reportchars)


def is_reported(report: pytest.TestReport) -> bool:
    """Of a test that passes, only that; its set-up and take-down when something is wrong with them."""
    return report.when == "call" or not report.passed


class Numbered(list[str]):
    """A collection that knows where each of its tests stands: xdist asks for each test, and a list would search."""

    def __init__(self, nodeids: Sequence[str]) -> None:
        super().__init__(nodeids)
        self._numbers = {nodeid: number for number, nodeid in enumerate(nodeids)}

    def index(self, nodeid: str, *_: object) -> int:  # type: ignore[override]
        return self._numbers[nodeid]


class FromBothEnds(LoadScopeScheduling):
    """Whichever process is free takes the next group: half of them from the beginning, the others from the end."""

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = Numbered(collection)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        takes_servers = self.nodes.index(node) < (len(self.nodes) + 1) // 2
        take = min if takes_servers else max
        wanted = take(self.workqueue, key=lambda group: place(group, len(self.workqueue[group])))
        self.workqueue.move_to_end(wanted, last=False)
        given = self.assigned_work.get(node, {})
        for group in [group for group, tests in given.items() if all(tests.values())]:
            del given[group]        # or xdist would count through all tests that have run, after each test
        super()._assign_work_unit(node)
