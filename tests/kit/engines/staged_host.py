"""A server's listener for staged workers, and another host: processes that may open nothing below the server's home."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flask import Flask, Response, request
from werkzeug.serving import make_server

from fate_flow.api.workers.staged import StagedSettings, blueprint, claim_token, staged_token
from fate_flow.components.tables.table import Schema, TableWriter
from fate_flow.components.tables.table_uri import format_uri
from fate_flow.core.model.job import TaskKey, Worker
from fate_flow.core.model.program import ProgramRules, read_program
from fate_flow.core.model.program_scope import Program
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import WorkerStatus
from fate_flow.engines.local.engine import LocalEngine
from fate_flow.engines.local.worker import STOP, Stop, write_atomically
from fate_flow.engines.staged.pinned import PinnedClient, ServerAt
from fate_flow.engines.staged.places import ADDRESS, PIN, ROOT, TOKEN, WORKER
from fate_flow.gateway.workers.tls import WorkerTls
from fate_flow.server.engines.local_workers import LocalWorkers
from fate_flow.services.context.ports import LaunchOrder, Observation
from fate_flow.settings.limits import Limits
from fate_flow.settings.settings import Settings
from tests.kit.waiting import SECONDS, eventually

SECRET = b"secret"
KEY = TaskKey("2026010112000000000001234", "a", 0, Party("guest", "9999"))

_GUARD = """
import os, sys
_HOME = {home!r}
def _guard(event, args):
    if event in ("open", "os.listdir", "os.scandir", "os.mkdir", "os.rename", "os.link", "sqlite3.connect"):
        for one in args[:2]:
            text = os.fsdecode(one) if isinstance(one, (str, bytes)) else ""
            if text.startswith(_HOME):
                raise PermissionError(f"this host has no {{text}}")
sys.addaudithook(_guard)
"""


@dataclass
class StagedServer:
    """The home of a server, its listener, and what is wrong with it now."""

    home: Path
    lease_seconds: float = 6.0         # a busy machine must not end a worker before its test does
    most_bytes: int = 1 << 30
    no_space: str = ""                 # why nothing is taken now
    printed: Callable[[Worker], str] = lambda _: ""     # by the job of a worker, as its cluster says
    statuses: dict[str, WorkerStatus] = field(default_factory=dict)
    spoils: Callable[[Response], Response | None] = lambda _: None     # an answer on its way
    asked: list[str] = field(default_factory=list)
    woken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tls = WorkerTls.of(self.home / "keys")

    @property
    def settings(self) -> Settings:
        rules = ProgramRules(True, (sys.executable, "/bin/sh"), files_root=str(self.home / "shared"))
        limits = Limits(server_silence=self.lease_seconds)
        return replace(Settings("9999", self.home), log_dir=self.home / "logs", commands=rules, limits=limits)

    @property
    def workers(self) -> LocalWorkers:
        return LocalWorkers(self.settings, LocalEngine(), "http://127.0.0.1:1/v1/exchange", SECRET, lambda _: None)

    # what the routes read of the database

    @contextmanager
    def reading(self) -> Iterator[Any]:
        yield SimpleNamespace(worker=self.row)

    def row(self, worker_id: str) -> Worker | None:
        status = self.statuses.get(worker_id)
        return None if status is None else replace(self.worker(worker_id), status=status)

    def worker(self, worker_id: str) -> Worker:
        return Worker(worker_id, KEY, WorkerStatus.CREATED, "far", self.workers.handle_for(KEY, worker_id))

    def folder(self, worker_id: str) -> Path:
        return Path(self.workers.handle_for(KEY, worker_id))

    # orders

    def orders(self, worker_id: str, module: str, parameters: Mapping[str, Any], **more: Any) -> None:
        order = LaunchOrder(
            self.worker(worker_id), module, "ab" * 16, (("guest", "9999"),), parameters, (), 1, 0, 1.0, worker_id
        )
        self.statuses[worker_id] = WorkerStatus.CREATED
        self.workers.launch(replace(order, **more))

    def orders_program(self, worker_id: str, *argv: str, **parameters: Any) -> None:
        command = read_program({"command": list(argv), **parameters})
        program = Program(command, {}, (), "9999")
        self.orders(worker_id, "Command", {"command": list(argv), **parameters}, program=program)

    def stops(self, worker_id: str, grace_seconds: float = 90.0) -> None:
        """Ask the worker to end, as the server of another machine does: no signal to a process, and its agent hears of
        it. `LocalEngine.stop` would find the runner here, which has no `stop.json` then and takes the order's grace."""
        write_atomically(self.folder(worker_id) / STOP, Stop(grace_seconds).to_json())

    def has_table(self, name: str, rows: int) -> str:
        uri = format_uri(self.home / "data", "it", name)
        with TableWriter(uri, Schema(("x",))) as writer:
            writer.add([f"id{number}", "v" * 50] for number in range(rows))
            writer.close()
        return uri

    def seen(self, worker_id: str) -> Observation:
        """How the worker is, by the files of its folder; the processes of its host say nothing here."""
        return self.workers.observe(self.worker(worker_id))

    # the listener

    @contextmanager
    def listening(self) -> Iterator[StagedServer]:
        app = Flask("staged")
        settings = StagedSettings(
            self.home, self.settings.jobs_dir, SECRET, self.lease_seconds, self.most_bytes, self.woken.append,
            lambda: self.no_space, lambda worker: self.printed(worker),
        )  # fmt: skip
        app.register_blueprint(blueprint(settings, self))  # type: ignore[arg-type]  # it reads one row

        @app.before_request
        def note() -> None:
            self.asked.append(request.path.rpartition("/")[2])

        @app.after_request
        def spoil(answer: Response) -> Response:
            return self.spoils(answer) or answer

        server = make_server("127.0.0.1", 0, app, threaded=True, ssl_context=self.tls.context())
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.at = ServerAt("127.0.0.1", server.server_port, self.tls.pin)
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def client(self, worker_id: str) -> PinnedClient:
        return PinnedClient(self.at, staged_token(SECRET, worker_id))

    def client_with_claim(self, worker_id: str) -> PinnedClient:
        """Of somebody who has read the claim token of the worker."""
        return PinnedClient(self.at, claim_token(SECRET, worker_id))


def python_that_opens_nothing_below(home: Path, folder: Path) -> Path:
    """Write a Python into the folder that, with all Pythons which it starts, is on a host without this home."""
    (folder / "guard").mkdir(parents=True)
    (folder / "guard" / "sitecustomize.py").write_text(_GUARD.format(home=f"{home}/"))
    program = folder / "python"
    program.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(str(folder / 'guard'))}:$PYTHONPATH\n"
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    program.chmod(0o755)
    return program


@dataclass
class OtherHost:
    """Another host: a folder of its own, an environment of its own, and no way to the server's home."""

    folder: Path
    server: StagedServer
    agents: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "guard").mkdir(parents=True)
        guard = _GUARD.format(home=f"{self.server.home}/")
        (self.folder / "guard" / "sitecustomize.py").write_text(guard)
        package = Path(__file__).parents[3]
        self.env = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONPATH": f"{self.folder / 'guard'}:{package}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    def root(self, worker_id: str) -> Path:
        return self.folder / "root" / worker_id

    def start_in_job(self, worker_id: str) -> subprocess.Popen[bytes]:
        """As the job of a cluster does, whose output is a file of this host."""
        at, base = self.server.at, self.folder / "base"
        env = {**self.env, ADDRESS: str(at), PIN: at.pin, TOKEN: staged_token(SECRET, worker_id)}
        with (self.folder / f"agent_{len(self.agents)}.log").open("wb") as log:
            agent = subprocess.Popen(
                [sys.executable, "-P", "-m", "fate_flow.engines.placed.away", str(base), worker_id], cwd="/", env=env,
                stdout=log, stderr=log,
            )  # fmt: skip
        self.agents.append(agent)
        return agent

    def start(self, worker_id: str, what: str = "run", **changed: str) -> subprocess.Popen[bytes]:
        at = self.server.at
        env = {
            **self.env, ADDRESS: str(at), PIN: at.pin, WORKER: worker_id, TOKEN: staged_token(SECRET, worker_id),
            ROOT: str(self.folder / "root"), **changed,
        }  # fmt: skip
        with (self.folder / f"agent_{len(self.agents)}.log").open("wb") as log:
            agent = subprocess.Popen(
                [sys.executable, "-m", "fate_flow.engines.staged.agent", what], cwd=self.folder, env=env,
                stdout=log, stderr=log,
            )  # fmt: skip
        self.agents.append(agent)
        return agent

    def run(self, worker_id: str, what: str = "run", **changed: str) -> int:
        agent = self.start(worker_id, what, **changed)
        return agent.wait(SECONDS)

    def said(self) -> str:
        return "".join(one.read_text() for one in sorted(self.folder.glob("agent_*.log")))

    def end(self) -> None:
        """End what a test has left."""
        for agent in self.agents:
            if agent.poll() is None:
                agent.send_signal(signal.SIGKILL)
                agent.wait()
        eventually(lambda: not self.processes(), self.processes)

    def processes(self) -> list[str]:
        """The workers and runners that still run here."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                try:
                    environ = Path(f"/proc/{name}/environ").read_bytes()
                    stat = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
                    command = Path(f"/proc/{name}/cmdline").read_bytes()
                except OSError:                  # it has ended meanwhile
                    continue
                if f"HOME={self.folder}\0".encode() in environ and stat != "Z":
                    found.append(f"{name} {command!r}")
        return found


def json_in(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())
    assert isinstance(found, dict)
    return found
