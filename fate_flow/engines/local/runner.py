"""The runner: parent of one worker, which outlives the server and writes down how the worker ended.

It is a copy of the spawner that sleeps nearly all the time, so it allocates little and collects no garbage: pages
that nobody writes stay shared. It handles no signal, it waits for them (`sigtimedwait`): the end of the worker
and the request to stop it are seen at once, while `stop.json`, deadline and lease are looked at when the sleep is
over.

Numbers of processes are used again, so a signal goes only to what cannot have been replaced: to the worker's
group while its leader has not been reaped, and to own children. As the runner adopts its worker's orphans,
nothing the worker left behind escapes it, in the group or out of it.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fate_flow.core.text.os_errors import os_error_text
from fate_flow.engines.local import proc
from fate_flow.engines.local.child import NICENESS, become_worker, let_go_of_descriptors, reset_signals
from fate_flow.engines.local.output import CapturedOutput
from fate_flow.engines.local.program_order import clear_scratch
from fate_flow.engines.local.wakeup import wake
from fate_flow.engines.local.worker import (
    EXIT,
    LAUNCH,
    RUNNER,
    Cause,
    Exit,
    ProcessId,
    Started,
    Stop,
    WorkerSpec,
    claim,
    write_atomically,
)

WAITED_SIGNALS = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
"""Blocked before the fork that makes a runner, so that none of them is lost or kills it."""
_STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT})
_LONGEST_SLEEP_SECONDS = 5.0
_WRITE_ATTEMPTS = 600


def run_worker(folder: Path, wakeup_fd: int | None = None) -> None:
    """Runs the worker of a folder to its recorded end, unless somebody else has claimed it."""
    wakeup = _RunnerWakeup(folder, wakeup_fd)
    _leave_the_server(wakeup_fd)
    if not claim(folder):
        return
    try:
        end = _run_to_the_end(folder, wakeup)
    except Exception as error:  # noqa: BLE001  # a folder without an end would look like a lost worker
        _kill_descendants()
        what = os_error_text(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        end = Exit(None, None, "not_started", " ".join(f"runner: {what}".split()))
    _record(folder, end)
    wakeup.wake("exited")


class _RunnerWakeup:
    """Tells the server that there is an event of this worker; it need not listen."""

    def __init__(self, folder: Path, descriptor: int | None) -> None:
        self._folder = folder
        self._socket = socket.socket(fileno=descriptor) if descriptor is not None else None

    def wake(self, event: str) -> None:
        if self._socket:
            wake(self._socket, {"worker": str(self._folder), "event": event})


def _leave_the_server(wakeup_fd: int | None) -> None:
    """No session, descriptor, folder or signal of the server reaches this process any more."""
    gc.disable()
    os.setsid()
    proc.yield_to_other_sessions(NICENESS)
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_SIGNALS)
    reset_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)    # a wake-up socket that nobody holds is no reason to die
    let_go_of_descriptors(keep=() if wakeup_fd is None else (wakeup_fd,))
    proc.adopt_orphans()
    proc.set_name("fate-runner")


def _run_to_the_end(folder: Path, wakeup: _RunnerWakeup) -> Exit:
    spec = WorkerSpec.from_json(folder, (folder / LAUNCH).read_text())
    if Stop.read(folder):
        return Exit(None, None, "stopped")
    output = _captured(spec) if spec.output_max_bytes else None
    pid, report = _start(spec, output)
    wakeup.wake("started")
    cause = _Watch(spec, pid).wait()
    status = _clear_away(pid)
    if output:
        output.finish()
    clear_scratch(folder)
    message = os.read(report, 1000).decode(errors="replace")
    if message:
        return Exit(None, None, "not_started", message)
    if status.si_code == os.CLD_EXITED:
        return Exit(status.si_status, None, cause)
    return Exit(None, status.si_status, cause)


def _captured(spec: WorkerSpec) -> CapturedOutput:
    return CapturedOutput(spec.stdout, spec.stderr, spec.output_max_bytes, spec.output_setting)


def _start(spec: WorkerSpec, output: CapturedOutput | None) -> tuple[int, int]:
    """The worker's pid, and a descriptor to read in the end why it did not start."""
    barrier, go = os.pipe()
    report, reporter = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go)    # or the barrier would never break when the runner dies
        become_worker(spec, barrier, reporter, output.writers if output else ())
    os.close(barrier)
    os.close(reporter)
    if output:
        output.begin()
    try:
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)    # the child does the same; whoever is first
        started = Started(ProcessId.of(os.getpid()), ProcessId.of(pid))
        write_atomically(spec.folder / RUNNER, started.to_json())
        with suppress(BrokenPipeError):    # killed at the barrier
            os.write(go, b"!")
    finally:
        os.close(go)
    return pid, report


class _Watch:
    """Waits for the end of a worker and brings it about when it is due."""

    def __init__(self, spec: WorkerSpec, pid: int) -> None:
        now = time.monotonic()
        self._spec = spec
        self._pid = pid
        self._deadline = now + spec.timeout_seconds if spec.timeout_seconds > 0 else None
        self._lease = _Lease(spec.lease_file, spec.lease_seconds, now)
        self._ending: _Ending | None = None

    def wait(self) -> Cause:
        """Why the worker ended; its leader is dead and not yet reaped, the group may have others."""
        asked = False
        while not self._is_over():
            self._check(asked, time.monotonic())
            got = signal.sigtimedwait(WAITED_SIGNALS, self._sleep_seconds(time.monotonic()))
            asked = got is not None and got.si_signo in _STOP_SIGNALS
        return self._ending.cause if self._ending else "exited"

    def _is_over(self) -> bool:
        """The leader ended; those it left behind have the rest of a grace that began, else none."""
        if not _has_ended(self._pid):
            return False
        has_grace = self._ending is not None and time.monotonic() < self._ending.kill_at
        return not (has_grace and _has_others(self._pid))

    def _check(self, asked: bool, now: float) -> None:
        stop = Stop.read(self._spec.folder)
        if self._ending is None:
            self._end_if_due(asked, stop, now)
        elif stop:
            self._ending.shorten(stop.grace_seconds)
        if self._ending and now >= self._ending.kill_at:
            os.killpg(self._pid, signal.SIGKILL)

    def _end_if_due(self, asked: bool, stop: Stop | None, now: float) -> None:
        cause = self._cause(asked or stop is not None, now)
        if cause is None:
            return
        self._ending = _Ending(cause, now, stop.grace_seconds if stop else self._spec.grace_seconds)
        os.killpg(self._pid, signal.SIGTERM)

    def _cause(self, asked: bool, now: float) -> Cause | None:
        if asked:
            return "stopped"
        if self._deadline is not None and now >= self._deadline:
            return "timeout"
        return "server_lost" if self._lease.is_over(now) else None

    def _sleep_seconds(self, now: float) -> float:
        due = self._ending.kill_at if self._ending else self._deadline
        longest = min(_LONGEST_SLEEP_SECONDS, self._lease.check_seconds)
        # What is overdue has had its SIGKILL and can only be waited for.
        return min(longest, due - now) if due is not None and due > now else longest


@dataclass
class _Ending:
    """A worker on its way out: since when, and until when it may do so by itself."""

    cause: Cause
    began: float
    grace_seconds: float
    kill_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.kill_at = self.began + self.grace_seconds

    def shorten(self, grace_seconds: float) -> None:
        """A second request to stop may shorten the grace, never prolong it."""
        self.kill_at = min(self.kill_at, self.began + grace_seconds)


class _Lease:
    """Over when the server has not rewritten its lease file for so long, on this process's own clock."""

    def __init__(self, file: Path | None, seconds: float, now: float) -> None:
        self._file = file if seconds > 0 else None
        self._seconds = seconds
        self._seen = self._read()
        self._since = now
        self.check_seconds = seconds / 4 if self._file else _LONGEST_SLEEP_SECONDS

    def is_over(self, now: float) -> bool:
        if self._file is None:
            return False
        content = self._read()
        if content is not None and content != self._seen:
            self._seen, self._since = content, now
        return now - self._since >= self._seconds

    def _read(self) -> bytes | None:
        """A file that cannot be read counts as not rewritten."""
        with suppress(OSError):
            return self._file.read_bytes() if self._file else None
        return None


def _has_ended(leader: int) -> bool:
    """Reaps adopted orphans but leaves the leader: while unreaped it reserves the number of the group."""
    while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if dead.si_pid == leader:
            return True
        os.waitpid(dead.si_pid, 0)
    return False


def _has_others(leader: int) -> bool:
    """Whether the group of the dead leader has somebody who had the SIGTERM too and may need a moment."""
    stats = (proc.read_stat(pid) for pid in proc.own_children())
    return any(stat is not None and stat.group == leader and stat.is_running for stat in stats)


def _clear_away(leader: int) -> os.waitid_result:
    """Kills what the dead leader left, and returns how the leader ended when nothing is left."""
    status = os.waitid(os.P_PID, leader, os.WEXITED | os.WNOWAIT)
    assert status is not None
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)    # all at once, so that no fork slips through
    with suppress(ChildProcessError):
        while True:
            os.waitid(os.P_PGID, leader, os.WEXITED)    # a parent that goes leaves its children to us first
    _kill_descendants()
    return status


def _kill_descendants() -> None:
    """Ends what went to a group or session of its own; each dead one hands us its children."""
    while children := proc.own_children():
        for pid in children:
            with suppress(PermissionError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _record(folder: Path, end: Exit) -> None:
    """Tries for ten minutes when the disk is full: work must not be lost for want of a line."""
    for _ in range(_WRITE_ATTEMPTS):
        try:
            write_atomically(folder / EXIT, end.to_json())
        except FileNotFoundError:
            return    # the folder has been removed; nobody will ask
        except OSError:
            time.sleep(1)
        else:
            return
