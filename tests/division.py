"""How the tests are divided over the processes of `bin/test`.

Tests with real servers mostly wait, and all others work. So half of the processes take their work from one end of the
list, where those with servers are, and the others from the other end: a processor always has something to do, and they
meet somewhere in the middle. What is handed out is a *group*: the tests that borrow the same servers, or else a file.

A process has servers of its own, on ports of its own (tests/kit/servers/party_servers.py), so every division is right;
a bad one only starts more of them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TESTS = Path(__file__).parent
WITH_SERVERS = ("integration", "genuine", "chaos")
"""Folders, those with the longest groups first."""
ON_MARIADB = " on mariadb"
_OWN = re.compile(r"^def (cluster|on_sqlite)\(", re.MULTILINE)
_BORROWED = re.compile(r"^ *def test\w*\([^)]*\b(cluster: Cluster|on_sqlite)\b", re.MULTILINE)


def group_of(nodeid: str) -> str:
    """The tests of a group run in one process, one after the other."""
    file = nodeid.partition("::")[0]
    folder = _folder(file)
    if folder == "integration" and _borrows(file):
        # One group for all of SQLite would be the longest by far: everything else ends minutes before it.
        part = file.split("/")[2]
        return f"{folder}{ON_MARIADB}" if "[mariadb" in nodeid else f"{folder} of {part} on sqlite"
    return folder if folder == "genuine" else file


def place(group: str, tests: int) -> tuple[int, int, str]:
    """Where it stands: first those with servers, last the simulation, the longer ones towards the ends."""
    folder = _folder(group)
    if "." not in group:    # no file: the tests of all files that borrow the same servers
        # A test on MariaDB takes several times as long as others: its group, begun late, would end last.
        return (-2 if group.endswith(ON_MARIADB) else -1, -tests, group)
    if folder in WITH_SERVERS:
        return (WITH_SERVERS.index(folder), -tests, group)
    return (len(WITH_SERVERS) + (folder == "simulation"), tests, group)


@cache
def _borrows(file: str) -> bool:
    text = (TESTS.parent / file).read_text(encoding="utf-8")
    return not _OWN.search(text) and bool(_BORROWED.search(text))


def _folder(name: str) -> str:
    return name.removeprefix("tests/").partition("/")[0].partition(" ")[0]


class FromBothEnds(LoadScopeScheduling):
    """Whichever process is free takes the next group: half of them from the beginning, the others from the end."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        takes_servers = self.nodes.index(node) < (len(self.nodes) + 1) // 2
        take = min if takes_servers else max
        wanted = take(self.workqueue, key=lambda group: place(group, len(self.workqueue[group])))
        self.workqueue.move_to_end(wanted, last=False)
        super()._assign_work_unit(node)
