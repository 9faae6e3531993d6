"""gunicorn's worker ends a connection where nobody waits for it."""

from __future__ import annotations

import socket
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.workers.gthread import TConn, ThreadWorker

from fate_flow.api.http.unread import worker_class

SECONDS = 60.0


@pytest.fixture
def worker() -> Any:
    """A worker without processes, listeners and threads."""
    kind = worker_class(lambda status, text: f"{status} {text}".encode())
    found = object.__new__(kind)
    found.nr_conns = 1
    found.alive = True
    return found


@pytest.mark.parametrize(("result", "is_ended"), [(False, True), (None, True), (True, False), (object(), False)])
def test_a_connection_that_ends_is_closed_by_the_thread_of_its_request(
    worker: Any, monkeypatch: pytest.MonkeyPatch, result: object, is_ended: bool
) -> None:
    monkeypatch.setattr(ThreadWorker, "handle", lambda _self, _conn: result)
    server, client = socket.socketpair()
    with server, client, ThreadPoolExecutor(1) as pool:
        conn = TConn(Config(), server, ("127.0.0.1", 1), ("127.0.0.1", 2))
        handled = pool.submit(worker.handle, conn)
        client.settimeout(SECONDS)
        if is_ended:
            assert client.recv(1) == b""             # the thread waits for the client now, and for nothing else
        client.shutdown(socket.SHUT_WR)
        assert handled.result(SECONDS) is result
        assert (server.fileno() == -1) is is_ended


def test_the_main_thread_does_not_wait_for_a_connection_that_has_ended(worker: Any) -> None:
    server, client = socket.socketpair()
    with server, client:
        conn = TConn(Config(), server, ("127.0.0.1", 1), ("127.0.0.1", 2))
        conn.close()
        done: Future[bool] = Future()
        done.set_result(False)
        worker.finish_request(conn, done)
        assert worker.nr_conns == 0
        assert client.recv(1) == b""
