"""(11) What the record costs: toy jobs with `record.switch` on, beside the same with it off.

Both clusters run at the same time, and their jobs take turns, one by one and in bursts: whatever else the machine does,
it does to both. A burst of the one that goes first and a burst that goes second count alike for both. The processor
time of a job in a burst has that of its workers, and of what the servers do beside it.
"""

from __future__ import annotations

import statistics
from typing import Any

from tests.bench.burst import await_quiet, rates_of, submit_all
from tests.bench.cluster import BASE_PORT, FULL, GUEST, HOST, Client, Servers, fresh_cluster
from tests.bench.processes import CpuMeter
from tests.bench.trust import run_alternately

NAMES = ("record off", "record on")
_BURSTS = 3 * ("record off", "record on", "record on", "record off")


def measure(jobs: int, at_once: int) -> dict[str, Any]:
    off, on = ({**FULL, "record": {"switch": switch}} for switch in (False, True))
    with (
        fresh_cluster("off", cores=at_once + 20, over_tls=True, overlay=off) as without,
        fresh_cluster("on", cores=at_once + 20, base_port=BASE_PORT + 300, over_tls=True, overlay=on) as with_record,
    ):
        clusters = dict(zip(NAMES, (without, with_record), strict=True))
        found = run_alternately(clusters, jobs)
        rates: dict[str, list[float]] = {name: [] for name in NAMES}
        costs: dict[str, list[float]] = {name: [] for name in NAMES}
        for name in _BURSTS:
            meter = CpuMeter(clusters[name].values())
            rates[name].append(_starts_per_s(clusters[name], at_once))
            used = meter.read()
            costs[name].append(1000 * (sum(used.by_kind().values()) + used.workers) / at_once)
        entries = {
            party_id: server.number("SELECT COUNT(*) FROM t_record_entry") for party_id, server in with_record.items()
        }
    starts = {name: statistics.mean(listed) for name, listed in rates.items()}
    cpu = {name: round(statistics.mean(listed), 1) for name, listed in costs.items()}
    return {
        **found, "starts_per_s": starts, "ratio_of_starts": round(starts[NAMES[1]] / starts[NAMES[0]], 3),
        "cpu_ms_per_job_at_once": cpu, "ratio_of_cpu": round(cpu[NAMES[1]] / cpu[NAMES[0]], 3), "entries": entries,
    }  # fmt: skip


def _starts_per_s(servers: Servers, at_once: int) -> float:
    submitted = submit_all(Client(servers[GUEST], servers[HOST]), at_once)
    await_quiet(servers)
    return float(rates_of(servers, submitted)["starts_per_s"])
