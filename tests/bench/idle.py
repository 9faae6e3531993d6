"""(4) What a server takes that has nothing to do, also with open boards: resident memory and CPU."""

from __future__ import annotations

import time
from typing import Any

from fate_flow.settings.client_keys import read_client_keys
from tests.bench.boards import keep_open, opened
from tests.bench.cluster import GUEST, HOST, Client, Server, fresh_cluster
from tests.bench.latency import run_one_by_one
from tests.bench.processes import CpuMeter, server_processes

SETTLE_SECONDS = 6.0
BOARDS = 50


def measure(seconds: float) -> dict[str, Any]:
    with fresh_cluster("idle") as servers:
        time.sleep(SETTLE_SECONDS)
        server = servers[GUEST]
        memory = memory_mb(server)
        meter = CpuMeter([server])
        time.sleep(seconds)
        cpu = meter.read()
        key = read_client_keys(server.home)
        assert key is not None, "a cluster makes keys for its clients"
        found = opened(server, key, BOARDS)
        meter = CpuMeter([server])
        boards = keep_open(found, seconds)
        watched = meter.read()
        run_one_by_one(servers, Client(server, servers[HOST]), 10)
        time.sleep(1)
        afterwards = memory_mb(server)
    kinds = {kind: round(100 * spent / cpu.elapsed, 2) for kind, spent in cpu.servers[GUEST].items()}
    return {
        "memory_mb": memory,
        "memory_mb_after_10_jobs": {name: afterwards[name] for name in ("pss", "rss")},
        "cpu_percent_of_a_core": round(100 * sum(cpu.servers[GUEST].values()) / cpu.elapsed, 2),
        "cpu_percent_by_kind": kinds,
        "boards": {
            **boards, "cpu_percent_of_a_core": round(100 * sum(watched.servers[GUEST].values()) / watched.elapsed, 2),
        },
        "others_percent": round(cpu.others_percent, 1),
    }


def memory_mb(server: Server) -> dict[str, Any]:
    """PSS and RSS of all processes of a server together, and of each."""
    each = [(one.kind, one.memory_kb()) for one in server_processes(server)]
    return {
        "pss": round(sum(kb["Pss"] for _, kb in each) / 1024, 1),
        "rss": round(sum(kb["Rss"] for _, kb in each) / 1024, 1),
        "processes": {name: {key.lower(): round(kb[key] / 1024, 1) for key in ("Pss", "Rss")} for name, kb in each},
    }
