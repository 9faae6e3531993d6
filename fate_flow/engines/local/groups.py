"""Groups of processes with limits (cgroups): one for each worker, below one group of this server.

The kernel counts all processes of a group, whatever they fork, and no signal or session leads out of it. So a group
holds a worker to its memory, cores and number of processes, and nothing in it survives `end`. Version 2 of cgroups has
all limits in one tree; version 1 has a tree for each (docs/explanation/limits.md).

The server's group is there as long as a worker is: who makes the first worker's group makes it, who removes the last
one removes it. So a server that was killed leaves none without a worker.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

LIMITS = "limits.json"                  # in the folder `run` of a home: the groups that the server has found
_PERIOD_MICROSECONDS = 100_000
_MEGABYTE = 1024 * 1024
_NEARLY_ALL = 15 / 16
_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.01
_ATTEMPTS = 50
_REMOVED = (errno.ENOENT, errno.ENODEV, errno.EEXIST, errno.EINVAL)
"""Errors of a group that was removed meanwhile: ENODEV is that of a file that was open, EEXIST of a folder that was
there when it was to be made, but not when it was looked at, and EINVAL of the second limit of memory, if the group was
made again since the first one was set: neither may be below the other."""


@dataclass(frozen=True)
class Limits:
    """What one worker may use; 0: no limit."""

    cores: int = 0
    memory_mb: int = 0
    processes: int = 0      # and threads


@dataclass(frozen=True)
class Groups:
    """The groups of a server's workers."""

    version: int                        # of cgroups: 1 or 2
    trees: Mapping[str, str]            # memory, pids and cpu, as far as there are: the folder above the server's group
    name: str                           # of the server's group; no other server of this machine has it
    memory_bytes: int = 0               # of all workers together; 0: no limit

    def begin(self, worker_id: str, limits: Limits) -> Group:
        """Make the group of a worker. Raises OSError."""
        group = self.find(worker_id)
        try:
            self._make(group)
            group.limit(limits)
        except OSError:
            with suppress(OSError):
                group.end()
            raise
        return group

    def find(self, worker_id: str) -> Group:
        """Return the group of a worker, whether it exists or not."""
        folders = {controller: Path(tree) / self.name / worker_id for controller, tree in self.trees.items()}
        return Group(self.version, folders)

    def names(self) -> set[str]:
        """Return the ids of the workers that have a group."""
        found = set()
        for tree in set(self.trees.values()):
            with suppress(OSError), os.scandir(Path(tree) / self.name) as entries:
                found |= {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        return found

    def to_json(self) -> str:
        return json.dumps({"version": self.version, "trees": dict(self.trees), "name": self.name,
                           "memory_bytes": self.memory_bytes})

    @classmethod
    def read(cls, run_dir: Path) -> Self | None:
        """Return the groups that the server has found at its start; None if it has none."""
        with suppress(FileNotFoundError):
            value: dict[str, Any] = json.loads((run_dir / LIMITS).read_text())
            return cls(value["version"], value["trees"], value["name"], value["memory_bytes"])
        return None

    def _make(self, group: Group) -> None:
        for left in reversed(range(_ATTEMPTS)):
            try:
                for folder in group.folders:
                    folder.parent.mkdir(exist_ok=True)
                    folder.mkdir(exist_ok=True)
                # Now nobody removes the server's group. What was set before may have been set for one that was removed.
                self._limit_server_group()
            except OSError as error:    # another worker was the last one, and has just removed the server's group
                if error.errno not in _REMOVED or not left:
                    raise
            else:
                return

    def _limit_server_group(self) -> None:
        if self.version == 2:
            for tree in sorted(set(self.trees.values())):
                enabled = " ".join(f"+{one}" for one in sorted(self.trees))
                _write(Path(tree) / self.name / "cgroup.subtree_control", enabled)
        if self.memory_bytes and "memory" in self.trees:
            try:
                _limit_memory(self.version, Path(self.trees["memory"]) / self.name, self.memory_bytes)
            except OSError as error:        # workers use more than a limit that was lowered: a later worker sets it
                if error.errno != errno.EBUSY:
                    raise


@dataclass(frozen=True)
class Group:
    """The group of one worker."""

    version: int
    by_controller: Mapping[str, Path]
    folders: tuple[Path, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folders", tuple(sorted(set(self.by_controller.values()))))

    def limit(self, limits: Limits) -> None:
        """Set the limits, as far as there is a controller for them. Raises OSError."""
        memory, pids, cpu = (self.by_controller.get(name) for name in ("memory", "pids", "cpu"))
        if memory and self.version == 2:
            _write(memory / "memory.oom.group", "1")    # all of the worker is killed, not one process of it
        if memory and limits.memory_mb:
            _limit_memory(self.version, memory, limits.memory_mb * _MEGABYTE)
        if pids and limits.processes:
            _write(pids / "pids.max", str(limits.processes))
        if cpu and limits.cores:
            quota = limits.cores * _PERIOD_MICROSECONDS
            if self.version == 2:
                _write(cpu / "cpu.max", f"{quota} {_PERIOD_MICROSECONDS}")
            else:
                _write(cpu / "cpu.cfs_period_us", str(_PERIOD_MICROSECONDS))
                _write(cpu / "cpu.cfs_quota_us", str(quota))

    def enter(self) -> None:
        """Move this process into the group. Raises OSError."""
        for folder in self.folders:
            _write(folder / "cgroup.procs", "0")

    def kills(self) -> int:
        """Return how many processes of the group were killed because there was too little memory."""
        memory = self.by_controller.get("memory")
        file = "memory.oom_control" if self.version == 1 else "memory.events"
        return _count(memory / file, "oom_kill") if memory else 0

    def has_reached_its_memory(self, memory_mb: int) -> bool:
        """Return whether the group has needed more than its own limit of memory."""
        memory = self.by_controller.get("memory")
        if memory is None:
            return False
        if self.version == 1:
            # Not memory.failcnt, which newer kernels leave at 0. Memory is charged in portions: the peak may be lower.
            return _number(memory / "memory.max_usage_in_bytes") >= memory_mb * _MEGABYTE * _NEARLY_ALL
        return _count(memory / "memory.events", "oom") > 0

    def kill(self, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        """Kill all processes of the group, and of groups that they have made in it; wait until none is left that runs.
        """
        for folder in self.folders:
            with suppress(OSError):
                _write_existing(folder / "cgroup.kill", "1")
                continue
            if folder == self.by_controller.get("pids"):
                with suppress(OSError):         # from here on no fork in it succeeds
                    _write_existing(folder / "pids.max", "0")
        _until(self._is_empty_once_killed, patience_seconds)

    def end(self, patience_seconds: float = _PATIENCE_SECONDS) -> bool:
        """Kill all processes of the group and remove it, and the server's group, if no other worker has one; return
        whether it is gone. Raises OSError.

        A process in an uninterruptible wait may take longer than anybody waits for it: call this again later."""
        if any(folder.exists() for folder in self.folders):
            self.kill(patience_seconds)
        is_gone = _until(self._is_removed, patience_seconds)
        for folder in self.folders:
            with suppress(OSError):             # in use by another worker
                folder.parent.rmdir()
        return is_gone

    def _is_removed(self) -> bool:
        left = [one for folder in self.folders for one in _with_groups_in(folder) if not _is_removed(one)]
        return not left

    def _processes(self) -> set[int]:
        return {pid for folder in self.folders for one in _with_groups_in(folder) for pid in _processes(one)}

    def _is_empty_once_killed(self) -> bool:
        listed = self._processes()
        handles = {}
        for pid in listed:
            with suppress(OSError):
                handles[pid] = os.pidfd_open(pid)
        try:
            # Listed again with the handles open: a number that is reused since the first look is not in the group.
            again = self._processes()
            for pid in again & handles.keys():
                with suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(handles[pid], signal.SIGKILL)
        finally:
            for handle in handles.values():
                os.close(handle)
        return not again


def _limit_memory(version: int, folder: Path, size: int) -> None:
    """Set the limit of a group's memory. What it needs beyond is not swapped out."""
    if version == 1:
        both = folder / "memory.memsw.limit_in_bytes"
        try:
            _write(folder / "memory.limit_in_bytes", str(size))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            _write_existing(both, str(size))    # it is never lower than the limit without swap, also not for a moment
            _write(folder / "memory.limit_in_bytes", str(size))
        with suppress(FileNotFoundError):       # a kernel that does not count swapped memory
            _write_existing(both, str(size))
        return
    _write(folder / "memory.max", str(size))
    with suppress(FileNotFoundError):           # a machine without swap
        _write_existing(folder / "memory.swap.max", "0")


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _write_existing(path: Path, text: str) -> None:
    """Write to a file of the kernel; raise FileNotFoundError if it has none of this name."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _with_groups_in(folder: Path) -> list[Path]:
    """Return the group and all groups in it, the innermost first; none if it does not exist."""
    return [Path(one) for one, _, _ in os.walk(folder, topdown=False)]


def _processes(folder: Path) -> list[int]:
    with suppress(OSError):
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    return []


def _count(path: Path, name: str) -> int:
    """Return the number behind a name in a file of the kernel; 0 if there is none."""
    with suppress(OSError, ValueError):
        lines: Iterable[list[str]] = (line.split() for line in path.read_text().splitlines())
        return next((int(line[1]) for line in lines if line and line[0] == name), 0)
    return 0


def _number(path: Path) -> int:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return 0


def _is_removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
            raise
        return False
    return True


def _until(is_done: Callable[[], bool], seconds: float) -> bool:
    """Repeat until it is done; False if it takes longer."""
    deadline = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True
