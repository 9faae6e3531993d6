"""The server's side of the local engine: launch a worker, observe it, stop it.

Every call reads the worker's folder. So any process of the server, also after a crash, can go on where another one
stopped, and can repeat what another one has done. The only state in memory is for how long a runner of another machine
has shown no sign (`signs.py`); a new process counts that from its own first look.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fate_flow.components.base.own_servers import machine_of_processes
from fate_flow.engines.local.groups import Groups
from fate_flow.engines.local.signs import SeenSigns
from fate_flow.engines.local.wakeup import wake
from fate_flow.engines.local.worker import (
    CLAIMED,
    EXIT,
    LAUNCH,
    NOBODY,
    RESULT,
    STOP,
    Exit,
    Observation,
    ProcessId,
    Started,
    Stop,
    WorkerSpec,
    claimer,
    is_claimed_elsewhere,
    never_start,
    read_json,
    write_atomically,
)

_GRACE_OF_LOST = 5.0
_PATIENCE_SECONDS = 0.02
"""How long an order waits for room in the spawner's socket; a busy spawner makes room in a few ms."""
_PATIENCE_FOR_GROUPS = 1.0
"""A stop is repeated, and jobs of others wait for it."""


class LocalEngine:
    """Workers as processes of this machine, or of the machines of other servers of the party."""

    def __init__(
        self, spawner_wakeup: socket.socket | None = None, groups: Groups | None = None, *, sees_signs: bool = False
    ) -> None:
        """`sees_signs`: the folders of workers are shared with other machines, whose runners show signs of life."""
        self._spawner_wakeup = spawner_wakeup
        self._groups = groups
        self._signs = SeenSigns() if sees_signs else None

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
        if (end := _ended(folder)) is not None:
            self._forget_signs(folder)
            return end
        if self._signs is not None and (started := _elsewhere(folder)) is not None:
            return self._seen_by_signs(self._signs, folder, started)
        return _living(folder) or _gone(folder)

    def _forget_signs(self, folder: Path) -> None:
        if self._signs is not None:
            self._signs.forget(folder)

    def _seen_by_signs(self, signs: SeenSigns, folder: Path, started: Started) -> Observation:
        """Return the state of a worker of another machine: no process number means anything here."""
        worker = started.worker if started.runner.pid else None
        if not signs.are_missing(folder):
            return Observation("running" if worker else "created", worker)
        # A machine that only slept may come back: then the runner finds this, and ends its worker.
        _stop_request(folder, _GRACE_OF_LOST)
        signs.forget(folder)
        return _ended(folder) or Observation("lost", worker, None, read_json(folder / RESULT))

    def stop(self, folder: Path, grace_seconds: float) -> bool:
        """Ask a worker to end; one that has not started never starts then. Repeat the call until the worker has ended.

        Returns True if this call has decided that the worker never starts; then no runner reports its end."""
        if (folder / EXIT).exists():
            return False
        folder.mkdir(parents=True, exist_ok=True)
        pending = _stop_request(folder, grace_seconds)
        if never_start(folder, Exit(None, None, "stopped")):
            return True
        # Without runner.json there is no process to signal: the runner writes it first, and then reads stop.json.
        started = Started.read(folder)
        if started is not None and started.is_elsewhere and self._signs is not None:
            return False        # its runner looks every few seconds
        if started and not started.runner.send(signal.SIGTERM):
            self._end_survivors(folder, started, pending)
        return False

    def _end_survivors(self, folder: Path, started: Started, pending: Stop) -> None:
        """Send SIGTERM, and SIGKILL once the grace is over, as the runner would have done."""
        is_over = time.monotonic() >= pending.asked_at + pending.grace_seconds
        for member in started.survivors():
            ProcessId.seen(member).send(signal.SIGKILL if is_over else signal.SIGTERM)
        if is_over and self._groups:
            self._groups.find(folder.name).end(_PATIENCE_FOR_GROUPS)


def living_workers(jobs_root: Path, engine: LocalEngine | None = None) -> list[Path]:
    """Return the folders below `jobs_root` in which a worker runs, or is about to run; `engine` looks at them."""
    looks = engine or LocalEngine()
    return [folder for folder in _worker_folders(jobs_root) if _is_living(folder, looks)]


def printed_in(folder: Path) -> Mapping[str, Path] | None:
    """Return the files of what the worker of a folder printed, `stdout` and `stderr`; None if it was not launched, or
    if the folder was removed."""
    launch = read_json(folder / LAUNCH) or {}
    found = {stream: launch.get(stream) for stream in ("stdout", "stderr")}
    if not all(isinstance(path, str) and path.startswith("/") and "\0" not in path for path in found.values()):
        return None
    return {stream: Path(str(path)) for stream, path in found.items()}


def _elsewhere(folder: Path) -> Started | None:
    """Return the processes of a worker that a process of another machine has claimed; without numbers if it has not
    started yet. None if it is one of this machine, or nobody has claimed it."""
    started = Started.read(folder)
    if started is not None:
        return started if started.is_elsewhere else None
    return Started(NOBODY, NOBODY) if is_claimed_elsewhere(folder) else None


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
    here = machine_of_processes()
    is_of_this_clock = earlier is not None and earlier.machine in ("", here)
    if earlier and is_of_this_clock and earlier.grace_seconds <= grace_seconds:
        return earlier
    grace = min(grace_seconds, earlier.grace_seconds) if earlier else grace_seconds
    pending = Stop(grace, earlier.asked_at if earlier and is_of_this_clock else time.monotonic(), here)
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


def _is_living(folder: Path, engine: LocalEngine) -> bool:
    if Exit.read(folder) is not None:      # as nearly all have: `observe` would read two more files of each
        return False
    seen = engine.observe(folder)
    if seen.state == "created":
        return claimer(folder) is not None
    return seen.state == "running"
