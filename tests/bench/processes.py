"""What the processes of a server use, by kind: CPU seconds and resident memory. Linux only, as the servers are.

The workers are short-lived, and no counter of the servers includes them: their runners are orphans on purpose. So
this process adopts orphans, and what the kernel reports of each when it is buried here is the CPU time of a runner
and its worker.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from fate_flow.engines.local import proc
from tests.bench.cluster import BenchFailed, Server

KINDS = ("supervisor", "spawner", "scheduler", "http", "worker listener")
_SMAPS = re.compile(r"^(Rss|Pss): +(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class ServerProcess:
    kind: str
    process: psutil.Process

    def cpu_seconds(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def memory_kb(self) -> dict[str, int]:
        """`Rss`, and `Pss`: shared pages divided by those who share them."""
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return {name: int(kb) for name, kb in _SMAPS.findall(text)}


def server_processes(server: Server) -> list[ServerProcess]:
    """All processes of this server; they share the group of the supervisor, which its workers have left."""
    found = [process for process in psutil.process_iter() if _group(process.pid) == server.pid]
    http, port = server.ports
    return [ServerProcess(_kind(process, server.pid, http, port), process) for process in found]


def _group(pid: int) -> int:
    stat = proc.read_stat(pid)
    return stat.group if stat and stat.is_running else 0


def _kind(process: psutil.Process, supervisor: int, http: int, port: int) -> str:
    if process.pid == supervisor:
        return "supervisor"
    if process.name() == "fate-spawner":
        return "spawner"
    listening = {one.laddr.port for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN}
    kind = "http" if http in listening else "worker listener" if port in listening else "scheduler"
    is_master = kind != "scheduler" and process.ppid() == supervisor
    return f"{kind} (master)" if is_master else kind


class CpuMeter:
    """CPU seconds since it was made: of servers by kind, of workers, of this process, and of everybody else."""

    def __init__(self, servers: Iterable[Server]) -> None:
        self._processes = {server.party_id: server_processes(server) for server in servers}
        self._workers = Workers()
        self._began = self._now()
        self._own = _own_seconds()
        self._machine = _machine_seconds()
        self._clock = time.monotonic()

    @property
    def workers(self) -> Workers:
        return self._workers

    def _now(self) -> dict[tuple[str, int], float]:
        try:
            return {
                (party_id, one.process.pid): one.cpu_seconds()
                for party_id, processes in self._processes.items()
                for one in processes
            }
        except psutil.NoSuchProcess as error:
            raise BenchFailed(f"a process of a server has ended meanwhile: {error}") from error

    def read(self) -> Cpu:
        self._workers.bury()
        now = self._now()
        servers: dict[str, Counter[str]] = {}
        for party_id, processes in self._processes.items():
            kinds = servers.setdefault(party_id, Counter())
            for one in processes:
                key = (party_id, one.process.pid)
                kinds[one.kind.removesuffix(" (master)")] += now[key] - self._began[key]
        known = sum(kinds.total() for kinds in servers.values()) + self._workers.seconds
        own = _own_seconds() - self._own
        elapsed = time.monotonic() - self._clock
        others = max(0.0, _machine_seconds() - self._machine - known - own)
        return Cpu(
            {party_id: dict(kinds) for party_id, kinds in servers.items()}, self._workers.seconds,
            self._workers.count, own, others, elapsed,
        )  # fmt: skip


@dataclass(frozen=True)
class Cpu:
    """CPU seconds of a while."""

    servers: dict[str, dict[str, float]]
    workers: float
    workers_ended: int
    client: float
    others: float              # what else ran on this machine
    elapsed: float

    def by_kind(self) -> dict[str, float]:
        """Of all servers together."""
        total: Counter[str] = Counter()
        for kinds in self.servers.values():
            total.update(kinds)
        return {kind: total[kind] for kind in KINDS}

    @property
    def others_percent(self) -> float:
        """Of all cores; more than a few percent, and the measurement is not worth much."""
        return 100 * self.others / (self.elapsed * (psutil.cpu_count() or 1))


@dataclass
class Workers:
    """Runners that ended as children of this process, and the CPU seconds of them and their workers."""

    seconds: float = 0.0
    count: int = 0
    _is_adopting: bool = field(default=False)

    def bury(self) -> int:
        """How many have ended by now. No other child of this process may be waited for meanwhile."""
        with suppress(ChildProcessError):
            while True:
                pid, _, usage = os.wait4(-1, os.WNOHANG)
                if not pid:
                    break
                self.seconds += usage.ru_utime + usage.ru_stime
                self.count += 1
        return self.count


def adopt_workers() -> None:
    """Before any cluster is made: from now on runners become children of this process when they are orphaned."""
    proc.adopt_orphans()


def bury_all() -> None:
    """Leave no dead child behind."""
    Workers().bury()


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system


def _machine_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)
