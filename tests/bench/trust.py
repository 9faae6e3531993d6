"""(8) What trust costs: toy jobs with everything on that guards a server, beside the same with everything off.

Both clusters run at the same time, and their jobs take turns: whatever else the machine does, it does to both.
"""

from __future__ import annotations

from typing import Any

from tests.bench.cluster import BASE_PORT, GUEST, HOST, Client, Server, Servers, fresh_cluster
from tests.bench.latency import WARM_UP, Moments, run_one_by_one, summary
from tests.bench.processes import KINDS, CpuMeter

OFF: dict[str, Any] = {
    "authentication": {"client": {"switch": False}}, "permission": {"switch": False}, "approval": {"required": False},
}  # fmt: skip
ON: dict[str, Any] = {
    "authentication": {"client": {"switch": True}},
    "permission": {"switch": True, "component": True, "dataset": True},
}
NAMES = ("everything off", "everything on")
_TOY = "SecureAddExample"


def measure(jobs: int) -> dict[str, Any]:
    with (
        fresh_cluster("off", overlay=OFF) as off,
        fresh_cluster("on", base_port=BASE_PORT + 300, over_tls=True, overlay=ON) as on,
    ):
        grant(on[HOST])
        return run_alternately(dict(zip(NAMES, (off, on), strict=True)), jobs)


def grant(host: Server) -> None:
    """Let jobs of the guest use the component of the toy job here."""
    body = {"party_id": GUEST, "component": _TOY}
    host.ask("permission/grant", body)


def run_alternately(clusters: dict[str, Servers], jobs: int) -> dict[str, Any]:
    clients = {name: Client(servers[GUEST], servers[HOST]) for name, servers in clusters.items()}
    for name, servers in clusters.items():
        run_one_by_one(servers, clients[name], WARM_UP)
    meters = {name: CpuMeter(servers.values()) for name, servers in clusters.items()}
    done: dict[str, list[Moments]] = {name: [] for name in clusters}
    for number in range(jobs):
        listed = list(clusters.items())
        for name, servers in listed if number % 2 else listed[::-1]:
            done[name] += run_one_by_one(servers, clients[name], 1)
    used = {name: meter.read() for name, meter in meters.items()}
    found = {
        name: {
            **summary(done[name]),
            "cpu_ms_per_job": {kind: round(1000 * used[name].by_kind()[kind] / jobs, 1) for kind in KINDS},
        }
        for name in clusters
    }
    first, last = (found[name] for name in clusters)
    return {
        "stages": found,
        "ratio": round(last["start_ms"]["median"] / first["start_ms"]["median"], 3),
        "ratio_until_success": round(last["success_ms"]["median"] / first["success_ms"]["median"], 3),
        "jobs": done,
    }
