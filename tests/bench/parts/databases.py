"""(21) Toy jobs on MariaDB, beside the same on SQLite: both clusters run at once, and their jobs take turns."""

from __future__ import annotations

import time
from typing import Any

from tests.bench.cluster import BASE_PORT, FINAL, GUEST, HOST, BenchFailed, Client, Server, Submitted, fresh_cluster
from tests.bench.latency import CALM_SECONDS, JOB_SECONDS, LOOK_SECONDS, WARM_UP
from tests.bench.numbers import spread
from tests.bench.paging import mariadb
from tests.bench.processes import CpuMeter

NAMES = ("SQLite", "MariaDB")


def measure(jobs: int) -> dict[str, Any]:
    """Times are those of the rows at the guest, as its API shows them, since the submit. The processor time has not
    that of MariaDB itself."""
    with (
        mariadb() as url,
        fresh_cluster("sqlite") as on_sqlite,
        fresh_cluster("mariadb", database=f"{url}/bench_{{party_id}}", base_port=BASE_PORT + 300) as on_mariadb,
    ):
        clusters = dict(zip(NAMES, (on_sqlite, on_mariadb), strict=True))
        clients = {name: Client(servers[GUEST], servers[HOST]) for name, servers in clusters.items()}
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in NAMES}
        for name, servers in clusters.items():
            for _ in range(WARM_UP):
                _times(servers[GUEST], clients[name].submit())
        meters = {name: CpuMeter(servers.values()) for name, servers in clusters.items()}
        for number in range(jobs):
            for name in NAMES if number % 2 else NAMES[::-1]:
                taken[name].append(_times(clusters[name][GUEST], clients[name].submit()))
                time.sleep(CALM_SECONDS)         # so that each job finds servers at rest
        used = {name: meter.read() for name, meter in meters.items()}
    stages = {
        name: {
            "start_ms": spread([start for start, _ in taken[name]]),
            "success_ms": spread([end for _, end in taken[name]]),
            "cpu_ms_per_job": round(1000 * sum(used[name].by_kind().values()) / jobs, 1),
        }
        for name in NAMES
    }
    sqlite, server = (stages[name] for name in NAMES)
    return {
        "stages": stages,
        "ratio": round(server["start_ms"]["median"] / sqlite["start_ms"]["median"], 3),
        "ratio_until_success": round(server["success_ms"]["median"] / sqlite["success_ms"]["median"], 3),
        "ratio_of_cpu": round(server["cpu_ms_per_job"] / sqlite["cpu_ms_per_job"], 3),
        "others_percent": round(used[NAMES[0]].others_percent, 1),
    }


def _times(server: Server, job: Submitted) -> tuple[float, float]:
    """When it was running at its guest, and when it was over, in ms since it was submitted."""
    deadline = time.time() + JOB_SECONDS
    while time.time() < deadline:
        [row] = server.ask("job/query", {"job_id": job.job_id, "role": "guest"})
        if row["f_status"] in FINAL:
            if row["f_status"] != "success":
                raise BenchFailed(f"job {job.job_id} ended as {row['f_status']}")
            return row["f_start_time"] - 1000 * job.asked, row["f_end_time"] - 1000 * job.asked
        time.sleep(LOOK_SECONDS)         # between two looks: asked without a pause, the server would work for us
    raise BenchFailed(f"job {job.job_id} did not end within {JOB_SECONDS:g} s")
