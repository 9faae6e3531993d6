"""(18) What a start takes: commands of `flow`, a server until its first answer, `bin/demo` from nothing to its result.

Processor time is that of the command and of what it has waited for; of a server, that of its supervisor until then,
since the processes that it forks have hardly run.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.bench.cluster import CHECKOUT, GUEST, ROOT, BenchFailed, fresh_cluster
from tests.bench.numbers import spread

_BIN = CHECKOUT / ".venv" / "bin"
_COMMANDS = {"flow --help": ("--help",), "flow job query --help": ("job", "query", "--help")}
_LOOK_SECONDS = 0.002
_MOST_SECONDS = 60.0


def measure(starts: int, demos: int) -> dict[str, Any]:
    taken = {
        name: [_timed([str(_BIN / "flow"), *arguments]) for _ in range(starts)] for name, arguments in _COMMANDS.items()
    }
    taken["fate_flow serve, to its first answer"] = _servers(starts)
    if demos:
        taken["bin/demo"] = [_demo() for _ in range(demos)]
    return {
        name: {"s": spread([one for one, _ in each], digits=3), "cpu_s": spread([cpu for _, cpu in each], digits=3)}
        for name, each in taken.items()
    }


def _timed(argv: list[str]) -> tuple[float, float]:
    """Run a command; return the seconds that it took, and its processor time."""
    before, begun = _of_children(), time.monotonic()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    took = time.monotonic() - begun
    if done.returncode:
        raise BenchFailed(f"{argv} ended with {done.returncode}: {done.stderr}")
    return took, _of_children() - before


def _of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _demo() -> tuple[float, float]:
    folder = ROOT / f"demo.{time.time_ns()}"
    try:
        return _timed([str(CHECKOUT / "bin" / "demo"), "--dir", str(folder)])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _servers(starts: int) -> list[tuple[float, float]]:
    """Start one server again and again, in a home that has a database already."""
    with fresh_cluster("starts") as servers:
        server = servers[GUEST]
        port, conf = server.ports[0], server.home / "conf" / "service_conf.yaml"
        subprocess.run(
            [str(CHECKOUT / "bin" / "cluster"), "kill", "--dir", str(server.home.parent), "--party", GUEST],
            stdin=subprocess.DEVNULL, capture_output=True, check=True,
        )  # fmt: skip
        return [_server(conf, port) for _ in range(starts)]


def _server(conf: Path, port: int) -> tuple[float, float]:
    begun = time.monotonic()
    with subprocess.Popen(
        [str(_BIN / "fate_flow"), "serve", "-c", str(conf)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            while not _answers(port):
                if process.poll() is not None or time.monotonic() > begun + _MOST_SECONDS:
                    raise BenchFailed(f"the server of {conf} does not answer")
                time.sleep(_LOOK_SECONDS)
            took = time.monotonic() - begun
            used = _used(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_MOST_SECONDS)
    return took, used


def _used(pid: int) -> float:
    """Return the processor time of a process, to the microsecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_MOST_SECONDS) as connection:
            connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
            return connection.recv(16).startswith(b"HTTP/1.1 ")
    except OSError:
        return False
