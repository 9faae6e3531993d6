"""Strays: processes of workers whose runner is gone. A program may leave its session and kill its runner.

No process of a worker may outlive it, and normally the runner ensures that. If the runner is dead, the spawner does so
in two ways:

- It adopts: a runner is the spawner's child, so the children of a dead runner become the spawner's, whatever session or
  environment they have. This works for runners that this spawner has forked.
- It looks for `FATE_FLOW_WORKER` in the environment of all processes, at its start and from time to time. This finds
  what runners of an earlier spawner left, also after a restart of the server.

Where workers have groups with limits (`groups.py`), no process leaves its group, so the group of a worker that is over
is killed and removed: for runners of this spawner when it reaps them, for earlier ones at its start and from time to
time.

A worker that still runs without its runner is left alone. When its leader is dead, too, the rest is killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from fate_flow.engines.local import proc
from fate_flow.engines.local.engine import living_workers
from fate_flow.engines.local.groups import Groups
from fate_flow.engines.local.worker import WORKER_VARIABLE, ProcessId, Started, claimer, is_claimed_elsewhere

SWEEP_SECONDS = 10.0
_CALM_SECONDS = 60.0
_PATIENCE_SECONDS = 0.2
"""For the processes of a group that were killed. All launches wait meanwhile, so the next sweep goes on."""
_MARK = f"{WORKER_VARIABLE}=".encode()


class Strays:
    """The spawner's record of its runners, and of the processes that it adopted."""

    def __init__(self, jobs_dir: Path | None = None, groups: Groups | None = None) -> None:
        self._jobs_dir = jobs_dir
        self._groups = groups
        self._left: dict[str, Path | None] = {}      # workers whose group is to be removed once they are over
        self._has_looked = groups is None            # for groups of workers of earlier spawners
        self._runners: dict[int, Path] = {}
        self._adopted: dict[int, Path] = {}

    def watch(self, runner: int, folder: Path) -> None:
        """Note that this child is the runner of the worker in this folder."""
        self._runners[runner] = folder

    def reap(self) -> list[Path]:
        """Reap dead children, end the processes that they left, and return the folders of their workers."""
        dead: dict[int, Path] = {}
        for pid in _dead_children():
            folder = self._runners.pop(pid, None) or self._adopted.pop(pid, None)
            if folder is not None:
                dead[pid] = folder
        if dead:
            self._adopt(dead)
            self._end_adopted()
            for folder in set(dead.values()):
                if not self._is_group_gone(folder.name, folder):
                    self._left[folder.name] = folder
        return list(dead.values())

    def sweep(self) -> float:
        """Kill processes with the mark of a worker that is over. Return the seconds until the next sweep: it reads each
        process of the machine, and without workers only another spawner can have left some."""
        is_over: dict[Path, bool] = {}
        for pid, folder in _marked(self._jobs_dir) if self._jobs_dir else ():
            if folder not in is_over:
                is_over[folder] = not _is_cared_for(folder)
            if is_over[folder]:
                with suppress(ProcessLookupError, PermissionError):
                    ProcessId.of(pid).send(signal.SIGKILL)
        self._end_left_groups()
        has_workers = is_over or self._runners or self._adopted or self._left
        return SWEEP_SECONDS if has_workers else _CALM_SECONDS

    def _end_left_groups(self) -> None:
        if self._groups is not None and self._jobs_dir is not None and not self._has_looked:
            self._has_looked = True
            names = self._groups.names()
            living = {folder.name: folder for folder in living_workers(self._jobs_dir)} if names else {}
            self._left.update((name, living.get(name)) for name in names)
        for worker_id, folder in list(self._left.items()):
            if self._is_group_gone(worker_id, folder):
                del self._left[worker_id]

    def _is_group_gone(self, worker_id: str, folder: Path | None) -> bool:
        """Kill and remove the group of a worker unless somebody cares for it; return whether there is none any more."""
        if self._groups is None:
            return True
        if folder is not None and _is_cared_for(folder):
            return False
        with suppress(OSError):
            return self._groups.find(worker_id).end(_PATIENCE_SECONDS)
        return False

    def _adopt(self, dead: dict[int, Path]) -> None:
        for pid in proc.own_children():
            if pid not in self._runners and pid not in self._adopted:
                self._adopted[pid] = _worker_of(pid, dead)

    def _end_adopted(self) -> None:
        for pid, folder in self._adopted.items():
            if not _is_cared_for(folder):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)      # a child that is not reaped, so its number is not reused


def _dead_children() -> Iterator[int]:
    with suppress(ChildProcessError):
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            yield pid


def _worker_of(pid: int, dead: dict[int, Path]) -> Path:
    """Return the folder of the worker that this process belongs to; one of these dead processes left it."""
    stat = proc.read_stat(pid)
    if stat is not None and stat.session in dead:      # the session of a worker is that of its runner
        return dead[stat.session]
    marked = _mark_of(pid)
    folders: Collection[Path] = dead.values()
    return marked if marked in folders and marked is not None else next(iter(folders))


def _is_cared_for(folder: Path) -> bool:
    """Return whether the runner or the leader of this worker lives, or a process is about to start it."""
    started = Started.read(folder)
    if is_claimed_elsewhere(folder) or (started is not None and started.is_elsewhere):
        return True         # its numbers say nothing here, and its own machine has a spawner that looks
    if started is not None:
        return started.runner.is_alive() or started.worker.is_alive()
    owner = claimer(folder)
    return owner is not None and owner.is_alive()


def _marked(jobs_dir: Path) -> Iterator[tuple[int, Path]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            folder = _mark_of(int(name))
            if folder is not None and folder.is_relative_to(jobs_dir):
                yield int(name), folder


def _mark_of(pid: int) -> Path | None:
    """Return the worker folder in the environment of a process, as of its last exec; None if there is none."""
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(_MARK):
                return Path(os.fsdecode(entry[len(_MARK):]))
    return None
