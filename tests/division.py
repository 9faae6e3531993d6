"""How the tests are divided over the processes of `bin/test`.

Tests with real servers mostly wait, and all others work. So most processes take their work from one end of the list,
where those with servers are, and a quarter of them, at least one, from the other end: a processor always has something
to do, and what is left when the servers are gone keeps all processors busy to the end. The longest stand at the ends
and the shortest in the middle, where they meet: all processes end at about the same time. What is handed out is a
*group*: the tests that borrow the same servers, or else a file.

A process has servers of its own, on ports of its own (tests/kit/servers/party_servers.py), so every division is right;
a bad one only starts more of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TESTS = Path(__file__).parent
WITH_SERVERS = ("integration", "genuine", "chaos", "fuzz", "attacks")
"""Folders."""
ONE_GROUP = ("genuine", "attacks")
"""Folders whose tests all share the same servers."""
ON_MARIADB = " on mariadb"
WITH_FATE = "heavy with fate"
ON_SLURM = "integration on slurm"
SECONDS: dict[str, float] = {
    "integration of jobs on sqlite": 190, "integration on mariadb": 90, "integration of servers on sqlite": 110,
    "genuine": 70, "attacks": 65, ON_SLURM: 105, WITH_FATE: 440, "heavy": 300,
    "tests/chaos/test_chaos.py": 25,
    "tests/integration/browser/test_board_in_a_browser.py": 70,
    "tests/integration/browser/test_keyboard_and_tabs.py": 15,
    "tests/integration/engine/test_engine.py": 13,
    "tests/integration/engine/test_engine_stop.py": 8,
    "tests/integration/engine/test_engine_strays.py": 6,
    "tests/integration/engine/test_engine_survival.py": 10,
    "tests/integration/engine/test_kubernetes_workers.py": 35,
    "tests/integration/engine/test_ray_runners.py": 13,
    "tests/integration/engine/test_ray_runners_elsewhere.py": 13,
    "tests/integration/engine/test_staged_workers.py": 28,
    "tests/integration/fate_2/test_real_dags.py": 25,
    "tests/integration/jobs/test_real_clients.py": 6,
    "tests/integration/jobs/test_real_intersection.py": 13,
    "tests/integration/jobs/test_real_models.py": 15,
    "tests/integration/jobs/test_real_native.py": 15,
    "tests/integration/jobs/test_real_people.py": 6,
    "tests/integration/jobs/test_real_permissions.py": 7,
    "tests/integration/jobs/test_real_providers.py": 20,
    "tests/integration/jobs/test_real_streams.py": 30,
    "tests/integration/jobs/test_real_writer.py": 10,
    "tests/integration/runs/test_ended_run.py": 25,
    "tests/integration/servers/test_cluster_command.py": 24,
    "tests/integration/servers/test_installed_wheel.py": 30,
    "tests/integration/servers/test_real_crash_points.py": 15,
    "tests/integration/servers/test_real_dialing.py": 17,
    "tests/integration/servers/test_real_gateway.py": 30,
    "tests/integration/servers/test_real_join.py": 42,
    "tests/integration/servers/test_real_lost_parties.py": 47,
    "tests/integration/servers/test_real_plain_v1.py": 27,
    "tests/integration/servers/test_real_signatures.py": 16,
    "tests/integration/servers/test_real_signed_answers.py": 6,
    "tests/integration/servers/test_real_start.py": 11,
    "tests/integration/servers/test_real_tls.py": 23,
    "tests/integration/store/test_schema.py": 14,
    "tests/integration/store/test_storage_faults.py": 23,
    "tests/integration/store/test_store_contract.py": 18,
    "tests/simulation/test_authority.py": 17,
    "tests/simulation/test_calm.py": 19,
    "tests/simulation/test_chaos.py": 61,
    "tests/simulation/test_contention.py": 40,
    "tests/simulation/test_elastic.py": 6,
    "tests/simulation/test_equivocation.py": 12,
    "tests/simulation/test_lifecycles.py": 14,
    "tests/simulation/test_limits.py": 4,
    "tests/simulation/test_mutants.py": 60,
    "tests/simulation/test_placed.py": 16,
    "tests/simulation/test_records.py": 14,
    "tests/unit/api/http/test_made_requests.py": 8,
    "tests/unit/api/http/test_site_auth.py": 6,
    "tests/unit/api/v1/test_client_data.py": 6,
    "tests/unit/api/v1/test_client_tracking.py": 7,
    "tests/unit/api/v1/test_client_views.py": 24,
    "tests/unit/api/v1/test_job_file.py": 7,
    "tests/unit/cli/server/test_audit_reconcile.py": 8,
    "tests/unit/cli/test_flow_requests.py": 7,
    "tests/unit/core/wire/test_wire_bodies.py": 8,
    "tests/unit/core/wire/test_wire_queries.py": 8,
    "tests/unit/gateway/test_dialing.py": 7,
    "tests/unit/jobspec/test_fate_v1_properties.py": 8,
    "tests/unit/jobspec/test_native_schema.py": 23,
    "tests/unit/peers/test_peer_http.py": 14,
    "tests/unit/peers/test_unanswered_commands.py": 6,
    "tests/unit/relay/test_spool_interleaved.py": 12,
    "tests/unit/store/test_flat_views.py": 7,
    "tests/unit/store/test_store_contract_fast.py": 9,
    "tests/unit/store/test_twin_stores.py": 7,
    "tests/unit/test_documents.py": 6,
    "tests/unit/web/tasks/test_task_pages.py": 8,
    "tests/unit/web/test_pages.py": 8,
}
"""How long the long groups take on two processors, about, as measured in a whole run; any other takes a moment for each
of its tests. A number that is no longer right makes nothing wrong: a run ends a little later."""
_MOMENT, _MOST_MOMENTS = 0.02, 5.0
_OWN = re.compile(r"^def (cluster|on_sqlite)\(", re.MULTILINE)
_ALL_LONG = re.compile(r"^pytestmark = .*\bpytest\.mark\.long\b", re.MULTILINE)
_BORROWED = re.compile(r"^ *def test\w*\([^)]*\b(cluster: Cluster|on_sqlite)\b", re.MULTILINE)


def group_of(nodeid: str) -> str:
    """The tests of a group run in one process, one after the other."""
    file = nodeid.partition("::")[0]
    folder = _folder(file)
    if folder == "heavy":
        # Each process has servers, of which only those for these tests import FATE's components.
        return WITH_FATE if file.startswith("tests/heavy/test_fate") else folder
    if file.startswith("tests/integration/slurm/"):
        return ON_SLURM
    if folder == "integration" and _borrows(file):
        # One group for all of SQLite would be the longest by far: everything else ends minutes before it.
        part = file.split("/")[2]
        return f"{folder}{ON_MARIADB}" if "[mariadb" in nodeid else f"{folder} of {part} on sqlite"
    return folder if folder in ONE_GROUP else file


def is_for_heavy(item: pytest.Item, has_mariadb: bool) -> bool:
    """Whether this is the one of two equal tests, on two databases, that is for `bin/test --heavy`.

    Of those of real servers `bin/test` has one, and the name of the test decides which: so it has all tests, about
    half of them on each database. Those of the simulation it has in memory.
    """
    values = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    if _folder(item.nodeid) == "simulation":
        return "sqlite" in values.values()
    database = values.pop("cluster", None)
    if not has_mariadb or database is None:
        return False
    name = f"{item.nodeid.partition('[')[0]} {sorted(map(str, values.values()))}"
    return (crc32(name.encode()) % 2 == 0) == (database == "sqlite")


def place(group: str, tests: int) -> tuple[int, float, str]:
    """Where it stands: first those with servers, the longest first; then all others, the longest last."""
    seconds = SECONDS.get(group, min(tests * _MOMENT, _MOST_MOMENTS))
    return (0, -seconds, group) if _folder(group) in WITH_SERVERS else (1, seconds, group)


def takes_servers(number: int, processes: int) -> bool:
    """Whether the process of this number, from 0, takes the tests with servers first."""
    return number < processes - max(1, processes // 4)


def has_only_long(path: Path) -> bool:
    """Whether a file marks all of its tests as long."""
    is_of_tests = path.name.startswith("test_") and path.suffix == ".py"
    return is_of_tests and bool(_ALL_LONG.search(path.read_text(encoding="utf-8")))


@cache
def _borrows(file: str) -> bool:
    text = (TESTS.parent / file).read_text(encoding="utf-8")
    return not _OWN.search(text) and bool(_BORROWED.search(text))


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
    """Whichever process is free takes the next group: most of them from the beginning, the others from the end."""

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = Numbered(collection)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        take = min if takes_servers(self.nodes.index(node), len(self.nodes)) else max
        wanted = take(self.workqueue, key=lambda group: place(group, len(self.workqueue[group])))
        self.workqueue.move_to_end(wanted, last=False)
        given = self.assigned_work.get(node, {})
        for group in [group for group, tests in given.items() if all(tests.values())]:
            del given[group]        # or xdist would count through all tests that have run, after each test
        super()._assign_work_unit(node)
