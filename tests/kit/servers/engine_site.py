"""An engine with a real spawner, real runners and real workers, for tests."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from fate_flow.engines.local.engine import LocalEngine, living_workers
from fate_flow.engines.local.worker import Exit, Started, WorkerSpec
from tests.kit.waiting import eventually

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

SPAWNER = """
import gc, json, logging, os, pathlib, signal, socket, sys, types

def main(argv):
    logging.getLogger("spawner").error("through an inherited handler")
    verb, *rest = argv
    if verb == "report":
        kept = {int(n): os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{n}")}
        json.dump({"env": os.environ.get("FLAVOUR"), "cwd": os.getcwd(), "fds": kept, "gc": gc.isenabled(),
                   "blocked": [int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
                   "term": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL}, sys.stdout)
    elif verb == "return":
        return int(rest[0])
    elif verb == "exit":
        sys.exit(rest[0])
    elif verb == "raise":
        raise OSError("the component's own error")
    elif verb == "print":
        sys.stdout.write("x" * int(rest[0]))
        sys.stderr.write("e" * int(rest[0]))
    elif verb == "sleep":
        signal.pause()

module = types.ModuleType("fate_flow.components.__main__")
module.main = main
sys.modules[module.__name__] = module
logging.basicConfig(filename=sys.argv[3])
from fate_flow.engines.local.spawner import Spawner
ends = [socket.socket(fileno=int(number)) for number in sys.argv[1:3]]
Spawner(*ends, jobs_dir=pathlib.Path(sys.argv[4])).serve()
"""

@dataclass
class Site:
    """One engine, the spawner it orders from, and a folder for its workers."""

    home: Path
    spawner: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.to_spawner, self.at_spawner = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.wakeup, self.wakeup_of_runners = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.engine = LocalEngine(self.to_spawner)

    def start_spawner(self) -> None:
        ends = (self.at_spawner.fileno(), self.wakeup_of_runners.fileno())
        argv = [sys.executable, "-c", SPAWNER, *map(str, ends), str(self.home / "spawner.log"), str(self.home / "jobs")]
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
        for end in (self.to_spawner, self.at_spawner, self.wakeup, self.wakeup_of_runners):
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
