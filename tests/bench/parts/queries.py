"""(19) A `job/query` of one job: how long one client waits for it, and how many of them a server answers a second.

Clients keep their connections, and sign. They run on the same machine, so what they take is missing to the server; they
write bytes that were made before, to take little."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

import requests

from tests.bench.cluster import GUEST, HOST, BenchFailed, Client, Server, fresh_cluster
from tests.bench.latency import run_one_by_one
from tests.bench.numbers import spread
from tests.bench.processes import CpuMeter

CLIENTS = 16
WARM_UP = 50


def measure(requests_each: int) -> dict[str, Any]:
    with fresh_cluster("queries") as servers:
        server = servers[GUEST]
        run_one_by_one(servers, Client(server, servers[HOST]), 3)
        [job_id] = (str(row[0]) for row in server.rows("SELECT f_job_id FROM t_job ORDER BY f_job_id LIMIT 1"))
        _asked(server, _signed(server, job_id, WARM_UP))
        alone, signed = CpuMeter([server]), _signed(server, job_id, requests_each)
        taken = _asked(server, signed)
        used = alone.read()
        batches = [_signed(server, job_id, requests_each) for _ in range(CLIENTS)]
        together, begun = CpuMeter([server]), time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as pool:
            crowd = list(chain.from_iterable(pool.map(lambda one: _asked(server, one), batches)))
        seconds, crowd_used = time.monotonic() - begun, together.read()
    return {
        "one_client_ms": spread(taken, 2),
        "cpu_ms_of_one": round(1000 * sum(used.by_kind().values()) / requests_each, 2),
        "clients": CLIENTS,
        "requests_per_s": round(len(crowd) / seconds, 1),
        "many_clients_ms": spread(crowd, 2),
        "cpu_ms_of_one_of_many": round(1000 * sum(crowd_used.by_kind().values()) / len(crowd), 2),
        "others_percent": round(used.others_percent, 1),
    }


def _signed(server: Server, job_id: str, count: int) -> list[requests.PreparedRequest]:
    """Requests that are ready to be sent. A signature is good for a few minutes, once."""
    one = requests.Request("POST", f"{server.url}/v1/job/query", json={"job_id": job_id}, auth=server.auth)
    return [one.prepare() for _ in range(count)]


def _asked(server: Server, signed: Sequence[requests.PreparedRequest]) -> list[float]:
    """Send these over one connection; return how many milliseconds each answer took."""
    address, taken = urlsplit(server.url), []
    with closing(HTTPConnection(str(address.hostname), address.port, timeout=60)) as connection:
        for one in signed:
            begun = time.monotonic()
            connection.request("POST", str(one.path_url), one.body, dict(one.headers))
            answer = connection.getresponse()
            content = answer.read()
            taken.append(1000 * (time.monotonic() - begun))
            if answer.status != 200 or json.loads(content)["retcode"]:
                raise BenchFailed(f"job/query: {answer.status} {content[:200]!r}")
    return taken
