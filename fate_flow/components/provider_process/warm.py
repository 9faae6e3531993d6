"""The warm process of a provider: `PYTHON -I warm.py MODULE SOCKET`. It has imported the provider, and forks workers.

It describes all components to itself, which imports them, and then waits at a Unix socket for `execute.py`. For each
worker it forks a guard, which says its number and forks the component. The guard ends the component when the connection
ends, and says how it ended and what it has used. The guard does not need this process any more, so workers outlive it.
This process ends with its parent.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import struct
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_MOST_BYTES = 1_000_000
_IMPORTED_LATE = ("torch._dynamo",)
"""Modules that a library which is there imports at its first use: torch with the first optimizer, for two seconds."""
_CREDENTIALS = struct.Struct("3i")


def main(module: str, path: str) -> int:
    """Import the provider, then serve until the input ends, with the process that holds its other end."""
    _die_with_parent()                                   # also during the imports
    sys.modules["_fate_flow_warm"] = sys.modules[__name__]        # components will be `__main__`: _run_as_main
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)        # guards are nobody's to wait for
    _import_all(module)
    listener = _listen(Path(path))
    while sys.stdin.fileno() not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        with connection:
            if _is_own(connection) and os.fork() == 0:
                listener.close()
                _guard(module, connection)
    return 0


def _import_all(module: str) -> None:
    """Import what the components import, by asking for their descriptions."""
    describe = _neighbour("describe")
    for name in describe.names(describe.said(module, "component", "list")):
        describe.said(module, "component", "desc", "--name", name)
    for late in _IMPORTED_LATE:
        if late.partition(".")[0] in sys.modules:
            with suppress(ImportError):                  # of another release
                importlib.import_module(late)


def _neighbour(name: str) -> ModuleType:
    """Return a module of this folder, which is on no path."""
    spec = importlib.util.spec_from_file_location(f"_fate_flow_{name}", Path(__file__).with_name(f"{name}.py"))
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{name}.py is missing")
    found = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def _listen(path: Path) -> socket.socket:
    """Listen at the socket, which takes the place of one that an earlier process has left."""
    draft = f".{path.name}.{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_RDONLY)
    os.umask(0o077)
    listener.bind(f"/proc/self/fd/{folder}/{draft}")     # a path of a socket has at most 107 characters
    listener.listen(64)
    os.replace(path.with_name(draft), path)
    os.close(folder)
    return listener


def _is_own(connection: socket.socket) -> bool:
    """Return whether the caller is a process of the same user."""
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(said)[1] == os.getuid())


def _guard(module: str, connection: socket.socket) -> NoReturn:
    """In the first child: run one component, and say how it ended."""
    os.setsid()
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with suppress(BrokenPipeError):
            connection.sendall(f"{os.getpid()}\n".encode())
        text, outputs, _, _ = socket.recv_fds(connection, _MOST_BYTES, 2)
        if text:                         # otherwise the worker has ended before it began
            _run(module, json.loads(text), outputs, connection)
    except Exception:  # noqa: BLE001  # nobody else says it
        traceback.print_exc()
    finally:
        os.killpg(0, signal.SIGKILL)     # what the component has left, and this process
        os._exit(1)


def _run(module: str, order: dict[str, Any], outputs: list[int], connection: socket.socket) -> None:
    component = os.fork()
    if component == 0:
        _become_component(module, order, outputs)
    for output in outputs:
        os.close(output)
    if _ends(component, connection):
        _, status, used = os.wait4(component, 0)
        seconds, kilobytes = used.ru_utime + used.ru_stime, used.ru_maxrss
        connection.sendall(f"{os.waitstatus_to_exitcode(status)} {seconds:.2f} {kilobytes}\n".encode())


def _ends(component: int, connection: socket.socket) -> bool:
    """Wait until the component has ended; return False if the connection did first."""
    ended = os.pidfd_open(component)
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    waiting.register(connection, select.POLLIN | select.POLLHUP)
    return ended in {number for number, _ in waiting.poll()}


def _become_component(module: str, order: dict[str, Any], outputs: list[int]) -> NoReturn:
    """In the second child: take over what `execute.py` has, and run the component."""
    code = 1
    try:
        _die_with_parent()
        for number, taken in enumerate([os.open(os.devnull, os.O_RDONLY), *outputs]):
            os.dup2(taken, number)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        _forget_random_numbers()
        _neighbour("component").run(module, order["folder"])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  # as Python itself does at the end
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _forget_random_numbers() -> None:
    """Give this process random numbers of its own: numpy keeps the state that all children of a process share.

    Python's own generator begins anew after a fork by itself, and so does OpenSSL's."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
