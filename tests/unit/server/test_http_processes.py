"""Processes that serve, without gunicorn's arbiter: who makes them, and who sees that one has stopped working."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fate_flow.api.http.gunicorn_worker import CallerLimits
from fate_flow.server.http_processes import HttpServer
from fate_flow.server.supervisor import _Child


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpServer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield HttpServer((listener,), 2, 4, CallerLimits(2), tmp_path, lambda: Flask("nothing"))


def test_there_are_as_many_processes_as_the_settings_say(server: HttpServer) -> None:
    assert len(server.processes()) == 2


def test_the_parent_sees_how_long_a_process_was_silent(server: HttpServer, tmp_path: Path) -> None:
    [process, _] = server.processes()
    process.prepare()
    assert process.silent_seconds() < 60, "a process that hangs before its first sign of life is noticed, too"
    long_ago = time.monotonic() - 500.0
    os.utime(process._worker.tmp.fileno(), (long_ago, long_ago))
    assert 500 <= process.silent_seconds() < 560
    before = process._worker.tmp
    process.prepare()                      # for the next process in its place
    assert process.silent_seconds() < 60
    assert before._tmp.closed
    process.close()
    assert list(tmp_path.iterdir()) == []


class Silent:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def silent_seconds(self) -> float:
        return self.seconds


IGNORES = "import signal, sys; signal.signal(signal.SIGABRT, signal.SIG_IGN); print(flush=True); sys.stdin.read()"


@pytest.fixture
def standing() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not end when it is asked to."""
    with subprocess.Popen([sys.executable, "-c", IGNORES], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def child_of(process: subprocess.Popen[bytes], seconds: float) -> _Child:
    http: Any = Silent(seconds)
    return _Child("http", lambda: None, pid=process.pid, http=http)


def test_a_process_that_serves_is_left_alone_while_it_shows_signs(standing: subprocess.Popen[bytes]) -> None:
    child = child_of(standing, 119.0)
    child.end_if_silent()
    assert not child.is_aborted
    assert standing.poll() is None


def test_a_silent_process_is_asked_to_end_and_then_killed(
    standing: subprocess.Popen[bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    child = child_of(standing, 121.0)
    child.end_if_silent()
    assert child.is_aborted
    child.end_if_silent()
    assert standing.wait(60) == -signal.SIGKILL
    said = "http gives no sign of life and is ended\nhttp gives no sign of life and is killed\n"
    assert capfd.readouterr().err == said
    _Child("scheduler", lambda: None, pid=standing.pid).end_if_silent()
    child.end_if_silent()                  # it has gone meanwhile


def test_a_server_does_without_gunicorns_arbiter() -> None:
    code = "import sys; import fate_flow.server.supervisor; sys.exit('gunicorn.arbiter' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
