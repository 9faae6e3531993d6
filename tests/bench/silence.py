"""(5) The start latency of (1) beside a third party that answers slowly, hangs, or is down.

All stages of a run are measured on one cluster. In each, jobs of this initiator are under way at the third party, a
client keeps submitting more, and the jobs that are measured do not need it. Slow: its server is stopped for nine
tenths of each second. Hanging: stopped for good, so that connections are accepted by the kernel and never answered.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import requests

from fate_flow.cli.flow.toy import toy_job
from tests.bench.cluster import FULL, GUEST, HOST, THIRD, BenchFailed, Client, Server, fresh_cluster
from tests.bench.load import ratio, stage
from tests.bench.processes import server_processes

SUBMIT_SECONDS = 0.5
SLOW_SECONDS, SHARE_STOPPED = 1.0, 0.9
DEATH_SECONDS = 10.0
SILENT_FOR = 3.0              # seconds after which the initiator has noticed
CALM = "all answer"


def measure(jobs: int, waiting: int) -> dict[str, Any]:
    with fresh_cluster("silence", (GUEST, HOST, THIRD), cores=20 + waiting, overlay=FULL) as servers:
        client, third = Client(servers[GUEST], servers[HOST]), servers[THIRD]
        stages = {CALM: stage(servers, client, jobs)}
        for name, trouble in (("slow", _slow), ("hangs", _hanging), ("down", _down)):
            for _ in range(waiting):
                Client(servers[GUEST], third).submit()
            with trouble(third), _submitting(servers[GUEST], third) as asked:
                time.sleep(SILENT_FOR)
                measured = {name: servers[name] for name in (GUEST, HOST)}
                stages[name] = {**stage(measured, client, jobs), "submits_to_the_third": asked()}
    return {
        "stages": stages,
        "ratios": {name: ratio(stages, name, "start_ms", CALM) for name in stages if name != CALM},
        "waiting": waiting,
    }


@contextmanager
def _submitting(guest: Server, third: Server) -> Iterator[Callable[[], int]]:
    """Somebody goes on submitting jobs that need the third party; gives how many he has asked for."""
    is_over, asked = threading.Event(), [0]
    document = toy_job(guest.party_id, third.party_id, 1)

    def go_on() -> None:
        while not is_over.wait(SUBMIT_SECONDS):
            asked[0] += 1
            with suppress(requests.RequestException):       # that it is refused, or late, is what we want
                requests.post(f"{guest.url}/v1/job/submit", json=document, timeout=60, auth=guest.auth)

    threads = [threading.Thread(target=go_on, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: asked[0]
    finally:
        is_over.set()


@contextmanager
def _slow(server: Server) -> Iterator[None]:
    is_over = threading.Event()

    def stutter() -> None:
        while not is_over.is_set():
            _signal(server, signal.SIGSTOP)
            is_over.wait(SLOW_SECONDS * SHARE_STOPPED)
            _signal(server, signal.SIGCONT)
            is_over.wait(SLOW_SECONDS * (1 - SHARE_STOPPED))

    thread = threading.Thread(target=stutter, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        _signal(server, signal.SIGCONT)


@contextmanager
def _hanging(server: Server) -> Iterator[None]:
    _signal(server, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(server, signal.SIGCONT)


@contextmanager
def _down(server: Server) -> Iterator[None]:
    _signal(server, signal.SIGKILL)
    deadline = time.monotonic() + DEATH_SECONDS
    while server_processes(server):
        if time.monotonic() > deadline:
            raise BenchFailed(f"party {server.party_id} is still there")
        time.sleep(0.05)
    yield


def _signal(server: Server, number: signal.Signals) -> None:
    """To all processes of the server; its workers have left their group."""
    os.killpg(server.pid, number)
