"""An engine with a real spawner, real runners and real workers, for tests."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import psutil

from fate_flow.engines.local.engine import LocalEngine, living_workers
from fate_flow.engines.local.worker import Exit, Started, WorkerSpec
from tests.kit.servers.warm import WarmProcess
from tests.kit.waiting import SECONDS, eventually

# Python and not a shell: one that forks loses a SIGTERM now and then between the fork and the exec.
POLITE = """
import os, signal, subprocess, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("ready", flush=True)
signal.sigwait({signal.SIGTERM})
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    time.sleep(0.005)
print("done", flush=True)
sys.exit(5)
"""

SPAWNER = [sys.executable, "-P", str(Path(__file__).with_name("spawner_process.py"))]
"""With descriptors of two sockets, a log file and the folder of its workers: a spawner."""


class ForkedSpawner:
    """As `subprocess.Popen`, for a process that is no child of this one."""

    _forks: ClassVar = WarmProcess(Path(SPAWNER[-1]))

    def __init__(self, log: Path, jobs: Path, ends: tuple[int, int]) -> None:
        self._said, said = os.pipe()
        try:
            self._forks.ask([str(log), str(jobs), dict(os.environ), os.getcwd()], [*ends, 1, 2, said])
        finally:
            os.close(said)
        ready, _, _ = select.select([self._said], [], [], SECONDS)
        number = os.read(self._said, 20) if ready else b""
        assert number, "no spawner was forked"
        self.pid = int(number.split()[0])
        self._process = os.pidfd_open(self.pid)

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = SECONDS) -> int | None:
        """Its exit code, once it has ended; None when a signal ended it."""
        ended, _, _ = select.select([self._process], [], [], timeout)
        assert ended, "the spawner does not end"
        os.set_blocking(self._said, False)
        with suppress(BlockingIOError):
            code = os.read(self._said, 20)
            return int(code) if code else None
        return None

    def close(self) -> None:
        os.close(self._process)
        os.close(self._said)


@dataclass
class Site:
    """One engine, the spawner it orders from, and a folder for its workers."""

    home: Path
    spawner: subprocess.Popen[bytes] | ForkedSpawner | None = None

    def __post_init__(self) -> None:
        self.to_spawner, self.at_spawner = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.wakeup, self.wakeup_of_runners = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.engine = LocalEngine(self.to_spawner)
        self._forked: list[ForkedSpawner] = []

    def start_spawner(self) -> None:
        """One that is forked from a process with its modules, so that it is there at once."""
        ends = (self.at_spawner.fileno(), self.wakeup_of_runners.fileno())
        self.spawner = ForkedSpawner(self.home / "spawner.log", self.home / "jobs", ends)
        self._forked.append(self.spawner)

    def execute_spawner(self) -> None:
        """One that is an interpreter of its own, as a server has it."""
        ends = (self.at_spawner.fileno(), self.wakeup_of_runners.fileno())
        argv = [*SPAWNER, *map(str, ends), str(self.home / "spawner.log"), str(self.home / "jobs")]
        self.spawner = subprocess.Popen(argv, pass_fds=ends)

    def spec(self, *argv: str, name: str = "w", **fields) -> WorkerSpec:
        folder = self.home / "jobs" / name
        logs = self.home / "logs" / name
        fields = {"provider": "mine", "way": "exec", "cwd": self.home, "grace_seconds": 20.0,
                  "output_setting": "commands.output_max_bytes", **fields}
        return WorkerSpec(worker_id=name, folder=folder, argv=argv, stdout=logs / "std.log",
                          stderr=logs / "err.log", **fields)

    def launch(self, spec: WorkerSpec) -> Path:
        assert self.engine.launch(spec)
        return spec.folder

    def shell(self, script: str, **fields) -> Path:
        return self.launch(self.spec("/bin/sh", "-c", script, **fields))

    def python(self, script: str, *argv: str, **fields) -> Path:
        return self.launch(self.spec(sys.executable, "-c", script, *argv, **fields))

    def builtin(self, *argv: str, **fields) -> Path:
        return self.launch(self.spec(*argv, way="fork", **fields))

    def end_of(self, folder: Path) -> Exit:
        eventually(lambda: self.engine.observe(folder).state == "exited")
        end = self.engine.observe(folder).exit
        assert end is not None
        return end

    def output_of(self, folder: Path, name: str = "std.log") -> str:
        return (self.home / "logs" / folder.name / name).read_text()

    def close(self) -> None:
        if self.spawner:
            self.spawner.kill()
            self.spawner.wait()
        eventually(self.is_quiet)
        for end in (self.to_spawner, self.at_spawner, self.wakeup, self.wakeup_of_runners, *self._forked):
            end.close()

    def is_quiet(self) -> bool:
        living = living_workers(self.home / "jobs")
        for folder in living:
            self.engine.stop(folder, 0)
        return not living


def started(folder: Path) -> Started:
    return eventually(lambda: Started.read(folder))


def line_in(path: Path) -> str:
    """The first line of a file as soon as it is whole."""
    def first_line() -> str:
        line, end, _ = (path.read_text() if path.exists() else "").partition("\n")
        return line if end else ""
    return eventually(first_line)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
