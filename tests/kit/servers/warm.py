"""The commands of users without the time that their start and that of the servers takes.

A start of a server takes a second of processor time, nearly all of it for imports, and a run of the tests starts some
two hundred. So every process of pytest has one other process (`warm_process.py`), which has imported all of it once
and forks the commands, and they fork the servers. A server that was forked differs from one that was executed in
nothing that a client, another party or an operator sees: it has its own session, its environment, its folder, its
console, its command line and nothing open (tests/integration/servers/test_warm_server.py compares them). Its spawner is
forked as well, unless EXECUTED_SPAWNER says otherwise: with all the modules of a server it takes 5 ms longer to fork
each worker, and a Python of its own takes 130 ms to start, so servers of many jobs execute it. `flow` and `fate_flow`,
which take up to a second to import and next to nothing to run, are forked as well; they end with the same code and
print the same as the executed ones (the same test).

The spawners of tests of an engine alone are forked as well, from a process that has nothing but their modules
(`engine_site.py`).

A test of a start that may fail, of the streams of a command, of the wheel or of what a page tells users to type
executes the command (tests/integration/servers/test_cluster_command.py, test_real_start.py, test_installed_wheel.py).
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from fate_flow.cli.server import service
from tests.kit.waiting import SECONDS

EXECUTED_SPAWNER = {"FATE_FLOW_EXECUTED_SPAWNER": "1"}
"""For the environment of a server whose spawner is to be a Python of its own, as the product has it."""
PROGRAM = Path(__file__).with_name("warm_process.py")
NOTHING: Mapping[str, str] = MappingProxyType({})
SPACE = "-" * 4000
"""For the command lines of the forks, which take the place of this one's."""


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


class WarmProcess:
    """One process that forks, from its first use to the end of this one."""

    def __init__(self, program: Path = PROGRAM) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def run(
        self, name: str, *arguments: str, seconds: float = 120.0, cwd: Path = Path("/"), given: str = "",
        more: Mapping[str, str] = NOTHING,
    ) -> Done:
        """Run `bin/cluster`, `bin/service.sh`, `flow` or `fate_flow` in a process of its own; kill it after that time.

        `given`: what it reads from its standard input; `more`: variables of its environment besides our own."""
        with tempfile.TemporaryFile() as into, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            into.write(given.encode())
            into.seek(0)
            read, said = os.pipe()
            try:
                try:
                    streams = [into.fileno(), out.fileno(), err.fileno(), said]
                    self.ask([name, arguments, {**os.environ, **more}, str(cwd)], streams)
                finally:
                    os.close(said)
                code = _code(read, seconds, " ".join((name, *arguments)))
            finally:
                os.close(read)
            texts = [file.seek(0) or file.read().decode() for file in (out, err)]
        return Done(code, *texts)

    def ask(self, request: object, streams: Sequence[int]) -> None:
        """Have its program fork for this request, which it gets as JSON, and these descriptors."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._control is not None
            socket.send_fds(self._control, [json.dumps(request).encode()], streams)

    def _start(self) -> None:
        self._control, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its_end:
            # In a session of its own: Ctrl-C reaches the tests, which then take down their servers by it.
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(self._program), str(its_end.fileno()), SPACE],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[its_end.fileno()], cwd="/",
                start_new_session=True,
            )
        atexit.register(self._close, self._process, self._control)

    @staticmethod
    def _close(process: subprocess.Popen[bytes], control: socket.socket) -> None:
        control.close()
        process.wait()


def _code(read: int, seconds: float, command: str) -> int:
    """The exit code of a command, which says its own number first; once it has ended."""
    said = b""
    while True:
        ready, _, _ = select.select([read], [], [], seconds if said else SECONDS)      # it is not there at once
        piece = os.read(read, 100) if ready else b""
        if not piece:
            break
        said += piece
    assert said, f"{command}: it did not begin"
    number, *code = map(int, said.split())
    if not ready:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    with suppress(ProcessLookupError), open(os.pidfd_open(number), "rb") as ended:      # or it is gone already
        select.select([ended], [], [], SECONDS)
    assert ready, f"{command}: it does not end"
    assert code, f"{command}: it died"
    return code[0]


WARM = WarmProcess()


def start_server(conf: Path, home: Path) -> service.Running:
    """Start the server of this configuration, which has this home; return it when it answers."""
    done = WARM.run("bin/service.sh", "start", "-c", str(conf))
    assert done.code == 0, done.err
    running = service.find(home)
    assert running is not None
    return running
