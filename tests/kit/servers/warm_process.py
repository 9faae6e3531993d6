"""The process behind `warm.py`: it has imported what a server needs, and forks commands and servers.

It is a script and imports nothing of the tests; only a fork that is to be a server with crash points does. It must keep
a single thread, and opens no file, no database and no connection, as the product's own processes that fork
(`fate_flow/server/supervisor.py`). It ends when the other end of its socket is closed, which the end of the tests'
process does however it comes.

A fork becomes what the product would have executed: see `_command` and `_become_server`.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, NoReturn

from fate_flow.cli.flow import main as flow_command
from fate_flow.cli.server import admin, cluster, grants, keys, party, service  # noqa: F401  # of subcommands
from fate_flow.cli.server import main as server_command
from fate_flow.components import preload
from fate_flow.engines.local import proc, spawner
from fate_flow.server import supervisor

COMMANDS = {"bin/cluster": cluster, "bin/service.sh": service}
SCRIPTS = {"flow": flow_command.main, "fate_flow": server_command.main}
LONGEST_REQUEST = 200_000
_GENUINE_POPEN = subprocess.Popen
_ARG_START, _ARG_END = 45, 46       # in /proc/self/stat, after the name of the program


class ForkedServer:
    """What `fate_flow.cli.server.service` does with `subprocess.Popen`, with a fork that has all modules."""

    def __init__(
        self, argv: Sequence[str], *, stdin: int, stdout: IO[bytes], stderr: IO[bytes], start_new_session: bool,
        cwd: Path,
    ) -> None:
        assert (stdin, stderr, start_new_session) == (subprocess.DEVNULL, stdout, True)
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            _become_server(argv, stdout, cwd)

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        return self._wait(0)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def _become_server(argv: Sequence[str], console: IO[bytes], cwd: Path) -> NoReturn:
    """Run `fate_flow` as if this process had executed it: nothing is inherited but the three standard streams."""
    code = 1
    try:
        os.setsid()
        os.chdir(cwd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(console.fileno(), 1)
        os.dup2(console.fileno(), 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        subprocess.Popen = _GENUINE_POPEN  # type: ignore[misc]
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        proc.set_name(Path(argv[0]).name)
        _show([sys.executable, *argv])
        sys.argv = list(argv)
        if "FATE_FLOW_CRASH_POINTS" in os.environ:
            _install_crash_points(cwd)
        if "FATE_FLOW_TINY_PROVIDER" in os.environ:
            _install_tiny_provider()
        if "FATE_FLOW_EXECUTED_SPAWNER" not in os.environ:
            supervisor.become_spawner = _be_spawner  # type: ignore[assignment]  # it returns at the end of the spawner
        server_command.main()
    except BaseException as error:  # noqa: BLE001  # the frames above must not see it
        code = _code_of(error)
    finally:
        _leave(code)


def _be_spawner(
    wakeup: socket.socket, reply: socket.socket, parent: int, home: Path, jobs_dir: Path | None = None
) -> None:  # fmt: skip
    """Serve as the program that the product executes here, with the modules of the server beside its own."""
    numbers = sorted((wakeup.fileno(), reply.fileno()))
    for begin, end in zip((3, *(one + 1 for one in numbers)), (*numbers, os.sysconf("SC_OPEN_MAX")), strict=True):
        os.closerange(begin, end)
    arguments = spawner.arguments_of(wakeup, reply, parent, home, jobs_dir)
    _show([sys.executable, "-P", "-m", spawner.__name__, *arguments])
    spawner.main(arguments)


def _install_crash_points(home: Path) -> None:
    sys.path.append(str(Path(__file__).resolve().parents[3]))
    import_module("tests.kit.servers.crashing_server").install(home)


def _install_tiny_provider() -> None:
    sys.path.append(str(Path(__file__).resolve().parents[3]))
    import_module("tests.kit.components.tiny_provider").install()


def _command(
    name: str, arguments: Sequence[str], environment: dict[str, str], cwd: str, streams: Sequence[int]
) -> NoReturn:
    """Run one of SCRIPTS or COMMANDS with the first three `streams`; say the number of this process and then the exit
    code through the last one."""
    code, (given, out, err, said) = 1, streams
    try:
        os.write(said, b"%d\n" % os.getpid())
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, stream in enumerate((given, out, err)):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        if name in SCRIPTS:
            _run_script(name, arguments)
        else:
            _show([sys.executable, "-P", "-m", COMMANDS[name].__name__, *arguments])
            subprocess.Popen = ForkedServer  # type: ignore[assignment,misc]
            COMMANDS[name].main(arguments, prog_name=name)
    except BaseException as error:  # noqa: BLE001  # the frames above must not see it
        code = _code_of(error)
    finally:
        sys.stdout.flush()
        os.write(said, b"%d\n" % code)
        _leave(code)


def _run_script(name: str, arguments: Sequence[str]) -> None:
    """Run what this script of the environment runs."""
    sys.argv = [str(Path(sys.executable).with_name(name)), *arguments]
    _show([sys.executable, *sys.argv])
    SCRIPTS[name]()


def _code_of(error: BaseException) -> int:
    """The exit code of a Python that this ends."""
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        return error.code or 0
    traceback.print_exception(error)
    return 1


def _leave(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)      # the frames above are those of the process that forked


def _show(argv: Sequence[str]) -> None:
    """Let `/proc/<pid>/cmdline` name this command; slashes before the path of the program fill the space."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    text = b"".join(os.fsencode(one) + b"\0" for one in argv)
    assert len(text) <= end - start, f"a command line of {len(text)} bytes has no space"
    ctypes.memmove(start, text.rjust(end - start, b"/"), end - start)


def main(control: socket.socket) -> None:
    """Fork a command for each request on this socket: a name, arguments, an environment, a folder and four streams."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)       # nobody waits for the forks
    preload()       # for the spawners
    proc.settle_memory()
    while True:
        request, streams, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 4)
        if not request:
            return
        if not os.fork():
            control.close()
            _command(*json.loads(request), streams)
        for stream in streams:
            os.close(stream)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
