"""The server's side of the local engine: launch a worker, observe it, stop it.

There is no state in memory: every call reads the worker's folder. So any process of the server, also after a crash, can
go on where another one stopped, and can repeat what another one has done.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fate_flow.engines.local.groups import Groups
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
"""How long an order waits for room in the spawner's socket; a busy spawner makes room in a few ms."""


class LocalEngine:
    """Workers as processes of this machine."""

    def __init__(self, spawner_wakeup: socket.socket | None = None, groups: Groups | None = None) -> None:
        self._spawner_wakeup = spawner_wakeup
        self._groups = groups

    def launch(self, spec: WorkerSpec, imports: Sequence[str] = ()) -> bool:
        """Order a launch; False if the order did not reach the spawner and must be repeated.

        A folder is launched once, however often it is ordered. `imports`: modules that a fork of the spawner needs; the
        spawner imports them first, once for all later forks."""
        folder = spec.folder
        if (folder / CLAIMED).exists():
            return True
        folder.mkdir(parents=True, exist_ok=True)
        # Mode 0600, because the environment may contain tokens. Not synced: after a power cut nothing has started.
        write_atomically(folder / LAUNCH, spec.to_json(), mode=0o600, is_durable=False)
        if self._spawner_wakeup is None:
            return False
        order = {"launch": str(folder), "imports": list(imports)}
        return wake(self._spawner_wakeup, order, patience_seconds=_PATIENCE_SECONDS)

    def observe(self, folder: Path) -> Observation:
        """Return the state of the worker of a folder; `lost` if it has no end, and no process is left to write one."""
        return _ended(folder) or _living(folder) or _gone(folder)

    def stop(self, folder: Path, grace_seconds: float) -> bool:
        """Ask a worker to end; one that has not started never starts then. Repeat the call until the worker has ended.

        Returns True if this call has decided that the worker never starts; then no runner reports its end."""
        if (folder / EXIT).exists():
            return False
        folder.mkdir(parents=True, exist_ok=True)
        pending = _stop_request(folder, grace_seconds)
        if claim(folder):
            write_atomically(folder / EXIT, Exit(None, None, "stopped").to_json())
            return True
        # Without runner.json there is no process to signal: the runner writes it first, and then reads stop.json.
        started = Started.read(folder)
        if started and not started.runner.send(signal.SIGTERM):
            self._end_survivors(folder, started, pending)
        return False

    def _end_survivors(self, folder: Path, started: Started, pending: Stop) -> None:
        """Send SIGTERM, and SIGKILL once the grace is over, as the runner would have done."""
        is_over = time.monotonic() >= pending.asked_at + pending.grace_seconds
        for member in started.survivors():
            ProcessId(member.pid, member.started).send(signal.SIGKILL if is_over else signal.SIGTERM)
        if is_over and self._groups:
            self._groups.find(folder.name).end()


def living_workers(jobs_root: Path) -> list[Path]:
    """Return the folders below `jobs_root` in which a worker runs, or is about to run."""
    return [folder for folder in _worker_folders(jobs_root) if _is_living(folder)]


def printed_in(folder: Path) -> Mapping[str, Path] | None:
    """Return the files of what the worker of a folder printed, `stdout` and `stderr`; None if it was not launched, or
    if the folder was removed."""
    launch = read_json(folder / LAUNCH) or {}
    found = {stream: launch.get(stream) for stream in ("stdout", "stderr")}
    if not all(isinstance(path, str) and path.startswith("/") and "\0" not in path for path in found.values()):
        return None
    return {stream: Path(str(path)) for stream, path in found.items()}


def _ended(folder: Path) -> Observation | None:
    end = Exit.read(folder)
    if end is None:
        return None
    started = Started.read(folder)
    return Observation("exited", started.worker if started else None, end, read_json(folder / RESULT))


def _living(folder: Path) -> Observation | None:
    """Return the state of a worker that has not ended; None if its runner, or the process that claimed it, is gone."""
    started = Started.read(folder)
    if started:
        is_running = started.runner.is_alive() or started.worker.is_alive()
        return Observation("running", started.worker) if is_running else None
    owner = claimer(folder)
    return Observation("created") if owner is None or owner.is_alive() else None


def _gone(folder: Path) -> Observation:
    # The runner may have written the end after it was looked for, and ended before its process was looked for.
    if end := _ended(folder):
        return end
    started = Started.read(folder)
    if started is None:
        return Observation("lost")
    if started.survivors():
        return Observation("running", started.worker)
    return Observation("lost", started.worker, None, read_json(folder / RESULT))


def _stop_request(folder: Path, grace_seconds: float) -> Stop:
    """Write and return the request; a repeated one keeps its time, and the shorter grace."""
    earlier = Stop.read(folder)
    if earlier and earlier.grace_seconds <= grace_seconds:
        return earlier
    pending = Stop(grace_seconds, earlier.asked_at if earlier else time.monotonic())
    write_atomically(folder / STOP, pending.to_json())
    return pending


def _worker_folders(root: Path) -> Iterator[Path]:
    left = [str(root)]
    while left:      # os.walk takes 1.4 times as long, and a home has some ten folders for each worker
        path = left.pop()
        inside: dict[str, os.DirEntry[str]] = {}
        with suppress(OSError), os.scandir(path) as entries:
            inside = {entry.name: entry for entry in entries}
        if LAUNCH in inside:
            yield Path(path)    # folders inside a worker's folder are its own files
        else:
            left += [entry.path for entry in inside.values() if entry.is_dir(follow_symlinks=False)]


def _is_living(folder: Path) -> bool:
    if Exit.read(folder) is not None:      # as nearly all have: `observe` would read two more files of each
        return False
    seen = LocalEngine().observe(folder)
    if seen.state == "created":
        return claimer(folder) is not None
    return seen.state == "running"
