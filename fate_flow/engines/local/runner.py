"""The runner: the parent of one worker. It outlives the server and records how the worker ended.

It is a fork of the spawner that sleeps nearly all the time. It allocates little and collects no garbage, so that
unwritten pages stay shared. It has no signal handlers; it waits for signals (`sigtimedwait`). It notices the end of the
worker and a stop signal at once; it checks `stop.json`, deadline and lease after each sleep.

Process numbers are reused, so a signal is sent only where the number cannot have been reused: to the worker's group
while its leader has not been reaped, and to own children. The runner adopts its worker's orphans, so no process that
the worker left behind escapes it, whether it is in the group or not.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from fate_flow.components.base.own_servers import machine_of_processes
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.engines.local import proc
from fate_flow.engines.local.child import NICENESS, become_worker, let_go_of_descriptors, reset_signals
from fate_flow.engines.local.contents import Reader
from fate_flow.engines.local.groups import Group, Groups
from fate_flow.engines.local.lease import Lease, killed_in_time
from fate_flow.engines.local.output import CapturedOutput
from fate_flow.engines.local.program_preparation import clear_scratch
from fate_flow.engines.local.program_user import take_back
from fate_flow.engines.local.signs import ShownSign
from fate_flow.engines.local.usage import UsageLog
from fate_flow.engines.local.wakeup import wake
from fate_flow.engines.local.worker import (
    ARRIVED,
    EXIT,
    GO,
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
"""Signals that are blocked before the fork of a runner, so that none is lost or kills it."""
_STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT})
_LONGEST_SLEEP_SECONDS = 5.0
_WRITE_ATTEMPTS = 600
_GATHER_POLL_SECONDS = 0.3


def run_worker(
    folder: Path, wakeup_fd: int | None = None, groups: Groups | None = None,
    prepare: Callable[[], None] | None = None, *, was_in_server: bool = False,
) -> None:  # fmt: skip
    """Run the worker of a folder until its end is recorded, unless another process has claimed it.

    `groups`: where the worker gets a group with limits; None: this server has none. `prepare`: what changes the folder
    for this machine, once it is claimed. `was_in_server`: until now this process was in the group of the server."""
    wakeup = _RunnerWakeup(folder.name, wakeup_fd)
    _leave_the_server(wakeup_fd)
    if was_in_server:
        _forget_stop_signals()
    began = time.monotonic()         # the folder may hang from here on
    if not claim(folder):
        return
    with ExitStack() as until_recorded:
        try:
            if prepare is not None:
                prepare()
            end = _run_to_the_end(folder, began, wakeup, groups, until_recorded)
        except Exception as error:  # noqa: BLE001  # without a recorded end the worker would count as lost
            _kill_descendants()
            what = os_error_text(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
            end = Exit(None, None, "not_started", " ".join(f"runner: {what}".split()))
        _record(folder, end)
    wakeup.wake("exited")


class _RunnerWakeup:
    """Tells the server about events of this worker. The server need not listen."""

    def __init__(self, worker_id: str, descriptor: int | None) -> None:
        self._worker_id = worker_id
        self._socket = socket.socket(fileno=descriptor) if descriptor is not None else None

    def wake(self, event: str) -> None:
        if self._socket:
            wake(self._socket, {"worker": self._worker_id, "event": event})


def _leave_the_server(wakeup_fd: int | None) -> None:
    """Detach this process from the server's session, descriptors, folder and signals."""
    gc.disable()
    os.setsid()
    proc.yield_to_other_sessions(NICENESS)
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_SIGNALS)
    reset_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)    # a wake-up socket without a reader must not kill the runner
    let_go_of_descriptors(keep=() if wakeup_fd is None else (wakeup_fd,))
    proc.adopt_orphans()
    proc.set_name("fate-runner")


def _forget_stop_signals() -> None:
    """Take the signals that came since the fork: they were for the group of the server, as Ctrl-C is, and not for a
    worker that nobody had claimed."""
    while signal.sigtimedwait(_STOP_SIGNALS, 0) is not None:
        pass


def _run_to_the_end(
    folder: Path, began: float, wakeup: _RunnerWakeup, groups: Groups | None, until_recorded: ExitStack
) -> Exit:  # fmt: skip
    spec = WorkerSpec.from_json(folder, (folder / LAUNCH).read_text())
    lease = Lease(spec.lease_file, spec.lease_seconds, spec.grace_seconds, began)
    sign = ShownSign(folder, spec.sign_seconds > 0, time.monotonic())
    sign.show(time.monotonic())
    if Stop.read(folder):
        return Exit(None, None, "stopped")
    if spec.gather_seconds is not None and (end := _await_others(spec, spec.gather_seconds, sign, lease)) is not None:
        return end
    group = groups.begin(folder.name, spec.limits) if groups else None
    try:
        return _run_in(group, spec, wakeup, sign, lease, until_recorded)
    finally:
        if group:
            with suppress(OSError):      # how the worker ended counts; the spawner's sweep removes the group
                group.end()


def _await_others(spec: WorkerSpec, longest: float, sign: ShownSign, lease: Lease) -> Exit | None:
    """Wait until the server says that all workers of the gang are there; return the end of this one if it never starts.

    `longest`: seconds of this process's own clock; 0: no limit."""
    begun = time.monotonic()
    write_atomically(spec.folder / ARRIVED, "", is_durable=False)
    while not (spec.folder / GO).exists():
        now = time.monotonic()
        sign.show(now)
        if Stop.read(spec.folder):
            return Exit(None, None, "stopped")
        if lease.is_over(now) or sign.is_overdue(now):
            return Exit(None, None, "server_lost")
        if 0 < longest <= now - begun:
            return Exit(None, None, "not_placed", f"waited {longest:g} s for the others of its gang")
        got = signal.sigtimedwait(WAITED_SIGNALS, _GATHER_POLL_SECONDS)
        if got is not None and got.si_signo in _STOP_SIGNALS:
            return Exit(None, None, "stopped")
    return None


def _run_in(
    group: Group | None, spec: WorkerSpec, wakeup: _RunnerWakeup, sign: ShownSign, lease: Lease,
    until_recorded: ExitStack,
) -> Exit:  # fmt: skip
    contents = Reader(spec.folder) if spec.reads_contents else None
    if contents and spec.way == "exec":
        contents.read_program(spec.argv)
    output = _captured(spec) if spec.output_max_bytes else None
    pid, report, has_begun = _start(spec, output, group, lease)
    until_recorded.enter_context(sign.shown_every(spec.sign_seconds))
    wakeup.wake("started")
    usage = UsageLog(spec.folder, time.monotonic())
    with killed_in_time(lambda: min(lease.lost_at, sign.kill_at), pid, lease.check_seconds) as was_late:
        cause = _Watch(spec, pid, group, sign, lease, usage).wait()
    if was_late.is_set() or not has_begun:
        cause = "server_lost"
    if group:
        group.kill()     # first, because a fork bomb outside of the worker's session has no end otherwise
    status = _clear_away(pid)
    usage.finish(time.monotonic())
    if output:
        output.finish()
    clear_scratch(spec.folder)
    take_back(spec.folder)
    message = os.read(report, 1000).decode(errors="replace")
    if message:
        return Exit(None, None, "not_started", message)
    found = contents.at_the_end() if contents else ()
    if status.si_code == os.CLD_EXITED:
        end = Exit(status.si_status, None, cause, contents=found)
    else:
        end = Exit(None, status.si_status, cause, contents=found)
    return _out_of_memory(end, group, spec) if group and group.kills() else end


def _out_of_memory(end: Exit, group: Group, spec: WorkerSpec) -> Exit:
    """Return the end of a worker of which processes were killed for lack of memory; it may have ended well without
    them, or of something else."""
    if end.cause != "exited" or end.exit_code == 0:
        return end
    size = spec.limits.memory_mb
    if size and group.has_reached_its_memory(size):
        text = f"used more than its {size} MB (task_memory)"
    else:
        text = "was killed because this machine had no memory left for it (worker_limits.memory, or the machine's own)"
    return replace(end, cause="out_of_memory", message=text)


def _captured(spec: WorkerSpec) -> CapturedOutput:
    return CapturedOutput(spec.stdout, spec.stderr, spec.output_max_bytes, spec.output_setting)


def _start(
    spec: WorkerSpec, output: CapturedOutput | None, group: Group | None, lease: Lease
) -> tuple[int, int, bool]:  # fmt: skip
    """Start the worker; return its pid, a descriptor with the reason if it does not start, and whether it was let go.
    After a hang of the folder, another attempt may run already: then it is not."""
    barrier, go = os.pipe()
    report, reporter = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go)    # otherwise the worker would wait for ever if the runner dies
        become_worker(spec, barrier, reporter, output.writers if output else (), group)
    os.close(barrier)
    os.close(reporter)
    if output:
        output.begin()
    try:
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)    # the child does the same; either may be first
        started = Started(ProcessId.of(os.getpid()), ProcessId.of(pid), machine_of_processes())
        write_atomically(spec.folder / RUNNER, started.to_json())
        may_begin = not lease.is_over(time.monotonic())
        with suppress(BrokenPipeError):    # killed at the barrier
            os.write(go, b"!" if may_begin else b"")
    finally:
        os.close(go)
    return pid, report, may_begin


class _Watch:
    """Waits for the end of a worker, and ends it when that is due."""

    def __init__(
        self, spec: WorkerSpec, pid: int, group: Group | None, sign: ShownSign, lease: Lease, usage: UsageLog
    ) -> None:
        now = time.monotonic()
        self._usage = usage
        self._group = group
        self._spec = spec
        self._sign = sign
        self._pid = pid
        self._deadline = now + spec.timeout_seconds if spec.timeout_seconds > 0 else None
        self._lease = lease
        self._ending: _Ending | None = None

    def wait(self) -> Cause:
        """Wait for the end, and return its cause. Then the leader is dead but not reaped; its group may have others."""
        asked = False
        while not self._is_over():
            self._check(asked, time.monotonic())
            self._usage.look(time.monotonic())
            got = signal.sigtimedwait(WAITED_SIGNALS, self._sleep_seconds(time.monotonic()))
            asked = got is not None and got.si_signo in _STOP_SIGNALS
        if self._ending:
            return self._ending.cause
        # An engine that signals all processes, such as Ray, may have ended the worker before this process heard of it.
        return "stopped" if Stop.read(self._spec.folder) else "exited"

    def _is_over(self) -> bool:
        """Return whether the leader has ended; if a grace time runs, the rest of the group has until its end."""
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
        if self._group and self._group.kills():
            self._group.kill()      # version 1 kills one process of the group, and the others would wait for it
        if self._ending and now >= min(self._ending.kill_at, self._sign.kill_at):
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
        return "server_lost" if self._lease.is_over(now) or self._sign.is_overdue(now) else None

    def _sleep_seconds(self, now: float) -> float:
        due = self._ending.kill_at if self._ending else self._deadline
        longest = min(_LONGEST_SLEEP_SECONDS, self._lease.check_seconds, self._spec.sign_seconds or math.inf)
        # An overdue worker has got its SIGKILL; it remains to wait.
        return min(longest, due - now) if due is not None and due > now else longest


@dataclass
class _Ending:
    """A worker that is told to end: why, since when, and until when it may do so by itself."""

    cause: Cause
    began: float
    grace_seconds: float
    kill_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.kill_at = self.began + self.grace_seconds

    def shorten(self, grace_seconds: float) -> None:
        """Apply another request to stop, which may shorten the grace, but never prolong it."""
        self.kill_at = min(self.kill_at, self.began + grace_seconds)


def _has_ended(leader: int) -> bool:
    """Return whether the leader has ended. Adopted orphans are reaped; the leader is not, so that the number of the
    group stays reserved."""
    while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if dead.si_pid == leader:
            return True
        os.waitpid(dead.si_pid, 0)
    return False


def _has_others(leader: int) -> bool:
    """Return whether the group of the dead leader has other processes; they got the SIGTERM, too, and may need time."""
    stats = (proc.read_stat(pid) for pid in proc.own_children())
    return any(stat is not None and stat.group == leader and stat.is_running for stat in stats)


def _clear_away(leader: int) -> os.waitid_result:
    """Kill all processes that the dead leader left, and return how the leader ended."""
    status = os.waitid(os.P_PID, leader, os.WEXITED | os.WNOWAIT)
    assert status is not None
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)    # all at once, so that no fork escapes
    with suppress(ChildProcessError):
        while True:
            os.waitid(os.P_PGID, leader, os.WEXITED)    # the children of a dead parent are ours before it is reaped
    _kill_descendants()
    return status


def _kill_descendants() -> None:
    """Kill descendants in other groups or sessions; the children of each dead one become children of this process."""
    while children := proc.own_children():
        for pid in children:
            with suppress(PermissionError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _record(folder: Path, end: Exit) -> None:
    """Write the end; if the disk is full, try for ten minutes, so that the work is not lost."""
    for _ in range(_WRITE_ATTEMPTS):
        try:
            write_atomically(folder / EXIT, end.to_json())
        except FileNotFoundError:
            return    # the folder was removed; the end is no longer needed
        except OSError:
            time.sleep(1)
        else:
            return
