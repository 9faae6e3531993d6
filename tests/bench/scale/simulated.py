"""(12) Many parties that submit jobs all day, simulated: the real code on virtual time, with slow round trips."""

from __future__ import annotations

import gc
import statistics
import time
from collections import Counter
from typing import Any

from tests.bench.cluster import BenchFailed
from tests.bench.scale.crowd import DAY, Crowd, Load, crowd_of
from tests.bench.scale.sampler import Samples, sampled

_LOOK = 10                  # virtual seconds between two looks at the queues
_FUNCTIONS = 15
_JOBS = "SELECT f_job_id, f_status, f_create_time, f_start_time, f_end_time FROM t_job WHERE f_is_initiator = 1"
_WAITING = "SELECT COUNT(*) FROM t_job WHERE f_is_initiator = 1 AND f_status IN ('waiting', 'ready')"
_ROWS = ("t_job", "t_seat", "t_task", "t_worker", "t_history", "t_outbox")


def measure(
    parties: int, jobs_a_day: int, task_seconds: float, round_trip_ms: int, warm_up: float, seconds: float
) -> dict[str, Any]:
    """`warm_up` and `seconds` are virtual; the warm-up is not measured."""
    with crowd_of(Load(parties, jobs_a_day, task_seconds, round_trip=round_trip_ms)) as crowd:
        crowd.forget_workers()
        crowd.arrive(crowd.now + int((warm_up + seconds) * 1000))
        crowd.run_for(warm_up)
        gc.collect()
        crowd.reset()
        begun, rows = crowd.now, _count_rows(crowd)
        queue = []
        spent = time.process_time()
        with sampled() as samples:
            while crowd.now < begun + seconds * 1000:
                crowd.run_for(min(_LOOK, seconds))
                queue.append(sum(count for _, (count,) in crowd.rows(_WAITING)))
        spent = time.process_time() - spent
        return _found(crowd, begun, queue, rows, spent, samples)


def _found(
    crowd: Crowd, begun: int, queue: list[int], rows: Counter[str], spent: float, samples: Samples
) -> dict[str, Any]:
    counts, seconds = crowd.counts, (crowd.now - begun) / 1000
    arrived = [job_id for job_id, at in crowd.submitted.items() if at >= begun]
    starts, ended, badly = _waits(crowd, begun)
    if badly:
        raise BenchFailed(f"jobs ended otherwise than with success: {badly}")
    jobs = max(1, len(arrived))
    busy = sorted(crowd.load.round_trip / 1000 * count / seconds for count in counts.requests.values())
    loops = sorted(spent_by / seconds for (kind, _), spent_by in counts.seconds.items() if kind == "scheduler")
    after = _count_rows(crowd)
    commands = sum(counts.commands.values())
    return {
        "load": {
            "parties": crowd.load.parties, "jobs a second": round(crowd.load.jobs_a_second, 2),
            "cores of a party": crowd.load.cores, "round trip, ms": crowd.load.round_trip,
        },
        "virtual_seconds": seconds,
        "part_of_a_day": round(seconds / DAY, 4),
        "arrived": len(arrived),
        "ended": ended,
        "start_ms": _quantiles(starts),
        "queue": {"mean": statistics.fmean(queue), "max": max(queue), "end": queue[-1]},
        "commands_per_job": {
            "all": round(commands / jobs, 2),
            **{kind: round(count / jobs, 2) for kind, count in counts.commands.most_common()},
        },
        "requests_per_job": round(sum(counts.requests.values()) / jobs, 2),
        "sender_busy_percent": {"mean": 100 * statistics.fmean(busy), "max": 100 * busy[-1]} if busy else {},
        "statements_per_job": {word: round(count / jobs, 1) for word, count in counts.statements.most_common()},
        "statements_per_s": round(sum(counts.statements.values()) / seconds, 1),
        "rows_per_job": {table: round((after[table] - rows[table]) / jobs, 2) for table in _ROWS},
        "cpu_ms_per_job": {
            "all": round(1000 * spent / jobs, 1),
            **{
                kind: round(1000 * sum(one for (of, _), one in counts.seconds.items() if of == kind) / jobs, 1)
                for kind in ("http", "scheduler")
            },
        },
        "scheduler_loop_percent": {"mean": 100 * statistics.fmean(loops), "max": 100 * loops[-1]},
        "profile_percent": samples.shares(_FUNCTIONS),
    }


def _waits(crowd: Crowd, begun: int) -> tuple[list[int], int, dict[str, int]]:
    """Milliseconds from submit to start of the jobs that arrived since; how many jobs have ended since, and how those
    that did not succeed."""
    starts, ended, badly = [], 0, Counter[str]()
    for party_id, (job_id, status, _created, started, end) in crowd.rows(_JOBS):
        skew = crowd.parties[party_id].skew
        if started and crowd.submitted[job_id] >= begun:
            starts.append(started - skew - crowd.submitted[job_id])
        if end:
            ended += end - skew >= begun
            if status != "success":
                badly[status] += 1
    return starts, ended, dict(badly)


def _quantiles(values: list[int]) -> dict[str, float]:
    if len(values) < 2:
        raise BenchFailed(f"{len(values)} jobs started in the time that is measured")
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"median": cuts[49], "p95": cuts[94], "p99": cuts[98], "max": float(max(values))}


def _count_rows(crowd: Crowd) -> Counter[str]:
    found: Counter[str] = Counter()
    for table in _ROWS:
        found[table] = sum(count for _, (count,) in crowd.rows(f"SELECT COUNT(*) FROM {table}"))
    return found
