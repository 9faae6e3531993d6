"""The first steps of a worker process, between the runner's fork and the program of the worker.

Inherited descriptors are not closed, but redirected to /dev/null. An inherited Python object (a log handler, a socket
of the server) may still close its number or write to it, and a free number would soon be that of a data file. The
descriptors are close-on-exec, so a command sees none of them.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from fate_flow.components.providers.program_order import Order
from fate_flow.engines.local import proc
from fate_flow.engines.local.groups import Group, Limits
from fate_flow.engines.local.program_preparation import prepare
from fate_flow.engines.local.sandbox import leave_network
from fate_flow.engines.local.worker import WORKER_VARIABLE, WorkerSpec

COMPONENTS_MAIN = "fate_flow.components.__main__"
NOT_STARTED = 127
NICENESS = 10
"""Workers compute for hours, and must not delay the server, which answers in milliseconds. With this niceness ten
workers weigh about as much as one server. A higher one would starve workers on a machine with other work."""

_MEGABYTE = 1024 * 1024
_SIGNALS = tuple(sorted(signal.valid_signals()))     # made once, before the forks


def become_worker(
    spec: WorkerSpec, barrier: int, report: int, output: tuple[int, ...] = (), group: Group | None = None
) -> NoReturn:
    """Wait for the go-ahead and run the program of the spec; write to `report` what prevents it.

    `output`: the descriptors for stdout and stderr; if empty, the files of the spec are used. `group`: the group with
    the worker's limits; without one, each process is limited for itself."""
    code = NOT_STARTED
    try:
        os.setpgid(0, 0)
        os.nice(NICENESS)
        if os.read(barrier, 1):    # empty: the runner gave up, or is gone
            _settle(spec, report, output)
            if group:
                group.enter()
            limits = Limits() if group else spec.limits
            code = _run_module(spec, report, limits) if spec.way == "fork" else _become(spec, limits)
    except Exception as error:  # noqa: BLE001  # the runner must learn of any error why nothing started
        os.write(report, " ".join(f"{type(error).__name__}: {error}".split())[:500].encode())
    finally:
        os._exit(code & 0xFF)


def let_go_of_descriptors(keep: Collection[int]) -> None:
    """Redirect every open descriptor to /dev/null, except those to keep."""
    null = os.open(os.devnull, os.O_RDWR)
    inherited = {int(name) for name in os.listdir("/proc/self/fd")}
    for number in (inherited | {0, 1, 2}) - {*keep, null}:
        os.dup2(null, number, inheritable=number <= 2)
    if null > 2:
        os.close(null)


def reset_signals() -> None:
    """Reset all signals that the server handles or ignores to their defaults; blocked ones stay blocked."""
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)


def _settle(spec: WorkerSpec, report: int, output: tuple[int, ...]) -> None:
    proc.set_name("fate-worker")
    reset_signals()
    let_go_of_descriptors(keep=(0, 1, 2, report, *output))
    _redirect(Path(os.devnull), 0, os.O_RDONLY)
    for number, descriptor in enumerate(output, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if not output:
        _redirect(spec.stdout, 1, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        _redirect(spec.stderr, 2, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.chdir(spec.cwd)


def _redirect(path: Path, number: int, flags: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, flags, 0o644)
    os.dup2(descriptor, number)
    os.close(descriptor)


def _become(spec: WorkerSpec, limits: Limits) -> NoReturn:
    mark = {WORKER_VARIABLE: str(spec.folder)}
    order = Order.read(spec.folder)
    if order is not None:
        ready = prepare(order, spec.folder)
        if ready.user:
            limit_number(limits)
            ready.user.become()
        program, argv = ready.program, ready.argv
        if ready.sandbox:
            leave_network(ready.env)        # the forwarder has the memory of the spawner, not that of the program
            program, argv = Path(ready.sandbox.bubblewrap), ready.sandbox.arguments(argv, program, ready.env)
        limit_process(limits, inherits=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(program, argv, {**ready.env, **mark})  # noqa: S606  # no shell is the point
    limit_process(limits, inherits=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvpe(spec.argv[0], spec.argv, {**os.environ, **spec.env, **mark})  # noqa: S606  # no shell is the point


def _run_module(spec: WorkerSpec, report: int, limits: Limits) -> int:
    os.environ.update(spec.env)
    limit_process(limits, inherits=True)
    main = importlib.import_module(COMPONENTS_MAIN).main
    os.dup2(0, report, inheritable=False)    # from here on an error is the component's own
    _look_like_a_fresh_python()
    try:
        return _exit_code_of(main, spec.argv)
    finally:
        _flush()


def _look_like_a_fresh_python() -> None:
    gc.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _exit_code_of(main: Callable[[list[str]], int | None], argv: tuple[str, ...]) -> int:
    try:
        return main(list(argv)) or 0
    except SystemExit as leave:
        if leave.code is None or isinstance(leave.code, int):
            return leave.code or 0
        print(leave.code, file=sys.stderr)  # noqa: T201  # as the interpreter does
        return 1
    except BaseException:  # noqa: BLE001  # the frames above are the spawner's and must not see it
        traceback.print_exc()
        return 1


def _flush() -> None:
    """Do what the interpreter does at its end, because os._exit skips it."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


# ---------------------------------------------------------------------- limits of single processes

# Where there are no groups with limits (`groups.py`). They hold less: each process of a worker may take as much as the
# worker, an allocation beyond fails instead of ending the worker, and cores and the number of processes are not
# limited.


def limit_number(limits: Limits) -> None:
    """Limit how many processes there may be of the user that this process is about to become. The kernel counts those
    of a user, so this is no limit for programs of the server's own user."""
    if limits.processes:
        resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes, limits.processes))


def limit_process(limits: Limits, *, inherits: bool) -> None:
    """Limit the data of this process and of those that it forks.

    Data, not address space: numeric libraries and virtual machines reserve address space that they never use.
    `inherits`: this process goes on with the memory of the spawner, which does not count."""
    if limits.memory_mb:
        size = limits.memory_mb * _MEGABYTE + (_data_bytes() if inherits else 0)
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _data_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), 0)
