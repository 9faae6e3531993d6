"""Linux functions: information about processes, and settings of this process."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_M_ARENA_MAX = -8      # mallopt(3)
_MOST_STAT = 4096      # 52 numbers and a name
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Stat:
    """The fields of /proc/PID/stat that identify a process."""

    pid: int
    state: str      # of the main thread
    group: int
    session: int
    threads: int
    started: int    # clock ticks since boot

    @property
    def is_running(self) -> bool:
        """False for a dead process that its parent has not waited for. After SIGKILL the main thread may end before the
        others: while these end, the process still has its open files and locks."""
        return self.state not in "ZX" or self.threads > 1


def read_stat(pid: int) -> Stat | None:
    """Return the fields of a process; None if it does not exist."""
    try:
        line = _contents(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # A process may have the name ") R 1", so only the text after the last bracket is reliable.
    fields = line[line.rindex(b")") + 2:].split(maxsplit=20)
    return Stat(pid, fields[0].decode(), int(fields[2]), int(fields[3]), int(fields[17]), int(fields[19]))


@dataclass(frozen=True)
class Use:
    """What a process uses: processor time, with that of its children that it has waited for, and resident memory."""

    ticks: int
    pages: int


def read_use(pid: int) -> Use | None:
    """Return what a process uses; None if it does not exist, or if this user may not see it."""
    try:
        line = _contents(f"/proc/{pid}/stat")
    except OSError:
        return None
    fields = line[line.rindex(b")") + 2:].split(maxsplit=22)
    return Use(sum(map(int, fields[11:15])), int(fields[21]))


def _contents(path: str) -> bytes:
    """Return what a short file contains. Without a file object, since all processes of a machine are read like this."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(number, _MOST_STAT)
    finally:
        os.close(number)


def running_in_session(session: int) -> list[Stat]:
    """Return every running process of a session. This reads each process of the machine."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    stats = (read_stat(pid) for pid in pids)
    return [stat for stat in stats if stat and stat.session == session and stat.is_running]


def own_children() -> list[int]:
    """Return the children of this single-threaded process, also dead ones; [] if the kernel has no such list."""
    pid = os.getpid()
    with suppress(FileNotFoundError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def descendants(root: int = 0) -> list[int]:
    """Return the processes below this one, or below another, also dead ones; any thread may ask. [] if the kernel has
    no such lists."""
    found, parents = list[int](), [root or os.getpid()]
    while parents:
        children = [child for parent in parents for child in _children_of(parent)]
        found += children
        parents = children
    return found


def _children_of(pid: int) -> list[int]:
    """Return the children of all threads of a process, which may be gone."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def adopt_orphans() -> None:
    """Make this process the parent of all descendants that lose their parent."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have this process get a signal when its parent, the process `parent`, ends; at once if it has ended already."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


@contextmanager
def blocked(signals: Collection[signal.Signals]) -> Iterator[None]:
    """Let these signals wait until the end of the block. A process that is forked in it has them blocked, too."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def yield_to_other_sessions(niceness: int) -> None:
    """Set the niceness of this session, for a kernel scheduler that shares processors by session (autogroups). There,
    the niceness of a process only counts inside its session."""
    with suppress(OSError):     # no autogroups; or more changes in a moment than the kernel allows for users
        Path("/proc/self/autogroup").write_text(str(niceness))


def take_variable(name: str) -> str:
    """Return a variable of the environment, and remove it, also from what `/proc/PID/environ` shows of this process.
    Raises KeyError."""
    value = os.environ[name]
    _LIBC.getenv.restype = ctypes.c_void_p
    at = _LIBC.getenv(os.fsencode(name))
    del os.environ[name]                # its text stays where the process got it
    if at:
        ctypes.memset(at, 0, len(os.fsencode(value)))
    return value


def hide_memory() -> None:
    """Let no process of the same user read the memory or the descriptors of this one, or trace it."""
    _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def set_name(name: str) -> None:
    """Set the name of this process in `ps -o comm` and `top`; at most 15 characters."""
    _LIBC.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


_HOLES = (*range(65_536, 1_024, -256), *range(1_024, 8, -16))
"""The sizes in bytes of free places that are taken, the large ones first: what malloc keeps apart from each other."""


def settle_memory() -> None:
    """Prepare the memory of this process for forks that share it.

    The garbage collector leaves alone what is here, since a collection writes to every object that it visits; and what
    imports have freed goes back to the system (glibc only)."""
    gc.collect()
    gc.freeze()
    if hasattr(_LIBC, "malloc_trim"):
        _LIBC.malloc_trim(0)
        _fill_holes()


def _fill_holes() -> None:
    """Take the free places that are strewn over the heap from malloc for ever: some 300 KB.

    A fork would put its first objects there, one on each of a thousand pages, and have a copy of every such page."""
    _LIBC.sbrk.restype = _LIBC.malloc.restype = ctypes.c_void_p
    end = _LIBC.sbrk(0)
    for size in _HOLES:
        while (place := _LIBC.malloc(size) or end) < end:
            pass
        if place != end:
            _LIBC.free(ctypes.c_void_p(place))


def share_arenas() -> None:
    """Let all threads of this process, and of the processes that it forks, take memory from two arenas (glibc only).

    By default nearly every thread has one of its own, up to eight for each processor, and keeps what was once in use
    there: Python's threads run one at a time and would not gain from more. An operator's MALLOC_ARENA_MAX counts."""
    if "MALLOC_ARENA_MAX" not in os.environ and hasattr(_LIBC, "mallopt"):
        _LIBC.mallopt(_M_ARENA_MAX, 2)
