"""Many more waiting pops than threads never keep a push out: a real gunicorn with few threads.

gunicorn imports `make_app` from this file.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import requests
from flask import Flask

from fate_flow.api.between_parties import exchange
from fate_flow.api.between_parties.exchange import ExchangeEnvelope, ForwardReply, worker_blueprint
from fate_flow.api.http.errors import Api, register_apis
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_session import Session

THREADS = 4
POPS = 4 * THREADS
CHUNKS = 5
GUEST, ARBITER = ("guest", "9999"), ("arbiter", "9999")  # two seats of one party: nothing is forwarded
PEERS = (GUEST, ARBITER)
PATIENCE_SECONDS = 120.0
WAIT_MS = 5000           # of a pop, also the longest here: so long that even a busy machine asks much faster
# In a file, where a gunicorn before 25.1 ignores the setting it does not know.
CONFIG = f"""
worker_class = "gthread"
threads = {THREADS}
graceful_timeout = 2
control_socket_disable = True
"""


def make_app() -> Flask:
    exchange._WAIT_MS = WAIT_MS
    app = Flask("exchange")
    spool = Spool(Path(os.environ["SPOOL_ROOT"]), SpoolLimits(), lambda: None)
    routes = worker_blueprint(spool, lambda *_: ForwardReply(502), THREADS // 2)
    register_apis(app, Api(ExchangeEnvelope(), (routes,)))
    return app


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server on a socket that listens before it starts, so that nobody has to wait for it."""
    spool = Spool(tmp_path, SpoolLimits(), lambda: None)
    for role, party_id in PEERS:
        spool.open(Session("20260101120000", "20260101120000_psi_0", 0, "a1b2c3d4", role, party_id), PEERS, role)
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        config = tmp_path / "gunicorn.conf.py"
        config.write_text(CONFIG)
        command = [sys.executable, "-m", "gunicorn", "--config", str(config), "--bind", f"fd://{listener.fileno()}",
                   "--chdir", str(Path(__file__).parent), "--worker-tmp-dir", str(tmp_path),
                   f"{Path(__file__).stem}:make_app()"]
        environ = os.environ | {"SPOOL_ROOT": str(tmp_path)}
        server = subprocess.Popen(command, env=environ, pass_fds=[listener.fileno()])
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/exchange"
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def ask(url: str, route: str, token: str, **query: object) -> requests.Response:
    data = query.pop("data", b"")
    return requests.post(f"{url}/{route}", params=query, data=data, timeout=PATIENCE_SECONDS,  # type: ignore[arg-type]
                         headers={"Authorization": f"Bearer {token}"})


def pop_until_there(url: str, topic: str, deadline: float) -> list[bytes]:
    """Behave as a worker does: pop, wait as told, pop again."""
    got: list[bytes] = []
    while len(got) < CHUNKS and time.monotonic() < deadline:
        answer = ask(url, "pop", "arbiter", topic=topic, role="guest", party_id="9999", seq=len(got), wait_ms=WAIT_MS)
        if answer.status_code == 200:
            got.append(answer.content)
        else:
            assert answer.status_code == 204
            time.sleep(int(answer.headers.get("Retry-After-Ms", "0")) / 1000)
    return got


def wait_until_all_slots_are_taken(url: str, deadline: float) -> None:
    query = {"topic": "probe", "role": "guest", "party_id": "9999", "seq": 0, "wait_ms": 1}
    while "Retry-After-Ms" not in ask(url, "pop", "arbiter", **query).headers:
        assert time.monotonic() < deadline


@pytest.mark.heavy
def test_waiting_pops_never_keep_a_push_out(url: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    took: list[float] = []
    with ThreadPoolExecutor(POPS) as pool:
        pops: list[Future[list[bytes]]] = [
            pool.submit(pop_until_there, url, f"topic {n}", deadline) for n in range(POPS)
        ]
        wait_until_all_slots_are_taken(url, deadline)
        for seq in range(CHUNKS):
            for n in range(POPS):
                began = time.monotonic()
                answer = ask(url, "push", "guest", topic=f"topic {n}", role="arbiter", party_id="9999", seq=seq,
                             last=1, data=b"%d of %d" % (seq, n))
                took.append(time.monotonic() - began)
                assert answer.status_code == 200, answer.text
        received = [pop.result() for pop in pops]
    assert received == [[b"%d of %d" % (seq, n) for seq in range(CHUNKS)] for n in range(POPS)]
    # A push that had to wait for a pop to end would take its time; half of it leaves room for a busy machine.
    assert sorted(took)[len(took) // 2] < WAIT_MS / 2000


def test_all_threads_but_the_waiting_ones_go_on(url: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    waiting = {"topic": "never", "role": "guest", "party_id": "9999", "seq": 0, "wait_ms": WAIT_MS}
    with ThreadPoolExecutor(POPS) as pool:
        pops = [pool.submit(ask, url, "pop", "arbiter", **waiting) for _ in range(POPS)]
        answers = [pop.result() for pop in pops]
    turned_away = [answer for answer in answers if "Retry-After-Ms" in answer.headers]
    assert {answer.status_code for answer in answers} == {204}
    assert len(turned_away) >= POPS - 2 * (THREADS // 2)
    assert time.monotonic() < deadline
