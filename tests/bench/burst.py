"""(2) Many jobs submitted at once, with cores enough for all: starts and ends per second, and what each job costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.bench.cluster import FULL, GUEST, HOST, BenchFailed, Client, Servers, Submitted, fresh_cluster
from tests.bench.idle import memory_mb
from tests.bench.latency import run_one_by_one
from tests.bench.processes import Cpu, CpuMeter

CLIENTS = 16
LOOK_SECONDS = 0.25
ALL_SECONDS = 300.0
_UNFINISHED = "SELECT COUNT(*) FROM t_job WHERE f_status NOT IN ('success', 'failed', 'canceled', 'timeout')"
_LIVING = "SELECT COUNT(*) FROM t_worker WHERE f_status <> 'exited'"


def measure(jobs: int) -> dict[str, Any]:
    with fresh_cluster("burst", cores=jobs + 20, overlay=FULL) as servers:
        client = Client(servers[GUEST], servers[HOST])
        run_one_by_one(servers, client, 2)
        transactions = _transactions(servers)
        meter = CpuMeter(servers.values())
        submitted = submit_all(client, jobs)
        await_quiet(servers)
        cpu = meter.read()
        rates = rates_of(servers, submitted)
        taken = {party_id: count - transactions[party_id] for party_id, count in _transactions(servers).items()}
        memory = {party_id: memory_mb(server)["pss"] for party_id, server in servers.items()}
    return {
        **rates,
        "cpu_ms_per_job": costs_of(cpu, jobs),
        "scheduler_transactions_per_job": {party_id: round(count / jobs, 2) for party_id, count in taken.items()},
        "server_pss_mb_afterwards": memory,
        "others_percent": round(cpu.others_percent, 1),
    }


def submit_all(client: Client, jobs: int, clients: int = CLIENTS) -> list[Submitted]:
    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(lambda _: client.submit(), range(jobs)))


def await_quiet(servers: Servers) -> None:
    """Returns when every job is over everywhere and every worker has exited."""
    deadline = time.monotonic() + ALL_SECONDS
    while any(server.number(one) for server in servers.values() for one in (_UNFINISHED, _LIVING)):
        if time.monotonic() > deadline:
            left = {party: (server.number(_UNFINISHED), server.number(_LIVING)) for party, server in servers.items()}
            raise BenchFailed(f"after {ALL_SECONDS:g} s: unfinished jobs and workers {left}")
        time.sleep(LOOK_SECONDS)


def rates_of(servers: Servers, submitted: Sequence[Submitted]) -> dict[str, Any]:
    """A job counts as started when it is running at both parties; all rates begin with the first submit."""
    begun = min(job.asked for job in submitted)
    wanted = {job.job_id for job in submitted}
    started = _latest(servers, "f_start_time", wanted)
    ended = _ends_at_guest(servers, wanted)
    count = len(submitted)
    answered = max(job.answered for job in submitted)
    return {
        "submits_per_s": round(count / (answered - begun), 1),
        "starts_per_s": round(count / (max(started.values()) / 1000 - begun), 1),
        "finished_per_s": round(count / (max(ended.values()) / 1000 - begun), 1),
        "seconds_until": {
            "all_submitted": round(answered - begun, 2),
            "all_started": round(max(started.values()) / 1000 - begun, 2),
            "all_finished": round(max(ended.values()) / 1000 - begun, 2),
        },
        "refused_with_503": sum(job.refusals for job in submitted),
        "started_at_s": sorted(round(at / 1000 - begun, 3) for at in started.values()),
        "finished_at_s": sorted(round(at / 1000 - begun, 3) for at in ended.values()),
    }


def _latest(servers: Servers, column: str, wanted: set[str]) -> dict[str, float]:
    """By job: the later of the two parties' times."""
    found: dict[str, float] = {}
    for party_id in (GUEST, HOST):
        for row in servers[party_id].rows(f"SELECT f_job_id, {column} FROM t_job"):
            if row[0] in wanted:
                found[row[0]] = max(found.get(row[0], 0), row[1])
    return found


def _ends_at_guest(servers: Servers, wanted: set[str]) -> dict[str, float]:
    rows = [
        row for row in servers[GUEST].rows("SELECT f_job_id, f_status, f_end_time FROM t_job") if row[0] in wanted
    ]
    failed = [row[0] for row in rows if row[1] != "success"]
    if failed or len(rows) != len(wanted):
        raise BenchFailed(f"{len(rows)} of {len(wanted)} jobs are there; without success: {failed}")
    return {row[0]: row[2] for row in rows}


def costs_of(cpu: Cpu, jobs: int) -> dict[str, float]:
    """CPU milliseconds per job: both servers together by kind of process, and both workers with their runners."""
    kinds = {f"servers: {kind}": seconds for kind, seconds in cpu.by_kind().items()}
    found = {**kinds, "servers: all": sum(kinds.values()), "workers and runners": cpu.workers, "client": cpu.client}
    return {name: round(1000 * seconds / jobs, 1) for name, seconds in found.items()}


def _transactions(servers: Servers) -> dict[str, int]:
    return {party_id: one.number("SELECT f_counter FROM t_scheduler") for party_id, one in servers.items()}
