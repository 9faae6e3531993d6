"""(4) What a server takes that has nothing to do, also with open boards or many partners: resident memory and CPU."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import Any

from fate_flow.settings.client_keys import read_client_keys
from tests.bench.boards import keep_open, opened
from tests.bench.cluster import GUEST, HOST, Client, Server, fresh_cluster
from tests.bench.latency import run_one_by_one
from tests.bench.processes import CpuMeter, server_processes
from tests.kit.peers.many_partners import answering, asking
from tests.kit.waiting import eventually

SETTLE_SECONDS = 6.0
BOARDS = 50
PARTNERS = tuple(str(20_001 + number) for number in range(50))


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
    partners = _with_partners(seconds)
    kinds = {kind: round(100 * spent / cpu.elapsed, 2) for kind, spent in cpu.servers[GUEST].items()}
    return {
        "memory_mb": memory,
        "memory_mb_after_10_jobs": {name: afterwards[name] for name in ("pss", "rss")},
        "cpu_percent_of_a_core": round(100 * sum(cpu.servers[GUEST].values()) / cpu.elapsed, 2),
        "cpu_percent_by_kind": kinds,
        "boards": {
            **boards, "cpu_percent_of_a_core": round(100 * sum(watched.servers[GUEST].values()) / watched.elapsed, 2),
        },
        "partners": partners,
        "others_percent": round(cpu.others_percent, 1),
    }


def _with_partners(seconds: float) -> dict[str, Any]:
    """What a server takes with 50 partners that answer it and ask it once a minute, and with the same ones if all are
    down."""
    with ExitStack() as until_down:
        partners = until_down.enter_context(answering())
        overlay = {"routes": {one: {"url": partners} for one in PARTNERS}}
        with fresh_cluster("partners", (GUEST,), overlay=overlay) as servers:
            server = servers[GUEST]
            until_down.enter_context(asking(server.url, GUEST, PARTNERS, 60.0))
            eventually(lambda: _circuits(server).count("closed") == len(PARTNERS), "that all have answered")
            up = _percent(server, seconds)
            memory = memory_mb(server)
            until_down.close()
            eventually(lambda: "closed" not in _circuits(server), "that all are known to be down", 120.0)
            return {
                "partners": len(PARTNERS), "cpu_percent_of_a_core": up, "memory_mb": memory["pss"],
                "cpu_percent_while_all_are_down": _percent(server, seconds),
            }


def _circuits(server: Server) -> list[str]:
    file = server.home / "run" / "peers.json"
    return [one["circuit"] for one in json.loads(file.read_text(encoding="utf-8")).values()] if file.exists() else []


def _percent(server: Server, seconds: float) -> float:
    meter = CpuMeter([server])
    time.sleep(seconds)
    found = meter.read()
    return round(100 * sum(found.servers[server.party_id].values()) / found.elapsed, 2)


def memory_mb(server: Server) -> dict[str, Any]:
    """PSS and RSS of all processes of a server together, and of each."""
    each = [(one.kind, one.memory_kb()) for one in server_processes(server)]
    return {
        "pss": round(sum(kb["Pss"] for _, kb in each) / 1024, 1),
        "rss": round(sum(kb["Rss"] for _, kb in each) / 1024, 1),
        "processes": {name: {key.lower(): round(kb[key] / 1024, 1) for key in ("Pss", "Rss")} for name, kb in each},
    }
