"""Daemons of a test's own folder: their identity in a state file, signals to none but them, a free port for each.

Another process may have the pid of a daemon later, so no signal is sent before the start time is compared.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
PORTS = range(13300, 32000)    # below the ports that Linux assigns to clients
STOP_SECONDS = 30.0
POLL_SECONDS = 0.02


class Failed(Exception):
    """The programs are available, but fail."""


def read_state(file: Path) -> dict[str, Any]:
    """Return what was written last; empty if nothing was."""
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def write_state(file: Path, state: Mapping[str, Any]) -> None:
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_text(json.dumps(state), encoding="utf-8")
    draft.replace(file)


def identity(pid: int) -> dict[str, int]:
    """Return what a state says of a process that was just started."""
    return {"pid": pid, "started": start_time(pid) or 0}


def is_alive(state: Mapping[str, Any]) -> bool:
    return "pid" in state and start_time(state["pid"]) == state["started"]


def send(state: Mapping[str, Any], number: signal.Signals) -> None:
    """Send a signal to the process of a state, if it lives."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(state["pid"])
        try:
            if is_alive(state):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def end(state: Mapping[str, Any], number: signal.Signals = signal.SIGTERM, seconds: float = STOP_SECONDS) -> bool:
    """End the process of a state, by SIGKILL if it does not end in this time; return False if it does not run."""
    if not is_alive(state):
        return False
    send(state, number)
    deadline = time.monotonic() + seconds
    while is_alive(state):
        if time.monotonic() > deadline:
            send(state, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    return True


def start_time(pid: int) -> int | None:
    """Return the start time of a living process, in clock ticks since boot; None for any other."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = line[line.rindex(b")") + 2:].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def free_ports() -> Iterator[int]:
    """Yield ports that nobody listens at, in a random order."""
    for port in random.sample(PORTS, len(PORTS)):
        if is_free(port):
            yield port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def last_lines(output: bytes, lines: int = 15) -> str:
    return "\n".join(f"    {line}" for line in output.decode("utf-8", "replace").splitlines()[-lines:])
