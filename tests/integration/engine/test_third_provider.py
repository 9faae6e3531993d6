"""A worker of a third provider, with the real engine: a Python of its own, under the contract of every component."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fate_flow.components.providers.table import provider_table
from fate_flow.core.model.job import TaskKey, Worker
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import WorkerStatus
from fate_flow.server.adapters import LocalWorkers
from fate_flow.server.periodic.describer import Describer
from fate_flow.services.context.ports import LaunchOrder
from fate_flow.settings.settings import Settings
from tests.kit.components.foreign_provider import make_environment, place_of
from tests.kit.components.tiny_provider import THREE
from tests.kit.servers.engine_site import Site
from tests.kit.waiting import eventually

KEY = TaskKey("2026010112000000000001234", "a", 0, Party("guest", "9999"))


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


def test_a_worker_of_an_external_provider_runs_with_its_own_python(site: Site, tmp_path: Path) -> None:
    place = place_of(make_environment(tmp_path / "env"))
    providers = provider_table("9999", {place.name: place}, tmp_path / "providers")
    Describer({place.name: place}, tmp_path / "providers", lambda: None).step()
    settings = replace(Settings("9999", site.home), log_dir=site.home / "logs")
    workers = LocalWorkers(settings, site.engine, "http://127.0.0.1:9/x", b"secret", lambda _: None, providers)

    def launched(name: str, text: str) -> Worker:
        worker = Worker(name, KEY, WorkerStatus.CREATED, "local", workers.handle_for(KEY, name))
        parameters = {"text": text, "times": 3}
        order = LaunchOrder(
            worker, "foreign.say", "ab" * 16, (("guest", "9999"), ("host", "10000")), parameters, (), 1, 0, 1.0, name
        )
        workers.launch(order)
        return worker

    well, badly, killed = launched("w1", "x"), launched("w2", "fail"), launched("w3", "die")
    eventually(lambda: all(workers.observe(one).state == "exited" for one in (well, badly, killed)))
    seen = workers.observe(well)
    assert (seen.succeeded, seen.exit_code, seen.message) == (True, 0, ""), printed_by(workers, well)
    [metrics] = seen.made.artifacts
    assert metrics.metadata["metrics"] == [{
        "namespace": "said", "name": "times", "data": [[0, 3]],
        "meta": {"metric_type": "repeats", "step_axis": "iterations"},
    }]  # fmt: skip
    assert "the worker of say runs" in printed_by(workers, well)
    failed = workers.observe(badly)
    assert (failed.succeeded, failed.exit_code) == (False, 1)
    assert failed.message == "a failed: ValueError; this party's log has the traceback"
    dead = workers.observe(killed)
    assert (dead.succeeded, dead.signal, dead.message) == (False, 9, "")


def printed_by(workers: LocalWorkers, worker: Worker) -> str:
    files = workers.printed(worker) or {}
    return "".join(path.read_text() for path in files.values())
