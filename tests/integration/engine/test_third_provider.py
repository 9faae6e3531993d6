"""A worker of a third provider, with the real engine: a Python of its own, under the contract of every component."""

from __future__ import annotations

import select
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from fate_flow.components.providers.described import warm_socket
from fate_flow.components.providers.table import provider_table
from fate_flow.core.model.job import TaskKey, Worker
from fate_flow.core.model.modules import ProviderPlace
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import WorkerStatus
from fate_flow.server.engines.local_workers import LocalWorkers
from fate_flow.server.listeners.listening import listen_at
from fate_flow.server.periodic.describer import Describer
from fate_flow.server.periodic.warm_providers import WarmProviders
from fate_flow.services.context.ports import LaunchOrder
from fate_flow.settings.settings import Settings
from tests.kit.components.foreign_provider import make_environment, place_of
from tests.kit.components.tiny_provider import THREE
from tests.kit.servers.engine_site import Site
from tests.kit.waiting import SECONDS, eventually

KEY = TaskKey("2026010112000000000001234", "a", 0, Party("guest", "9999"))


@pytest.fixture(autouse=True)
def behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's environment names a proxy, which does not answer: requests on this machine do not go to it."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)


def test_a_worker_of_a_third_provider_runs_and_its_result_is_read(site: Site) -> None:
    settings = replace(Settings("9999", site.home), log_dir=site.home / "logs")
    workers = LocalWorkers(settings, site.engine, "http://x", b"secret", lambda _: None, THREE)
    worker = Worker("w", KEY, WorkerStatus.CREATED, "local", workers.handle_for(KEY, "w"))
    workers.launch(LaunchOrder(worker, "Say", "ab" * 16, (("guest", "9999"),), {"text": "x"}, (), 1, 0, 1.0, "w"))
    eventually(lambda: workers.observe(worker).state == "exited")
    seen = workers.observe(worker)
    assert (seen.succeeded, seen.exit_code, seen.message) == (True, 0, "")
    said = {"text": "x", "component": "say", "flavour": "mint", "outputs": ["metric", "said"]}
    assert dict(seen.made.summary) == said
    printed = workers.printed(worker)
    assert printed is not None
    assert printed["stdout"].read_text() == "hello\n"


@pytest.fixture
def place(tmp_path: Path) -> ProviderPlace:
    """A described provider."""
    place = place_of(make_environment(tmp_path / "env"))
    Describer({place.name: place}, tmp_path / "providers", lambda: None).step()
    return place


@pytest.fixture
def workers(site: Site, place: ProviderPlace, tmp_path: Path) -> LocalWorkers:
    providers = provider_table("9999", {place.name: place}, tmp_path / "providers")
    settings = replace(Settings("9999", site.home), log_dir=site.home / "logs")
    return LocalWorkers(settings, site.engine, "http://127.0.0.1:9/x", b"secret", lambda _: None, providers)


@pytest.fixture(params=["cold", "warm"])
def imported_by(request: pytest.FixtureRequest, place: ProviderPlace, tmp_path: Path) -> Iterator[str]:
    """What the component says about who has imported its package."""
    if request.param == "cold":
        yield "itself"
        return
    folder = tmp_path / "providers"
    warm = WarmProviders({place.name: place}, folder, tmp_path, lambda: None)
    warm.start()
    eventually(warm_socket(folder, place).exists)
    yield "the warm process"
    warm.stop()


def launched(workers: LocalWorkers, name: str, text: str) -> Worker:
    worker = Worker(name, KEY, WorkerStatus.CREATED, "local", workers.handle_for(KEY, name))
    parties = (("guest", "9999"), ("host", "10000"))
    parameters = {"text": text, "times": 3}
    workers.launch(LaunchOrder(worker, "foreign.say", "ab" * 16, parties, parameters, (), 1, 0, 1.0, name))
    return worker


def test_a_worker_of_an_external_provider_runs_with_its_own_python(workers: LocalWorkers, imported_by: str) -> None:
    every = well, badly, killed = [launched(workers, name, name) for name in ("well", "fail", "die")]
    eventually(lambda: all(workers.observe(one).state == "exited" for one in every))
    seen = workers.observe(well)
    assert (seen.succeeded, seen.exit_code, seen.message) == (True, 0, ""), printed_by(workers, well)
    [metrics] = seen.made.artifacts
    loss, summary = metrics.metadata["metrics"]
    assert (loss["namespace"], loss["name"]) == ("said", "said_loss")
    assert loss["data"] == [[step, 1 / (step + 1), 1.5] for step in range(3)]
    assert (summary["name"], summary["data"]) == ("summary", [["words", 1]])
    printed = printed_by(workers, well)
    assert f"the worker of say runs\nimported by {imported_by}\n" in printed
    assert "callers without a module: []\n" in printed, "FATE lists its callers at each step of a computation"
    failed = workers.observe(badly)
    assert (failed.succeeded, failed.exit_code) == (False, 1)
    assert failed.message == "ValueError; that party's log has the traceback"
    dead = workers.observe(killed)
    assert (dead.succeeded, dead.signal, dead.message) == (False, 9, "")


def test_a_worker_begins_although_the_warm_process_ends_before_it_has_forked(
    workers: LocalWorkers, place: ProviderPlace, tmp_path: Path
) -> None:
    """As at a restart of the server: the connection waits to be accepted, and breaks."""
    with listen_at(warm_socket(tmp_path / "providers", place)) as listener:
        worker = launched(workers, "w", "well")
        assert select.select([listener], [], [], SECONDS)[0]
    eventually(lambda: workers.observe(worker).state == "exited")
    assert workers.observe(worker).succeeded, printed_by(workers, worker)
    assert "imported by itself\n" in printed_by(workers, worker)


def test_a_component_ends_with_its_worker(workers: LocalWorkers, imported_by: str) -> None:
    worker = launched(workers, "w", "wait")
    eventually(lambda: "pid " in printed_by(workers, worker))
    pid = int(printed_by(workers, worker).partition("pid ")[2].split()[0])
    assert imported_by in printed_by(workers, worker)
    workers.stop(worker, 5.0)
    eventually(lambda: workers.observe(worker).state == "exited" and not psutil.pid_exists(pid))


def printed_by(workers: LocalWorkers, worker: Worker) -> str:
    files = workers.printed(worker) or {}
    return "".join(path.read_text() for path in files.values() if path.exists())
