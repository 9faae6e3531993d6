"""The local engine, as the server sees it: order a worker, look at it, end it.

Nothing is remembered here: every call reads the worker's folder, so that any process of the server, and the
next one after a crash, may go on where another stopped, and may repeat what another has done.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from fate_flow.engines.local.wakeup import wake
from fate_flow.engines.local.worker import (
    CLAIMED,
    EXIT,
    LAUNCH,
    RESULT,
    STOP,
    Exit,
    Observation,
    ProcessId,
    Started,
    Stop,
    WorkerSpec,
    claim,
    claimer,
    read_json,
    write_atomically,
)

_PATIENCE_SECONDS = 0.02
"""How long an order waits for room in the spawner's socket; a spawner at work makes room in a few ms."""


class LocalEngine:
    """Workers as processes of this machine."""

    def __init__(self, spawner_wakeup: socket.socket | None = None) -> None:
        self._spawner_wakeup = spawner_wakeup

    def launch(self, spec: WorkerSpec) -> bool:
        """False when the order did not reach the spawner: repeat it. A folder is launched once."""
        folder = spec.folder
        if (folder / CLAIMED).exists():
            return True
        folder.mkdir(parents=True, exist_ok=True)
        # The environment may hold tokens. Not flushed to disk: after a power cut nothing of it has begun.
        write_atomically(folder / LAUNCH, spec.to_json(), mode=0o600, is_durable=False)
        if self._spawner_wakeup is None:
            return False
        return wake(self._spawner_wakeup, {"launch": str(folder)}, patience_seconds=_PATIENCE_SECONDS)

    def observe(self, folder: Path) -> Observation:
        """How the worker of a folder is doing; `lost` when nothing is left that could still tell."""
        return _ended(folder) or _living(folder) or _gone(folder)

    def stop(self, folder: Path, grace_seconds: float) -> bool:
        """Asks a worker to end, or one that has not begun never to begin; repeat it until it has ended.

        True when this call decided that it never begins: no runner will tell of its end."""
        if (folder / EXIT).exists():
            return False
        folder.mkdir(parents=True, exist_ok=True)
        pending = _stop_request(folder, grace_seconds)
        if claim(folder):
            write_atomically(folder / EXIT, Exit(None, None, "stopped").to_json())
            return True
        # Without runner.json there is nobody to signal: the runner writes it first and reads stop.json then.
        started = Started.read(folder)
        if started and not started.runner.send(signal.SIGTERM):
            _end_survivors(started, pending)
        return False


def living_workers(jobs_root: Path) -> list[Path]:
    """The folders below in which a worker runs or is about to."""
    return [folder for folder in _worker_folders(jobs_root) if _is_living(folder)]


def _ended(folder: Path) -> Observation | None:
    end = Exit.read(folder)
    if end is None:
        return None
    started = Started.read(folder)
    return Observation("exited", started.worker if started else None, end, read_json(folder / RESULT))


def _living(folder: Path) -> Observation | None:
    """None when whoever had to care for the worker is gone."""
    started = Started.read(folder)
    if started:
        is_running = started.runner.is_alive() or started.worker.is_alive()
        return Observation("running", started.worker) if is_running else None
    owner = claimer(folder)
    return Observation("created") if owner is None or owner.is_alive() else None


def _gone(folder: Path) -> Observation:
    # The runner may have written its last lines after we looked for them and before we looked for it.
    if end := _ended(folder):
        return end
    started = Started.read(folder)
    if started is None:
        return Observation("lost")
    if started.survivors():
        return Observation("running", started.worker)
    return Observation("lost", started.worker, None, read_json(folder / RESULT))


def _stop_request(folder: Path, grace_seconds: float) -> Stop:
    """The request as it stands now; a repeated one keeps its beginning and the shorter grace."""
    earlier = Stop.read(folder)
    if earlier and earlier.grace_seconds <= grace_seconds:
        return earlier
    pending = Stop(grace_seconds, earlier.asked_at if earlier else time.monotonic())
    write_atomically(folder / STOP, pending.to_json())
    return pending


def _end_survivors(started: Started, pending: Stop) -> None:
    """What a runner would have done: SIGTERM, and SIGKILL once the grace is over."""
    is_over = time.monotonic() >= pending.asked_at + pending.grace_seconds
    for member in started.survivors():
        ProcessId(member.pid, member.started).send(signal.SIGKILL if is_over else signal.SIGTERM)


def _worker_folders(root: Path) -> Iterator[Path]:
    for path, folders, files in os.walk(root):
        if LAUNCH in files:
            folders.clear()    # what a worker keeps in its folder is its own
            yield Path(path)


def _is_living(folder: Path) -> bool:
    seen = LocalEngine().observe(folder)
    if seen.state == "created":
        return claimer(folder) is not None
    return seen.state == "running"
