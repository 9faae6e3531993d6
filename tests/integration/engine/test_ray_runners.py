"""The engine `ray` with a Jobs API of tests that runs real processes: runners, workers, stops, and Ray's own end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fate_flow.core.model.resources import Need
from fate_flow.engines.local.worker import EXIT, Exit, WorkerSpec, claim
from fate_flow.engines.placed.conduct import Conduct
from fate_flow.engines.placed.engine import PlacedEngine
from fate_flow.engines.placed.folder import intend
from fate_flow.engines.placed.submitting import ProcessesHere
from fate_flow.engines.ray.client import RayClient
from fate_flow.engines.ray.cluster import RayCluster, RayShare
from tests.kit.engines.ray_jobs import GCS_ADDRESS, FakeRay, Job, running_fake
from tests.kit.servers.engine_site import POLITE
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(300)

PREFIX = "fate-flow-home-"
RUN = [sys.executable, "-P", "-m", "fate_flow.engines.ray.run"]
SHELL = ("/bin/sh", "-c")


class Site:
    """An engine without a thread, and the worker `w`."""

    def __init__(self, ray: FakeRay, home: Path) -> None:
        self.ray, self.home = ray, home
        self.jobs = home / "jobs"
        self.engine = self.new_engine()

    def new_engine(self) -> PlacedEngine:
        """As after a restart of the server."""
        conduct = Conduct(0.05, 600, 0.2, lambda folder: [*RUN, str(folder)], self.jobs, PREFIX)
        cluster = RayCluster(RayClient(self.ray.address, self.ray.token_file), PREFIX, RayShare())
        return PlacedEngine(cluster, conduct, lambda _: None, has_thread=False)

    def place(self, *argv: str, cores: int = 1) -> Path:
        folder = self.jobs / "job" / "w"
        spec = WorkerSpec(
            "w", folder, "mine", "exec", argv, self.home, folder / "out", folder / "err", grace_seconds=20,
            lease_seconds=0.2,
        )  # fmt: skip
        self.engine.launch(spec, Need(cores))
        self.engine.observe(folder)              # as the scheduler does
        return folder

    def until(self, look: Callable[[], object]) -> None:
        """Wait for this, while the engine does what its thread would do."""
        def has_come() -> bool:
            self.engine.work(polls=True)
            return bool(look())

        eventually(has_come, lambda: str(self.ray.jobs))

    def running(self, *argv: str) -> Path:
        folder = self.place(*argv)
        self.until(lambda: (folder / "out").exists() and (folder / "out").read_text() == "ready\n")
        assert self.engine.observe(folder).state == "running"
        return folder

    def end_of(self, folder: Path) -> Exit:
        self.until(lambda: self.engine.observe(folder).state == "exited")
        end = self.engine.observe(folder).exit
        assert end is not None
        return end

    def status(self) -> str:
        """Of the job of the worker."""
        job = self.ray.jobs.get(PREFIX + "w")
        return job.status if job is not None else ""

    @property
    def job(self) -> Job:
        return self.ray.jobs[PREFIX + "w"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_fake(tmp_path, cores=4) as ray:
        found = Site(ray, tmp_path)
        yield found
        found.engine.stop(tmp_path / "jobs" / "job" / "w", 0)


def test_ray_shows_the_exit_code_of_the_worker(site: Site) -> None:
    folder = site.place(*SHELL, "echo $RAY_ADDRESS $FATE_FLOW_RAY_ADDRESS; exit 5")
    assert site.end_of(folder) == Exit(5, None, "exited")
    assert (folder / "out").read_text() == f"{GCS_ADDRESS} {GCS_ADDRESS}\n"
    eventually(lambda: site.status() == "FAILED")
    assert site.job.exit_code == 5


def test_a_stopped_worker_has_its_grace_although_ray_signals_every_process(site: Site) -> None:
    go = site.home / "go"
    folder = site.running(sys.executable, "-c", POLITE, str(go))
    assert not site.engine.stop(folder, 30)
    site.until(lambda: ("POST", f"/api/jobs/{PREFIX}w/stop") in site.ray.requests)
    go.touch()
    assert site.end_of(folder) == Exit(5, None, "stopped")


def test_a_worker_that_has_no_place_is_stopped_and_never_starts(site: Site) -> None:
    folder = site.place(*SHELL, "echo", cores=5)
    site.until(lambda: site.status() == "PENDING")
    assert site.engine.stop(folder, 20)
    assert site.end_of(folder).cause == "stopped"
    stop = ("POST", f"/api/jobs/{PREFIX}w/stop")
    site.until(lambda: stop in site.ray.requests)
    for _ in range(5):
        site.engine.work(polls=True)
    assert site.ray.requests.count(stop) == 1
    site.ray.give(8)
    eventually(lambda: site.status() in ("STOPPED", "SUCCEEDED", "FAILED"))
    assert not (folder / "out").exists(), "its job has found the claim"


def test_an_answer_that_was_lost_and_a_new_process_of_the_server_find_the_worker(site: Site) -> None:
    site.ray.loses_answers = True
    folder = site.place(sys.executable, "-c", POLITE)
    site.until(lambda: (folder / "out").exists() and (folder / "out").read_text())
    site.ray.loses_answers = False
    site.engine = site.new_engine()
    assert site.engine.observe(folder).state == "running"
    site.engine.stop(folder, 20)
    assert site.end_of(folder) == Exit(5, None, "stopped")
    assert site.job.starts == 1


def test_while_ray_is_away_nothing_is_decided_and_the_end_is_in_the_folder(site: Site) -> None:
    go = site.home / "go"
    folder = site.running(*SHELL, 'echo ready; while [ ! -e "$0" ]; do sleep 0.02; done; exit 3', str(go))
    site.ray.close()
    site.engine = site.new_engine()
    assert site.engine.observe(folder).state == "running"
    go.touch()
    assert site.end_of(folder) == Exit(3, None, "exited")


def test_a_head_that_has_forgotten_the_worker_loses_it_by_its_folder(site: Site) -> None:
    """The process of Ray above it lives on, as on a node that the new head does not know."""
    folder = site.running(sys.executable, "-c", POLITE)
    site.ray.forget()
    end = site.end_of(folder)
    assert (end.cause, end.message) == ("lost", "Ray had lost it")


def test_a_worker_that_ray_forgot_before_it_began_never_starts(site: Site) -> None:
    folder = site.place(*SHELL, "echo", cores=5)
    site.until(site.status)
    site.engine.observe(folder)
    site.ray.forget()
    end = site.end_of(folder)
    assert end.cause == "not_started"
    assert not claim(folder)


def test_a_worker_ends_with_the_process_of_ray_that_started_it(tmp_path: Path) -> None:
    folder = tmp_path / "jobs" / "w"
    folder.mkdir(parents=True)
    argv = (sys.executable, "-c", POLITE)
    spec = WorkerSpec("w", folder, "mine", "exec", argv, tmp_path, folder / "out", folder / "err")
    (folder / "launch.json").write_text(spec.to_json())
    assert intend(folder, "fate-flow-x-w", 0.0, ProcessesHere().own())
    supervisor = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True).wait()"
    with subprocess.Popen([sys.executable, "-c", supervisor, *RUN, str(folder)]) as process:
        eventually(lambda: (folder / "out").exists() and (folder / "out").read_text() == "ready\n")
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    eventually((folder / EXIT).exists)
    assert Exit.read(folder) == Exit(5, None, "stopped")
