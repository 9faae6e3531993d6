"""A worker of a third provider, with the real engine: a Python of its own, under the contract of every component."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.job import TaskKey, Worker
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import WorkerStatus
from fate_flow.server.adapters import LocalWorkers
from fate_flow.services.context.ports import LaunchOrder
from fate_flow.settings.settings import Settings
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
