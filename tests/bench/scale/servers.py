"""(13) Many real servers on this machine, each with a database of its own, and many jobs between them.

Every client submits jobs of two parties, which are drawn for each job. Afterwards every job has to have succeeded at
both, every party has all its cores again, and no worker, runner or open file outside the homes is left.
"""

from __future__ import annotations

import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil

from tests.bench.burst import CLIENTS, costs_of
from tests.bench.cluster import FULL, ROOT, BenchFailed, Client, Server, Servers, fresh_cluster
from tests.bench.idle import memory_mb
from tests.bench.processes import CpuMeter, server_processes

_CORES = 4                  # of each party; every job takes one at both
_BASE_PORT = 26_000
_LOOK_SECONDS = 2.0
_ALL_SECONDS = 4 * 3600.0
_NOT_OVER = "SELECT COUNT(*) FROM t_job WHERE f_status NOT IN ('success', 'failed', 'canceled', 'timeout')"
_LIVING = "SELECT COUNT(*) FROM t_worker WHERE f_status <> 'exited'"
_TAKEN = "SELECT SUM(f_cores - f_remaining_cores) FROM t_engine_registry"
_SEATS = "SELECT f_job_id, f_role, f_status, f_create_time, f_start_time, f_end_time FROM t_job"
_ELSEWHERE = ("/dev/", "/proc/", "/sys/", "/usr/", "/lib", "/etc/")


def measure(parties: int, jobs: int) -> dict[str, Any]:
    names = [str(9_000 + number) for number in range(parties)]
    with fresh_cluster("crowd", names, cores=_CORES, base_port=_BASE_PORT, overlay=FULL) as servers:
        idle = _memory(servers)
        meter = CpuMeter(servers.values())
        begun = time.time()
        submitted = _submit(servers, jobs)
        answered = time.time()
        _await_quiet(servers)
        cpu = meter.read()
        found = _checked(servers, submitted, begun)
        return {
            **found,
            "submits_per_s": round(jobs / (answered - begun), 2),
            "cpu_ms_per_job": costs_of(cpu, jobs),
            "busy_percent": round(
                100 * (sum(sum(kinds.values()) for kinds in cpu.servers.values()) + cpu.workers + cpu.client)
                / (cpu.elapsed * (psutil.cpu_count() or 1)), 1,
            ),
            "others_percent": round(cpu.others_percent, 1),
            "pss_mb": {"idle": idle, "afterwards": _memory(servers)},
            "left": _left(servers),
        }  # fmt: skip


def _submit(servers: Servers, jobs: int) -> list[str]:
    draw = random.Random(1)
    clients: dict[tuple[str, str], Client] = {}
    pairs = [tuple(draw.sample(list(servers), 2)) for _ in range(jobs)]
    for guest, host in pairs:
        clients.setdefault((guest, host), Client(servers[guest], servers[host]))
    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(lambda pair: clients[pair].submit().job_id, pairs))


def _await_quiet(servers: Servers) -> None:
    """Return when every job is over everywhere and every worker has exited."""
    deadline = time.monotonic() + _ALL_SECONDS
    while any(server.number(one) for server in servers.values() for one in (_NOT_OVER, _LIVING)):
        if time.monotonic() > deadline:
            left = {name: (server.number(_NOT_OVER), server.number(_LIVING)) for name, server in servers.items()}
            raise BenchFailed(f"after {_ALL_SECONDS:g} s: unfinished jobs and workers {left}")
        time.sleep(_LOOK_SECONDS)


def _checked(servers: Servers, submitted: list[str], begun: float) -> dict[str, Any]:
    """The rates, once it is sure that nothing was lost."""
    rows = [row for server in servers.values() for row in server.rows(_SEATS)]
    wanted = {(job_id, role) for job_id in submitted for role in ("guest", "host")}
    found = {(row[0], row[1]): row[2] for row in rows}
    if found.keys() != wanted or set(found.values()) != {"success"}:
        missing, badly = len(wanted - found.keys()), [key for key, status in found.items() if status != "success"]
        raise BenchFailed(f"{missing} seats of jobs are missing, {badly} have not succeeded")
    taken = {name: server.number(_TAKEN) for name, server in servers.items() if server.number(_TAKEN)}
    if taken:
        raise BenchFailed(f"cores are held although no job is left: {taken}")
    guests = [row for row in rows if row[1] == "guest"]
    waits = sorted(row[4] - row[3] for row in guests)
    last = max(row[5] for row in guests) / 1000 - begun
    return {
        "finished_per_s": round(len(guests) / last, 2),
        "all_finished_s": round(last, 1),
        "start_ms": {"median": statistics.median(waits), "p95": waits[int(0.95 * (len(waits) - 1))], "max": waits[-1]},
        "seats_succeeded": len(found),
    }


def _memory(servers: Servers) -> float:
    return round(sum(memory_mb(server)["pss"] for server in servers.values()), 1)


def _left(servers: Servers) -> dict[str, int]:
    """Processes of the homes beside the servers' own, and files elsewhere that servers have open. Raise BenchFailed if
    there are any."""
    own = {one.process.pid for server in servers.values() for one in server_processes(server)}
    strays = [one.pid for one in psutil.process_iter() if one.pid not in own and _is_of_homes(one)]
    outside = {
        file.path
        for server in servers.values() for path in _open_files(server) for file in path
        if not file.path.startswith((str(ROOT), *_ELSEWHERE))
    }  # fmt: skip
    if strays or outside:
        raise BenchFailed(f"left over: processes {strays}, files {sorted(outside)}")
    return {"processes": 0, "files": 0}


def _open_files(server: Server) -> list[list[Any]]:
    return [one.process.open_files() for one in server_processes(server)]


def _is_of_homes(process: psutil.Process) -> bool:
    """Whether it is a worker or a runner: it works in a folder of a home."""
    try:
        return process.cwd().startswith(f"{ROOT}/crowd.")
    except psutil.Error:
        return False
