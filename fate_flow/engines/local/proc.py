"""What Linux says about processes, and the few things we ask of it for ourselves."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Stat:
    """The fields of /proc/PID/stat that tell one process from another."""

    pid: int
    state: str
    group: int
    session: int
    started: int    # clock ticks since boot

    @property
    def is_running(self) -> bool:
        return self.state not in "ZX"


def read_stat(pid: int) -> Stat | None:
    """None when there is no such process."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # A process may call itself ") R 1": only what follows the last bracket can be trusted.
    fields = line[line.rindex(b")") + 2:].split()
    return Stat(pid, fields[0].decode(), int(fields[2]), int(fields[3]), int(fields[19]))


def running_in_session(session: int) -> list[Stat]:
    """Every running process of a session; costs a look at each process of the machine."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    stats = (read_stat(pid) for pid in pids)
    return [stat for stat in stats if stat and stat.session == session and stat.is_running]


def own_children() -> list[int]:
    """The children of this single-threaded process, dead ones too; none where the kernel has no list."""
    pid = os.getpid()
    with suppress(FileNotFoundError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def adopt_orphans() -> None:
    """From now on descendants that lose their parent become children of this process."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """From now on this process is killed when its parent, the process of this number, ends; at once when it has."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def yield_to_other_sessions(niceness: int) -> None:
    """Let this session weigh that much less than others, for a scheduler that shares the processor out by session
    (autogroups): there a process's own niceness counts only among those of its session."""
    with suppress(OSError):     # without autogroups; or asked too often in a moment, as the kernel bounds it for users
        Path("/proc/self/autogroup").write_text(str(niceness))


def set_name(name: str) -> None:
    """What `ps -o comm` and `top` call this process; 15 characters."""
    _LIBC.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
