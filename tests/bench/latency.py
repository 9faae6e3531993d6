"""(1) How long a job of one toy task takes on servers that have nothing else to do, and where the time goes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

from tests.bench.cluster import FINAL, GUEST, HOST, BenchFailed, Client, Servers, Submitted, fresh_cluster
from tests.bench.moments import moments_of
from tests.bench.numbers import spread
from tests.bench.processes import CpuMeter

WARM_UP = 3
LOOK_SECONDS = 0.004
CALM_SECONDS = 0.25           # between two jobs, so that each finds servers at rest
JOB_SECONDS = 60.0

Moments = dict[str, float]


def measure(jobs: int) -> dict[str, Any]:
    with fresh_cluster("latency") as servers:
        client = Client(servers[GUEST], servers[HOST])
        cold = run_one_by_one(servers, client, WARM_UP)
        meter = CpuMeter(servers.values())
        warm = run_one_by_one(servers, client, jobs)
        cpu = meter.read()
    return {
        **summary(warm),
        "first_job_ms": cold[0]["SUCCESS, as a client sees it"],
        "steps": steps(warm),
        "others_percent": round(cpu.others_percent, 1),
        "jobs": warm,
    }


def run_one_by_one(servers: Servers, client: Client, jobs: int) -> list[Moments]:
    """The moments of each job, in ms since its submit."""
    done = []
    for _ in range(jobs):
        job = client.submit()
        done.append((job, await_success(servers, job)))
        time.sleep(CALM_SECONDS)
    _await_end_everywhere(servers, [job.job_id for job, _ in done])
    return [moments_of(servers, job, seen) for job, seen in done]


def await_success(servers: Servers, job: Submitted) -> float:
    """When the initiator's row was seen to be final. Raises BenchFailed for any other end than success."""
    deadline = time.time() + JOB_SECONDS
    while time.time() < deadline:
        status = servers[GUEST].rows("SELECT f_status FROM t_job WHERE f_job_id = ?", job.job_id)[0][0]
        if status in FINAL:
            if status != "success":
                raise BenchFailed(f"job {job.job_id} ended as {status}")
            return time.time()
        time.sleep(LOOK_SECONDS)
    raise BenchFailed(f"job {job.job_id} did not end within {JOB_SECONDS:g} s")


def _await_end_everywhere(servers: Servers, job_ids: Sequence[str]) -> None:
    marks = ",".join("?" * len(job_ids))
    statement = f"SELECT COUNT(*) FROM t_job WHERE f_job_id IN ({marks}) AND f_status <> 'success'"
    deadline = time.monotonic() + JOB_SECONDS
    while any(servers[party_id].number(statement, *job_ids) for party_id in (GUEST, HOST)):
        if time.monotonic() > deadline:
            raise BenchFailed("a job is over at one party and not at the other")
        time.sleep(0.05)


def summary(jobs: Sequence[Moments]) -> dict[str, dict[str, float]]:
    return {
        "start_ms": spread([job["RUNNING AT BOTH"] for job in jobs]),
        "success_ms": spread([job["SUCCESS, as a client sees it"] for job in jobs]),
    }


def steps(jobs: Sequence[Moments]) -> dict[str, dict[str, float]]:
    """Each moment in the order of the medians: its spread, and the median of what passed since the one before."""
    names = [name for name in jobs[0] if all(name in job for job in jobs)]
    names.sort(key=lambda name: statistics.median(job[name] for job in jobs))
    found: dict[str, dict[str, float]] = {}
    before = dict.fromkeys(range(len(jobs)), 0.0)
    for name in names:
        passed = [job[name] - before[number] for number, job in enumerate(jobs)]
        before = {number: job[name] for number, job in enumerate(jobs)}
        found[name] = {**spread([job[name] for job in jobs]), "step": round(statistics.median(passed), 1)}
    return found
