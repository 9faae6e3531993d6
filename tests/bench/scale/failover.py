"""(16) How long a party has nobody that schedules, when one of its two servers is killed with kill -9.

The servers share a database of MariaDB and a folder. Each death is that of the one that schedules, at a random moment.
How long it may take at most is checked on virtual time, by `tests/unit/test_stand_by.py`.
"""

from __future__ import annotations

import random
import secrets
import time
from typing import Any

import psutil

from tests.bench.cluster import ROOT, BenchFailed
from tests.bench.numbers import spread
from tests.bench.paging import mariadb
from tests.kit.servers.mariadb import dropped_databases
from tests.kit.servers.party_servers import GUEST, HOST, toy
from tests.kit.several_servers.two_servers import TwoServers, is_chosen, two_servers

_BASE_PORT = 27_000
_LONGEST_SECONDS = 60.0
_LOOK_SECONDS = 0.02


def measure(deaths: int) -> dict[str, Any]:
    draw = random.Random(1)
    root = ROOT / f"failover.{time.time_ns()}"
    with mariadb() as url:
        template = f"{url}/flow_{secrets.token_hex(4)}_{{party_id}}"
        with dropped_databases(template, (GUEST, HOST)), two_servers(root, template, _BASE_PORT) as servers:
            psutil.cpu_percent()
            seconds = [_fail_over(servers, draw.uniform(0.0, 3.0)) for _ in range(deaths)]
            return {"seconds": spread(seconds, 2), "busy_percent": psutil.cpu_percent()}


def _fail_over(servers: TwoServers, pause: float) -> float:
    """Return the seconds until the other server schedules; afterwards both run, and a job has succeeded."""
    killed = servers.chosen
    other = servers.ports[servers.other(killed)]
    time.sleep(pause)
    servers.kill(killed)
    begun = time.monotonic()
    while not is_chosen(other):
        if time.monotonic() > begun + _LONGEST_SECONDS:
            raise BenchFailed(f"after {_LONGEST_SECONDS:g} s, the other server does not schedule")
        time.sleep(_LOOK_SECONDS)
    found = time.monotonic() - begun
    servers.cluster.wait(servers.cluster.submit(toy(task_cores=1)), "success")
    servers.start(killed)
    return found
