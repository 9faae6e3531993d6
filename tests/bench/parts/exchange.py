"""(20) Messages between the workers of two parties: there and back, many large ones at once, and what they cost.

The workers are a program of a job, which sends through the exchange as any other does: to its own server, from there to
the other party's, where the other worker fetches it."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.bench.cluster import FULL, GUEST, HOST, BenchFailed, Client, Servers, fresh_cluster
from tests.bench.latency import await_success
from tests.bench.processes import Cpu, CpuMeter
from tests.kit.servers.party_servers import job_of

TOPICS, MEBIBYTE = 8, 1024 * 1024

_PROGRAM = """
import json, os, statistics, sys, threading, time
sys.path.append(os.environ["FATE_FLOW_PYTHON_PATH"])
from fate_flow.components.gang import join

gang, rounds, topics, each = join(), *map(int, sys.argv[1:])
other, small, large = 1 - gang.rank, bytes(1024), os.urandom(1024 * 1024)

def there_and_back():
    if gang.rank:
        gang.send(other, gang.receive(other))
        return 0.0
    begun = time.monotonic()
    gang.send(other, small)
    gang.receive(other)
    return time.monotonic() - begun

def carry(topic):
    for _ in range(each):
        if gang.rank:
            assert len(gang.receive(other, topic)) == len(large)
        else:
            gang.send(other, large, topic)

taken = [there_and_back() for _ in range(rounds + 20)][20:]
threads = [threading.Thread(target=carry, args=(f"large{number}",)) for number in range(topics)]
begun = time.monotonic()
for one in threads:
    one.start()
for one in threads:
    one.join()
if each:
    there_and_back()              # so the other one has them all
seconds = time.monotonic() - begun
if not gang.rank:
    print(json.dumps({"taken_ms": sorted(1000 * one for one in taken), "seconds": seconds}))
"""


def measure(rounds: int, megabytes: int) -> dict[str, Any]:
    """`megabytes`: MiB, in messages of one each."""
    overlay = {**FULL, "commands": {"enabled": True, "allow": [sys.executable]}}
    with fresh_cluster("exchange", overlay=overlay) as servers:
        _run(servers, 10, 1)
        trips, _ = _run(servers, rounds, 0)
        _, idle = _run(servers, 0, 0)
        carried, used = _run(servers, 0, megabytes // TOPICS)
    size = megabytes // TOPICS * TOPICS
    taken = trips["taken_ms"]
    return {
        "there_and_back_ms": {
            "median": round(taken[len(taken) // 2], 2), "p90": round(taken[len(taken) * 9 // 10], 2),
            "min": round(taken[0], 2), "max": round(taken[-1], 2),
        },
        "mib_per_s": round(size / carried["seconds"], 1),
        "servers_cpu_ms_per_mib": round(1000 * (_of_servers(used) - _of_servers(idle)) / size, 2),
        "workers_cpu_ms_per_mib": round(1000 * (used.workers - idle.workers) / size, 2),
        "others_percent": round(used.others_percent, 1),
    }  # fmt: skip


def _of_servers(used: Cpu) -> float:
    return sum(used.by_kind().values())


def _run(servers: Servers, rounds: int, each: int) -> tuple[dict[str, Any], Cpu]:
    """What the program at the guest has printed, and the processor time until the job was over."""
    command = [sys.executable, "-c", _PROGRAM, str(rounds), str(TOPICS), str(each)]
    document = job_of(
        {"talk": {"module": "Command"}}, {"guest": [GUEST], "host": [HOST]}, common={"talk": {"command": command}},
        parameters={},
    )  # fmt: skip
    meter = CpuMeter(servers.values())
    job = Client(servers[GUEST], servers[HOST], document).submit()
    await_success(servers, job)
    used = meter.read()
    said = servers[GUEST].ask("task/log", {"job_id": job.job_id, "component_name": "talk", "stream": "stdout"})
    try:
        return json.loads(said["text"]), used
    except ValueError as error:
        raise BenchFailed(f"job {job.job_id} has printed {said!r}") from error
