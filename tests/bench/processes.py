"""What the processes of a server use, by kind: CPU seconds and resident memory. Linux only, as the servers are.

The workers are short-lived. Their runners are children of the spawner, which waits for them: the CPU time that the
kernel counts for its children is that of the runners and their workers that have ended.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from fate_flow.engines.local import proc
from tests.bench.cluster import BenchFailed, Server

KINDS = ("supervisor", "spawner", "scheduler", "http", "worker listener", "gateway")
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
    if not listening:
        return "scheduler"
    if not listening & {http, port}:
        return "gateway"
    return "http" if http in listening else "worker listener"


class CpuMeter:
    """CPU seconds since it was made: of servers by kind, of workers, of this process, and of everybody else."""

    def __init__(self, servers: Iterable[Server]) -> None:
        self._processes = {server.party_id: server_processes(server) for server in servers}
        self._workers_began = self._workers()
        self._began = self._now()
        self._own = _own_seconds()
        self._machine = _machine_seconds()
        self._clock = time.monotonic()

    def _workers(self) -> float:
        """Return the CPU seconds of all runners and workers that have ended, at all servers."""
        spawners = [one.process for found in self._processes.values() for one in found if one.kind == "spawner"]
        times = [spawner.cpu_times() for spawner in spawners]
        return sum(float(one.children_user + one.children_system) for one in times)

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
        now, workers = self._now(), self._workers() - self._workers_began
        servers: dict[str, Counter[str]] = {}
        for party_id, processes in self._processes.items():
            kinds = servers.setdefault(party_id, Counter())
            for one in processes:
                key = (party_id, one.process.pid)
                kinds[one.kind] += now[key] - self._began[key]
        known = sum(kinds.total() for kinds in servers.values()) + workers
        own = _own_seconds() - self._own
        elapsed = time.monotonic() - self._clock
        others = max(0.0, _machine_seconds() - self._machine - known - own)
        return Cpu({party_id: dict(kinds) for party_id, kinds in servers.items()}, workers, own, others, elapsed)


@dataclass(frozen=True)
class Cpu:
    """CPU seconds of a while."""

    servers: dict[str, dict[str, float]]
    workers: float             # those that have ended, with their runners
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


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system


def _machine_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)
