"""The spawner: a process that has imported what workers need, and forks one runner for each worker.

It must always have a single thread. A fork copies only the thread that calls it: a lock that another thread held at
that moment (of malloc, logging, an import, a library) would stay locked in the copy for ever, and the built-in
components run in such copies. For the same reason it opens no database and no connection: its only input is a socket
pair.

What all components need is imported before the first fork, the module of a component before the first fork for it.
Copies share that memory (`proc.settle_memory`).

It is a Python interpreter of its own, not a fork of the server: so workers do not copy the modules of the server, and
no secret of the server is in a worker's memory.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from fate_flow.components import preload
from fate_flow.engines.local import proc
from fate_flow.engines.local.groups import Groups
from fate_flow.engines.local.runner import WAITED_SIGNALS, run_worker
from fate_flow.engines.local.strays import SWEEP_SECONDS, Strays
from fate_flow.engines.local.wakeup import wake
from fate_flow.engines.local.worker import CLAIMED, EXIT, JOBS, LAUNCH, RUN

log = logging.getLogger(__name__)

SPAWNER = "fate-spawner"
_PARENT_CHECK_SECONDS = 3.0
_LONGEST_DATAGRAM = 65536


def become_spawner(
    wakeup: socket.socket, reply: socket.socket, parent: int, home: Path, jobs_dir: Path | None = None
) -> NoReturn:  # fmt: skip
    """Replace this process by a spawner that serves until the process `parent` ends.

    The command line ends with a name and the home, by which the spawner and its forks can be found. `jobs_dir`: the
    folder with those of workers, if it is not in this home."""
    for end in (wakeup, reply):
        os.set_inheritable(end.fileno(), True)
    argv = [sys.executable, "-P", "-m", __name__, *arguments_of(wakeup, reply, parent, home, jobs_dir)]
    os.execv(sys.executable, argv)  # noqa: S606  # no shell is the point


def arguments_of(
    wakeup: socket.socket, reply: socket.socket, parent: int, home: Path, jobs_dir: Path | None = None
) -> list[str]:  # fmt: skip
    """Return the arguments of `main` for these."""
    numbers = [str(number) for number in (wakeup.fileno(), reply.fileno(), parent)]
    elsewhere = [] if jobs_dir in (None, home / JOBS) else [str(jobs_dir)]
    return [*numbers, *elsewhere, SPAWNER, str(home)]


@dataclass(frozen=True)
class Order:
    """A folder to launch, and the modules that its worker needs if it forks the spawner."""

    folder: Path
    imports: tuple[str, ...] = ()


class Spawner:
    """Carries out orders `{"launch": "<folder>", "imports": [...]}` from the socket `wakeup`; runners send events to
    `reply`."""

    def __init__(
        self, wakeup: socket.socket, reply: socket.socket | None, *, parent: int | None = None,
        jobs_dir: Path | None = None, groups: Groups | None = None,
    ) -> None:  # fmt: skip
        self._wakeup = wakeup
        self._reply = reply
        # A parent that passes its own number is recognised as dead even if it ends before this line.
        self._parent = os.getppid() if parent is None else parent
        self._orders: deque[Order] = deque()
        self._strays = Strays(jobs_dir, groups)
        self._groups = groups
        self._next_sweep = 0.0
        self._is_stopping = False

    def serve(self) -> None:
        """Launch workers until SIGTERM or the end of the parent."""
        proc.set_name(SPAWNER)
        proc.adopt_orphans()
        with self._woken_by_signals() as wake:
            _import_what_all_need()
            proc.settle_memory()
            poller = select.poll()
            poller.register(self._wakeup, select.POLLIN)
            poller.register(wake, select.POLLIN)
            while not self._is_stopping and os.getppid() == self._parent:
                # The socket is emptied between two launches, because orders that it cannot hold must be repeated.
                self._end_strays()
                poller.poll(0 if self._orders else _PARENT_CHECK_SECONDS * 1000)
                with suppress(BlockingIOError):
                    os.read(wake, 4096)
                self._collect_orders()
                if self._orders:
                    self._launch(self._orders.popleft())

    @contextmanager
    def _woken_by_signals(self) -> Iterator[int]:
        """Yield a descriptor that wakes a poll at SIGTERM and at the end of a child, even just before the poll."""
        wake, alarm = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(alarm, False)
        signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Ctrl-C reaches the whole foreground group, but only the supervisor decides when to stop.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        yield wake

    def _stop(self, _number: int, _frame: object) -> None:
        self._is_stopping = True

    def _end_strays(self) -> None:
        for folder in self._strays.reap():
            if self._reply and not (folder / EXIT).exists():      # its dead runner cannot report the end
                wake(self._reply, {"worker": folder.name, "event": "exited"})
        if time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + self._strays.sweep()

    def _collect_orders(self) -> None:
        while True:
            try:
                datagram = self._wakeup.recv(_LONGEST_DATAGRAM, socket.MSG_DONTWAIT)
            except OSError:    # empty; or the other end is gone, which the end of the parent shows
                return
            if not datagram:   # the other end of the packet socket is gone
                return
            order = read_order(datagram)
            if order is None:
                log.warning("not an order to launch: %.200r", datagram)
            else:
                self._orders.append(order)

    def _launch(self, order: Order) -> None:
        folder = order.folder
        # A quick check for repeated orders; what counts is the claim of the runner, which contains its identity.
        if (folder / CLAIMED).exists():
            return
        if not (folder / LAUNCH).exists():
            log.warning("nothing to launch in %s", folder)
            return
        import_once(order.imports)
        try:
            self._fork_runner(folder)
        except OSError as error:    # out of memory or processes; the order will be repeated
            log.error("cannot fork for %s: %s", folder, error)

    def _fork_runner(self, folder: Path) -> None:
        """Fork the runner as a child, so that its children become ours if it is killed."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()    # otherwise the copy would print it again
        with proc.blocked(WAITED_SIGNALS):
            runner = os.fork()
            if runner == 0:
                self._become_runner(folder)
        self._strays.watch(runner, folder)
        self._next_sweep = min(self._next_sweep, time.monotonic() + SWEEP_SECONDS)

    def _become_runner(self, folder: Path) -> NoReturn:
        code = 1
        try:
            reply = self._reply.fileno() if self._reply else None
            run_worker(folder, reply, self._groups, was_in_server=True)
            code = 0
        except BaseException:  # it must not reach the spawner's frames above
            log.exception("the runner of %s failed", folder)
        finally:
            os._exit(code)


def _import_what_all_need() -> None:
    try:
        preload()
    except ImportError as error:    # programs still run, and a component that needs the module reports it
        log.warning("the built-in components are not all there: %s", error)


def import_once(names: Sequence[str]) -> None:
    """Import the modules that are not here yet. If that fails, the worker that needs them says so."""
    new = [name for name in names if name not in sys.modules]
    for name in new:
        try:
            importlib.import_module(name)
        except Exception:    # whatever its code raises: the spawner serves all other workers
            log.exception("cannot import %s", name)
    if new:
        proc.settle_memory()


def read_order(datagram: bytes) -> Order | None:
    """Return the order in a datagram; None if it is not one."""
    try:
        order = json.loads(datagram)
        folder, imports = order["launch"], order.get("imports", [])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(folder, str) or not folder.startswith("/") or "\0" in folder:
        return None
    if not isinstance(imports, list) or not all(isinstance(name, str) for name in imports):
        return None
    return Order(Path(folder), tuple(imports))


def main(argv: Sequence[str]) -> None:
    """Run `python -m fate_flow.engines.local.spawner WAKEUP REPLY PARENT [JOBS] NAME HOME`.

    WAKEUP and REPLY are descriptors of sockets, PARENT is a process number; NAME is for the list of processes."""
    logging.basicConfig(format="[%(levelname)s] [%(asctime)s] [%(process)d:%(thread)d] - %(message)s")
    wakeup, reply, parent = (int(number) for number in argv[:3])
    home = Path(argv[-1])
    jobs_dir = Path(argv[3]) if argv[3] != SPAWNER else home / JOBS
    for number in (wakeup, reply):
        os.set_inheritable(number, False)
    Spawner(
        socket.socket(fileno=wakeup), socket.socket(fileno=reply), parent=parent, jobs_dir=jobs_dir,
        groups=Groups.read(home / RUN),
    ).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
