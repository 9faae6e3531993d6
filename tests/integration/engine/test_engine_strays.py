"""Nothing of a worker outlives it, also when its program kills the runner and leaves its session and environment."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from fate_flow.engines.local.worker import EXIT, ProcessId
from tests.kit.servers.engine_site import Site, is_running, line_in, started
from tests.kit.servers.programs import ESCAPE
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

def escaped(site: Site, environment: str, last: str) -> tuple[Path, int]:
    folder = site.python(ESCAPE, environment, str(site.home / "escaped"), last)
    return folder, int(line_in(site.home / "escaped"))


@pytest.mark.parametrize("last", ["end", "forge", "no runner killed"])
@pytest.mark.parametrize("environment", ["kept", "cleared"])
def test_a_process_that_left_the_session_ends_with_its_worker(site: Site, environment: str, last: str) -> None:
    folder, pid = escaped(site, environment, last)
    eventually(lambda: not is_running(pid))
    eventually(lambda: site.engine.observe(folder).state in ("lost", "exited"))


def test_the_server_hears_at_once_of_a_worker_whose_runner_was_killed(site: Site) -> None:
    folder, _ = escaped(site, "kept", "told")
    assert json.loads(site.wakeup.recv(4096)) == {"worker": folder.name, "event": "started"}
    (site.home / "escaped.go").touch()       # a runner that is killed before it has rung says nothing
    assert json.loads(site.wakeup.recv(4096)) == {"worker": folder.name, "event": "exited"}
    assert not (folder / EXIT).exists()


def test_a_worker_without_a_runner_runs_on_and_takes_what_it_left_along(site: Site) -> None:
    folder, pid = escaped(site, "cleared", "sleep")
    eventually(lambda: not started(folder).runner.is_alive())
    assert site.engine.observe(folder).state == "running"
    assert is_running(pid)
    site.engine.stop(folder, 0)
    eventually(lambda: not is_running(pid))
    assert site.engine.observe(folder).state == "lost"


def test_what_is_left_when_no_spawner_runs_is_ended_by_the_next_one(site: Site) -> None:
    folder, pid = escaped(site, "kept", "sleep")
    # A runner that still lives when its worker is killed ends what the worker left, without any spawner.
    eventually(lambda: not started(folder).runner.is_alive())
    assert site.spawner is not None
    site.spawner.kill()
    site.spawner.wait()
    assert started(folder).worker.send(signal.SIGKILL)
    eventually(lambda: not started(folder).worker.is_alive())
    assert is_running(pid)
    site.start_spawner()
    eventually(lambda: not is_running(pid))


def test_a_mark_of_another_home_or_of_a_living_worker_is_left_alone(site: Site, tmp_path: Path) -> None:
    living = site.python("import time; print('ready', flush=True); time.sleep(600)", name="living")
    line_in(site.home / "logs/living/std.log")
    strangers = []
    for folder in (tmp_path / "elsewhere" / "jobs" / "w", living):
        pid = os.posix_spawn("/bin/sleep", ["sleep", "600"], {"FATE_FLOW_WORKER": str(folder)})
        strangers.append(ProcessId.of(pid))
    over = os.posix_spawn("/bin/sleep", ["sleep", "600"], {"FATE_FLOW_WORKER": str(site.home / "jobs" / "gone")})
    assert site.spawner is not None
    site.spawner.kill()
    site.spawner.wait()
    site.start_spawner()
    assert os.waitpid(over, 0)[1] == signal.SIGKILL
    assert all(one.is_alive() for one in strangers)
    for one in strangers:
        one.send(signal.SIGKILL)
        os.waitpid(one.pid, 0)
