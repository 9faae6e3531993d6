"""`bin/cluster` with real servers: what it promises to the demo, the tests and the benchmark.

Most tests ask for a cluster without gateways, which starts in less time. Most run the command in a fork of a process
that has its modules (tests/kit/servers/warm.py), and so do the servers; those of what a process holds, of an interrupt
and of the whole way from `up` to `down` execute it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from fate_flow.cli.server import cluster_processes, service
from fate_flow.cli.server.cluster_plan import Cluster, Options, Ports
from fate_flow.engines.local.spawner import SPAWNER
from fate_flow.engines.local.worker import LAUNCH, RUNNER, Started, WorkerSpec
from fate_flow.server.probes import answers
from tests.kit.servers.party_servers import PartyServer, toy
from tests.kit.servers.warm import WARM, Done
from tests.kit.waiting import eventually

COMMAND = Path(__file__).parents[3] / "bin" / "cluster"
BASE_PORT = 27_000 + os.getpid() % 280 * 20    # away from a cluster that somebody works with
MYSQL_URL = os.environ.get("FATE_FLOW_TEST_MYSQL_URL", "")
SECONDS = 120

Document = dict[str, dict[str, Any]]


class ClusterUnderTest:
    """A folder and the command, called as a user calls it. `executes`: no fork of a process with its modules."""

    def __init__(self, root: Path, *, executes: bool = False) -> None:
        self.root = root
        self._executes = executes

    def begin(self, verb: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [COMMAND, verb, "--dir", self.root, *arguments], cwd="/", text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )

    def call(self, verb: str, *arguments: str, expect: int = 0) -> tuple[Document, str]:
        """The parties of the printed document by their ids, and what was said on stderr."""
        done = self._executed(verb, *arguments) if self._executes else self.forked(verb, *arguments)
        assert done.code == expect, done.err
        parties = json.loads(done.out)["parties"] if done.out else []
        return {party["party_id"]: party for party in parties}, done.err

    def forked(self, verb: str, *arguments: str) -> Done:
        return WARM.run("bin/cluster", verb, "--dir", str(self.root), *arguments, seconds=SECONDS)

    def _executed(self, verb: str, *arguments: str) -> Done:
        process = self.begin(verb, *arguments)
        output, errors = process.communicate(timeout=SECONDS)
        return Done(process.returncode, output, errors)

    def up(self, *party_ids: str, expect: int = 0, options: tuple[str, ...] = ("--plain",)) -> tuple[Document, str]:
        parties = [word for party_id in party_ids for word in ("--party", party_id)]
        return self.call("up", *parties, "--base-port", str(BASE_PORT), *options, expect=expect)

    def processes(self) -> list[psutil.Process]:
        """Everything that was started for this folder: its name is in every command line."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and str(self.root) in " ".join(process.cmdline()):
                    found.append(process)
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterUnderTest]:
    with taken_down(ClusterUnderTest(tmp_path / "a cluster")) as under_test:
        yield under_test


@pytest.fixture
def executed(tmp_path: Path) -> Iterator[ClusterUnderTest]:
    """The same; its commands and servers are no forks."""
    with taken_down(ClusterUnderTest(tmp_path / "a cluster", executes=True)) as under_test:
        yield under_test


@contextmanager
def taken_down(under_test: ClusterUnderTest) -> Iterator[ClusterUnderTest]:
    under_test.root.mkdir()
    yield under_test
    under_test.call("down")
    assert under_test.processes() == []


@pytest.fixture
def run_worker(tmp_path: Path) -> Iterator[Callable[[Path], Started]]:
    """Starts a worker below a home as the server's spawner does, with a runner that is nobody's child of ours."""
    runners: list[subprocess.Popen[bytes]] = []

    def run(home: Path) -> Started:
        folder = home / "jobs" / "1" / "worker"
        folder.mkdir(parents=True)
        spec = WorkerSpec(
            worker_id="w", folder=folder, provider="mine", way="exec", cwd=folder, env={},
            argv=(sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"),
            stdout=folder / "out", stderr=folder / "err",
        )
        (folder / LAUNCH).write_text(spec.to_json())
        code = "import sys; from fate_flow.engines.local import runner; runner.run_worker(runner.Path(sys.argv[1]))"
        runners.append(subprocess.Popen([sys.executable, "-c", code, folder, SPAWNER, home]))
        wait_until(lambda: (folder / RUNNER).exists())
        started = Started.read(folder)
        assert started
        return started

    yield run
    for runner in runners:
        runner.kill()
        runner.wait()


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"it did not come true in {SECONDS} seconds"
        time.sleep(0.02)


def group_of(pid: int) -> list[int]:
    return [stat.pid for stat in service.running_processes() if stat.group == pid]


def test_up_starts_servers_that_answer_and_down_leaves_no_process(executed: ClusterUnderTest) -> None:
    parties, errors = executed.up("9999", "10000", options=("--cores", "8"))
    assert list(parties) == ["9999", "10000"]
    for party_id, party in parties.items():
        assert set(party) == {"party_id", "url", "gateway", "home", "pid"}
        assert party["home"] == str(executed.root / party_id)
        assert answers(party["url"], SECONDS)
        assert f"party {party_id}: {party['url']}" in errors
        assert urlsplit(party["gateway"]).scheme == "https"
    guest, host = (PartyServer(name, party["url"], Path(party["home"])) for name, party in parties.items())
    job = eventually(lambda: accepted(guest), "the parties to reach each other, over TLS")
    for party in (guest, host):
        party.wait(str(job["jobId"]), "success")
    for party, other in ((guest, "10000"), (host, "9999")):
        over_tls = [("from", other, "TLSv1.3"), ("to", other, "TLSv1.3")]
        eventually(lambda: contacts_of(party) == over_tls, "the contacts of both directions")  # noqa: B023  # at once
    shown, _ = executed.call("status")
    assert shown == {party_id: {**party, "running": True} for party_id, party in parties.items()}

    executed.call("down")
    assert executed.processes() == []
    assert not any(answers(party["url"]) for party in parties.values())
    shown, _ = executed.call("status", expect=3)
    assert [(party["running"], party["pid"]) for party in shown.values()] == [(False, None), (False, None)]
    executed.call("down")
    assert (executed.root / "9999" / "logs" / "fate_flow" / "console.log").exists()


def accepted(server: PartyServer) -> dict[str, Any] | None:
    answer = server.submit(toy())
    return answer if answer["retcode"] == 0 else None


def contacts_of(server: PartyServer) -> list[tuple[str, str, str]]:
    """When others were heard and reached over TLS: direction, party and version."""
    rows = server.rows("SELECT f_direction, f_party_id, f_tls FROM t_party_contact ORDER BY f_direction")
    return [(row["f_direction"], row["f_party_id"], row["f_tls"]) for row in rows]


@pytest.mark.heavy
def test_servers_hold_nothing_of_whoever_started_them(executed: ClusterUnderTest) -> None:
    # That `call` came back says the same of its pipes: it read them to their end.
    parties, _ = executed.up("9999")
    pid = parties["9999"]["pid"]
    console = str(service.console_log(executed.root / "9999"))
    assert [os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)] == ["/dev/null", console, console]
    assert os.getsid(pid) == os.getpgid(pid) == pid
    assert psutil.Process(pid).cwd() == str(executed.root / "9999")


def test_up_again_leaves_running_parties_alone_and_refuses_others(cluster: ClusterUnderTest) -> None:
    first, _ = cluster.up("9999", "10000")
    assert cluster.up("10000", "9999")[0] == first
    assert cluster.call("up")[0] == first
    _, errors = cluster.up("9999", "10000", "10001", expect=1)
    assert "has 9999, 10000" in errors
    assert "Traceback" not in errors
    assert cluster.call("status")[0]["9999"]["pid"] == first["9999"]["pid"]


@pytest.mark.heavy
def test_a_cluster_that_was_down_comes_back_on_its_ports(cluster: ClusterUnderTest) -> None:
    first, _ = cluster.up("9999", "10000")
    cluster.call("down")
    again, _ = cluster.call("up")
    assert [party["url"] for party in again.values()] == [party["url"] for party in first.values()]


@pytest.mark.heavy
def test_a_killed_server_is_gone_whole_and_comes_back_in_its_place(cluster: ClusterUnderTest) -> None:
    before, _ = cluster.up("9999", "10000")
    pid = before["10000"]["pid"]
    assert len(group_of(pid)) > 1
    shown, _ = cluster.call("kill", "--party", "10000")
    assert group_of(pid) == []
    assert [party["running"] for party in shown.values()] == [True, False]
    cluster.call("status", expect=3)
    cluster.call("kill", "--party", "10000")

    after, _ = cluster.call("start", "--party", "10000")
    assert after["10000"]["running"]
    assert after["10000"]["pid"] != pid
    assert [after["10000"][key] for key in ("url", "home")] == [before["10000"][key] for key in ("url", "home")]
    assert cluster.call("start", "--party", "10000")[0] == after
    assert after["9999"]["pid"] == before["9999"]["pid"]


def test_what_a_dead_supervisor_left_is_ended_before_a_new_start(cluster: ClusterUnderTest) -> None:
    parties, _ = cluster.up("9999")
    old = psutil.Process(parties["9999"]["pid"])
    group = group_of(old.pid)
    old.kill()
    wait_until(lambda: service.find(cluster.root / "9999") is None)
    cluster.call("status", expect=3)
    cluster.call("start", "--party", "9999")
    assert not set(group) & {process.pid for process in cluster.processes()}


def test_kill_spares_workers_and_down_ends_them(
    cluster: ClusterUnderTest, run_worker: Callable[[Path], Started]
) -> None:
    cluster.up("9999")
    started = run_worker(cluster.root / "9999")
    cluster.call("kill", "--party", "9999")
    assert started.worker.is_alive()
    assert started.runner.is_alive()
    cluster.call("down")
    assert not started.worker.is_alive()
    assert not started.runner.is_alive()


def test_down_ends_a_worker_whose_runner_claims_it_while_it_looks(
    tmp_path: Path, run_worker: Callable[[Path], Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has forked the runner just before its end. The program of the worker has another command line."""
    cluster = Cluster(tmp_path, (), Options())
    home, look, late = cluster.home("9999"), cluster_processes.living_workers, list[Started]()

    def look_before_it_claims(jobs: Path) -> list[Path]:
        found = look(jobs)
        if not late:
            late.append(run_worker(home))
            wait_until(lambda: SPAWNER not in psutil.Process(late[0].worker.pid).cmdline())
        return found

    monkeypatch.setattr(cluster_processes, "living_workers", look_before_it_claims)
    cluster_processes._end_workers(cluster, "9999")
    assert not late[0].worker.is_alive()
    assert not late[0].runner.is_alive()


def test_a_server_that_cannot_start_is_named_and_takes_the_others_with_it(cluster: ClusterUnderTest) -> None:
    overlay = cluster.root / "10000" / "conf" / "local.service_conf.yaml"
    overlay.parent.mkdir(parents=True)
    overlay.write_text("limits: {no_such_limit: 1}\n")
    shown, errors = cluster.up("9999", "10000", expect=1)
    assert shown == {}
    assert "party 10000: the server ended with exit code" in errors
    assert "no_such_limit" in errors
    assert cluster.processes() == []

    overlay.unlink()
    assert list(cluster.up("9999", "10000")[0]) == ["9999", "10000"]


@pytest.mark.heavy
def test_an_interrupted_up_leaves_nothing_behind(executed: ClusterUnderTest) -> None:
    process = executed.begin("up", "--party", "9999", "--party", "10000", "--base-port", str(BASE_PORT))
    wait_until(lambda: len(executed.processes()) > 1)
    process.terminate()
    process.communicate(timeout=SECONDS)
    assert process.returncode in (0, 143, -signal.SIGTERM)    # 0: it was faster; the last: it had not begun
    if process.returncode == 143:
        assert executed.processes() == []
    elif process.returncode:      # it was a shell still, whose own children end by themselves
        wait_until(lambda: executed.processes() == [])


def test_an_interrupt_right_after_the_fork_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            spawned.append(self)
            os.kill(os.getpid(), signal.SIGTERM)

    def interrupt(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with pytest.raises(SystemExit):
            service.launch(tmp_path / "none.yaml", tmp_path, command=("sh", "-c", "sleep 600"))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [process.wait(timeout=SECONDS) for process in spawned] == [-signal.SIGKILL]


def test_taken_ports_are_passed_over_and_the_routes_know(cluster: ClusterUnderTest) -> None:
    # Until its last thread has ended, a server of an earlier test holds it.
    with eventually(lambda: listening_at(BASE_PORT), "the port to be free"):
        parties, _ = cluster.up("9999", "10000")
    assert not any(party["url"].endswith(f":{BASE_PORT}") for party in parties.values())
    conf = (cluster.root / "9999" / "conf" / "service_conf.yaml").read_text()
    assert parties["10000"]["url"] in conf


def listening_at(port: int) -> socket.socket | None:
    with suppress(OSError):
        return socket.create_server(("127.0.0.1", port))
    return None


@pytest.mark.heavy
def test_clusters_that_are_made_at_once_get_different_ports(tmp_path: Path) -> None:
    clusters = [ClusterUnderTest(tmp_path / name) for name in ("one", "two", "three")]
    try:
        options = ("--plain", "--party", "9999", "--base-port", str(BASE_PORT))
        with ThreadPoolExecutor() as at_once:
            done = list(at_once.map(lambda one: one.forked("up", *options), clusters))
        assert [one.code for one in done] == [0, 0, 0], done
        assert len({json.loads(one.out)["parties"][0]["url"] for one in done}) == 3
    finally:
        for one in clusters:
            one.call("down")
    assert [one.processes() for one in clusters] == [[], [], []]


def test_a_port_is_claimed_once_on_the_whole_machine() -> None:
    with closing(Ports()) as ours, closing(Ports()) as theirs:
        port = next(port for port in range(BASE_PORT, 65536) if ours.is_free(port))
        assert ours.is_free(port)
        assert not theirs.is_free(port)
        ours.close()
        assert theirs.is_free(port)


@pytest.mark.mariadb
@pytest.mark.skipif(not MYSQL_URL, reason="no MariaDB server here; bin/test says why")
def test_each_party_gets_a_database_of_its_own(cluster: ClusterUnderTest) -> None:
    template = f"{MYSQL_URL}/cluster_{os.getpid()}_{{party_id}}"
    parties, _ = cluster.up("9999", "10000", options=("--plain", "--database", template))
    assert all(answers(party["url"], SECONDS) for party in parties.values())
    assert not (cluster.root / "9999" / "fate_flow.sqlite").exists()
