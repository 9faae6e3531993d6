"""Workers as Jobs of Kubernetes: the engine with the official client, over an API server of the kit's own.

The pods are processes without the home of the server, which get their inputs over TLS.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.program import read_program
from fate_flow.core.model.program_scope import Program
from fate_flow.core.model.resources import Need
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.streams.addresses import NO_STREAMS, Address, Listens, StreamEnds
from fate_flow.engines.kubernetes.api import ClientApi
from fate_flow.engines.local.worker import EXIT, RUNNER
from fate_flow.engines.placed.folder import Pending
from fate_flow.server.engines.kubernetes_workers import _pods_of, kubernetes_workers
from fate_flow.server.engines.parts import EngineParts
from fate_flow.server.engines.placed_workers import PlacedWorkers
from fate_flow.services.context.ports import LaunchOrder
from fate_flow.settings.engines.kubernetes import KubernetesSettings, PodShare
from fate_flow.settings.servers import OneOfServers
from fate_flow.settings.worker_listen import WorkerListen
from tests.kit.engines.fake_gangs import FakeGangs
from tests.kit.engines.fake_kubernetes import FakeKubernetes
from tests.kit.engines.staged_host import KEY, SECRET, OtherHost, StagedServer, json_in
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(300)

CODE = "import pathlib; print('far'); pathlib.Path('made').write_text('x')"
WAITS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("up", flush=True)
signal.pause()
"""

WAITS_IN_VOLCANO = "waits in Volcano for nodes for all 2 workers of its gang: NotEnoughResources"


@dataclass
class Site:
    server: StagedServer
    fake: FakeKubernetes
    workers: PlacedWorkers

    def orders(
        self, worker_id: str, code: str, streams: StreamEnds = NO_STREAMS, gang: int = 0, start: int = 1
    ) -> None:
        """`gang`: how many workers of this party begin together; 0: it begins by itself; `start`: how many come with
        the start of the task."""
        parameters = {"command": [sys.executable, "-c", code]}
        self.server.statuses[worker_id] = WorkerStatus.CREATED
        self.workers.launch(LaunchOrder(
            self.server.worker(worker_id), "Command", "ab" * 16, (("guest", "9999"),), parameters, (), 1, 0, 1.0,
            worker_id, program=Program(read_program(parameters), {}, (), "9999"), need=Need(1), streams=streams,
            gathers=bool(gang), gang_size=gang or 1, batch_size=start,
        ))  # fmt: skip

    def state(self, worker_id: str) -> str:
        return self.workers.observe(self.server.worker(worker_id)).state

    def ends(self, worker_id: str) -> None:
        eventually(lambda: self.state(worker_id) == "exited", lambda: "\n".join(self.fake.output))

    def begins(self, worker_id: str) -> None:
        """Its program has begun, and its output has come."""
        folder = self.server.folder(worker_id)
        has_begun = lambda: (folder / RUNNER).exists() and (folder / "stdout").exists()  # noqa: E731
        eventually(has_begun, lambda: "\n".join(self.fake.output))

    def jobs(self) -> list[str]:
        return self.names("jobs")

    def names(self, kind: str) -> list[str]:
        with self.fake.lock:
            return [name for found, name in self.fake.objects if found == kind]

    def made(self, kind: str) -> list[str]:
        """Also those that are gone: if the end of a pod comes late, its Job is deleted."""
        with self.fake.lock:
            return [name for found, name in self.fake.made if found == kind]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with StagedServer(tmp_path / "home").listening() as server:
        host = OtherHost(tmp_path / "far", server)
        fake = FakeKubernetes(host.folder, host.env)
        with fake.serving() as kubeconfig:
            at = server.at
            settings = replace(server.settings, worker_listen=WorkerListen(at.host, at.port, str(at)))
            parts = EngineParts(settings, None, lambda _: None, "http://x", SECRET, server.workers.providers)
            one = KubernetesSettings("engines.k", image="i", namespace="fate", poll_seconds=0.3, settle_seconds=0.5)
            yield Site(server, fake, kubernetes_workers(parts, one, ClientApi(kubeconfig, "")))
        host.end()


def test_a_worker_runs_in_a_pod_and_its_files_come_home(site: Site) -> None:
    site.orders("w0", CODE)
    site.orders("w0", CODE)                  # launched again, as after a crash
    site.ends("w0")
    seen = site.workers.observe(site.server.worker("w0"))
    assert (seen.exit_code, seen.succeeded) == (0, True), (seen, site.fake.output)
    assert (site.server.folder("w0") / "work" / "made").read_text() == "x"
    assert (site.server.folder("w0") / "stdout").read_text() == "far\n"
    assert site.fake.asked.count("POST jobs") == 1
    [job] = site.made("jobs")
    assert job.startswith("fate-flow-")


@pytest.mark.parametrize(("minor", "keeps_index_limit", "jobs"), [("29", True, 1), ("28", True, 2), ("33+", False, 2)])
def test_the_workers_of_a_start_run_in_one_job_where_the_cluster_can(
    site: Site, minor: str, keeps_index_limit: bool, jobs: int
) -> None:
    site.fake.minor, site.fake.keeps_index_limit = minor, keeps_index_limit
    for name in ("w0", "w1"):
        site.orders(name, f"{CODE}; print({name!r})", start=2)
    for name in ("w0", "w1"):
        site.ends(name)
        seen = site.workers.observe(site.server.worker(name))
        assert (seen.exit_code, seen.succeeded) == (0, True), (seen, site.fake.output)
        assert (site.server.folder(name) / "stdout").read_text() == f"far\n{name}\n"
    made = site.made("jobs")
    dropped = () if keeps_index_limit else (made[0],)
    assert len(made) - len(dropped) == jobs
    assert not set(dropped) & set(site.jobs()), "a Job whose limit the cluster has dropped is deleted"
    assert len([pod for pod in site.made("pods") if not pod.startswith(dropped)]) == 2


def test_the_end_of_a_rank_is_that_of_its_pod_alone(site: Site) -> None:
    for name in ("w0", "w1", "w2"):
        site.orders(name, WAITS, start=3)
    for name in ("w0", "w1", "w2"):
        site.begins(name)
    [process] = [one for name, one in site.fake._processes.items() if name.endswith("-1-pod")]
    process.kill()
    site.ends("w1")
    assert json_in(site.server.folder("w1") / EXIT)["cause"] == "lost"
    for name in ("w0", "w2"):
        assert site.state(name) == "running"
        site.workers.stop(site.server.worker(name), 20.0)
        site.ends(name)
        assert json_in(site.server.folder(name) / EXIT)["exit_code"] == 7
    assert site.fake.asked.count("POST jobs") == 1


def test_a_rank_that_is_stopped_before_it_begins_loses_its_pod_and_the_last_one_the_job(site: Site) -> None:
    site.fake.has_nodes = False
    for name in ("w0", "w1"):
        site.orders(name, CODE, start=2)
    eventually(lambda: len(site.names("pods")) == 2, "a pod for each")
    assert {site.state(name) for name in ("w0", "w1")} == {"created"}
    site.workers.stop(site.server.worker("w0"), 1.0)
    eventually(lambda: [name[-6:] for name in site.names("pods")] == ["-1-pod"], lambda: str(site.fake.asked))
    assert len(site.jobs()) == 1
    site.workers.stop(site.server.worker("w1"), 1.0)
    eventually(lambda: site.jobs() == [], "a Job that nobody wants is deleted")


@pytest.mark.parametrize("start", [1, 2], ids=["a Job for each", "one Job"])
def test_a_gang_has_all_its_pods_or_none_and_begins_when_the_others_are_there(site: Site, start: int) -> None:
    site.fake.gangs = FakeGangs("scheduling.volcano.sh/v1beta1", places=1)
    workers = {name: site.server.worker(name) for name in ("w0", "w1")}
    for name in workers:
        site.orders(name, WAITS, gang=2, start=start)

    def waits(name: str) -> bool:
        assert site.state(name) == "created"
        found = Pending.read(site.server.folder(name))
        return found is not None and found.text == WAITS_IN_VOLCANO

    eventually(lambda: all(waits(name) for name in workers), lambda: str(site.fake.objects))
    assert site.fake.gangs.places == 1, "one of them could have begun alone"
    assert len(site.jobs()) == 2 // start
    site.fake.gangs.places = 2
    site.fake.schedule()
    has_arrived = lambda: all(site.workers.observe(one).has_arrived for one in workers.values())  # noqa: E731
    eventually(has_arrived, lambda: "\n".join(site.fake.output))
    assert set(site.server.woken) == {KEY.job_id}
    for name, worker in workers.items():
        assert site.state(name) == "created"
        site.workers.release(worker)
        site.begins(name)
        site.workers.stop(worker, 20.0)
        site.ends(name)
        assert json_in(site.server.folder(name) / EXIT)["exit_code"] == 7
    site.fake.has_nodes = False
    site.orders("w2", CODE)                  # without any worker, it lists only once a minute
    assert site.state("w2") == "created"
    eventually(lambda: site.names("podgroups") == [], "the PodGroup goes with its gang")
    site.workers.stop(site.server.worker("w2"), 1.0)


def test_a_worker_that_waits_for_its_gang_may_be_stopped(site: Site) -> None:
    worker, folder = site.server.worker("w0"), site.server.folder("w0")
    site.orders("w0", CODE, gang=1)
    eventually(lambda: site.workers.observe(worker).has_arrived, lambda: "\n".join(site.fake.output))
    site.workers.stop(worker, 20.0)
    site.ends("w0")
    assert json_in(folder / EXIT)["cause"] == "stopped"
    assert not (folder / RUNNER).exists()


@pytest.mark.parametrize("start", [1, 2])
@pytest.mark.parametrize("is_done", [False, True], ids=["the request is lost", "the answer is lost"])
def test_a_request_that_gets_lost_is_repeated_and_each_worker_runs_once(site: Site, is_done: bool, start: int) -> None:
    failed: set[str] = set()

    def fails(method: str, kind: str) -> int:
        if method != "POST" or kind in failed:
            return 0
        failed.add(kind)
        return 503

    site.fake.fails, site.fake.is_done = fails, is_done
    names = [f"w{number}" for number in range(start)]
    for name in names:
        site.orders(name, CODE, start=start)
    for name in names:
        site.ends(name)
        assert site.workers.observe(site.server.worker(name)).succeeded, site.fake.output
    assert failed == {"jobs", "secrets"}
    assert len(site.made("jobs")) == 1


def test_a_stop_ends_the_worker_with_its_grace_and_the_job_goes(site: Site) -> None:
    site.orders("w0", WAITS)
    site.begins("w0")
    site.workers.stop(site.server.worker("w0"), 20.0)
    site.ends("w0")
    end = json_in(site.server.folder("w0") / EXIT)
    assert (end["cause"], end["exit_code"]) == ("stopped", 7)


def test_people_see_why_a_pod_waits_and_a_stop_before_it_begins_is_the_end(site: Site) -> None:
    site.fake.has_nodes = False
    site.orders("w0", CODE)

    def waits() -> bool:
        assert site.state("w0") == "created"
        found = Pending.read(site.server.folder("w0"))
        return found is not None and found.text.endswith("for a node: Unschedulable")

    eventually(waits, lambda: Pending.read(site.server.folder("w0")))
    site.workers.stop(site.server.worker("w0"), 1.0)
    assert json_in(site.server.folder("w0") / EXIT)["cause"] == "stopped"
    eventually(lambda: site.jobs() == [], "a Job that nobody wants is deleted")


def test_a_pod_that_is_gone_without_an_end_makes_its_worker_lost(site: Site) -> None:
    site.orders("w0", WAITS)
    site.begins("w0")
    [process] = site.fake._processes.values()
    process.kill()
    site.ends("w0")
    assert json_in(site.server.folder("w0") / EXIT)["cause"] == "lost"


def test_a_refused_job_never_starts_and_says_why(site: Site) -> None:
    site.fake.fails = lambda method, kind: 403 if (method, kind) == ("POST", "jobs") else 0
    site.orders("w0", CODE)
    site.ends("w0")
    end = json_in(site.server.folder("w0") / EXIT)
    assert (end["cause"], end["message"]) == ("not_started", "Kubernetes refused it: status 403")


def test_a_task_with_streams_is_refused(site: Site) -> None:
    site.orders("w0", CODE, StreamEnds((Listens("p", Address("127.0.0.1", 1), ()),)))
    assert json_in(site.server.folder("w0") / EXIT)["message"].endswith("run it on the engine local")
    assert site.jobs() == []


def test_without_a_way_to_the_server_the_engine_is_refused(site: Site, tmp_path: Path) -> None:
    parts = EngineParts(site.server.settings, None, lambda _: None, "http://x", SECRET, site.server.workers.providers)
    api = ClientApi(tmp_path / "far" / "kubeconfig", "")
    with pytest.raises(BadSettings, match=r"set fateflow\.worker_listen, or engines\.k\.volume_claim"):
        kubernetes_workers(parts, KubernetesSettings("engines.k", image="i", namespace="fate"), api)
    with pytest.raises(BadSettings, match="kubeconfig: is not set, and this is no pod"):
        ClientApi(None, "")
    with pytest.raises(BadSettings, match="kubeconfig: /nowhere"):
        ClientApi(Path("/nowhere"), "")


def test_a_volume_has_the_home_that_all_servers_of_the_party_share(site: Site, tmp_path: Path) -> None:
    """The folders of workers are there, and not in the home of one of the servers."""
    several = replace(site.server.settings, one_of=OneOfServers("one", tmp_path / "shared"))
    parts = EngineParts(several, None, lambda _: None, "http://x", SECRET, site.server.workers.providers)
    one = KubernetesSettings("engines.k", image="i", namespace="fate", volume_claim="homes")
    pods = _pods_of(parts, one, PodShare())
    assert (pods.volume_claim, Path(pods.home)) == ("homes", tmp_path / "shared")
    assert several.jobs_dir.is_relative_to(pods.home)
