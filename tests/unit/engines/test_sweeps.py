"""How often a spawner looks for processes that no runner cares for."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fate_flow.engines.local.spawner import Order, Spawner
from fate_flow.engines.local.strays import SWEEP_SECONDS, Strays
from fate_flow.engines.local.worker import LAUNCH, WORKER_VARIABLE

CALM_SECONDS = 60.0


def test_a_machine_without_workers_is_looked_at_seldom(tmp_path: Path) -> None:
    strays = Strays(tmp_path)
    assert strays.sweep() == CALM_SECONDS
    strays.watch(os.getpid(), tmp_path / "a")
    assert strays.sweep() == SWEEP_SECONDS


def test_a_process_of_a_worker_that_is_over_is_killed_and_others_are_looked_for_soon(tmp_path: Path) -> None:
    environment = {**os.environ, WORKER_VARIABLE: str(tmp_path / "a")}
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], env=environment,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()           # it has become the program with this environment
        assert Strays(tmp_path / "elsewhere").sweep() == CALM_SECONDS
        assert Strays(tmp_path).sweep() == SWEEP_SECONDS
        assert process.wait(60) == -signal.SIGKILL


def test_after_a_launch_strays_are_looked_for_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    receiving, sending = socket.socketpair()
    with receiving, sending:
        spawner = Spawner(receiving, None, jobs_dir=tmp_path)
        spawner._end_strays()
        assert spawner._next_sweep > time.monotonic() + CALM_SECONDS - 30
        monkeypatch.setattr(os, "fork", lambda: os.getpid())
        (tmp_path / LAUNCH).touch()
        spawner._launch(Order(tmp_path))
        assert spawner._next_sweep <= time.monotonic() + SWEEP_SECONDS
