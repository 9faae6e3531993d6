"""`fate_flow serve`: the supervisor of one party's server.

It imports everything once and forks the processes that docs/reference/contracts.md lists: so they share that memory and
start in milliseconds. A process that dies is forked again. The supervisor has no connection and no thread, which makes
the forks safe.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType

from fate_flow.components.tables.table import sweep
from fate_flow.core.model.errors import FlowError
from fate_flow.core.model.job import EngineState
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.engines.local import proc
from fate_flow.engines.local.spawner import become_spawner
from fate_flow.peers.signature import SiteSignature
from fate_flow.records.operator_log.events import Event
from fate_flow.relay.wakeup import Wakeup
from fate_flow.server.engines.kinds import import_engines
from fate_flow.server.engines.program_user import check_program_user, open_home
from fate_flow.server.exporting.parts import check_exports
from fate_flow.server.gateway_parts import GatewayParts
from fate_flow.server.http_processes import HttpProcess, HttpProcesses
from fate_flow.server.listeners.listening import listen
from fate_flow.server.listeners.worker_listener import WorkerListenerParts
from fate_flow.server.party_servers.shared_home import (
    announce_workers,
    named_server,
    prove_shared_home,
    withdraw_workers,
)
from fate_flow.server.probes import answers, serves_workers
from fate_flow.server.runtime import (
    EffectRunner,
    Wakeups,
    home_id_of,
    open_log,
    open_store,
    prepare_home,
    providers_of,
    reserve_of,
    secret_of,
    signature_of,
    with_client_keys,
    write_json,
)
from fate_flow.server.scheduling import ALIVE_SECONDS, SchedulerLoop
from fate_flow.server.start_warnings import start_warnings
from fate_flow.server.tracing.process_spans import ProcessSpans
from fate_flow.server.tracing.variables import take_variables_of_sdk
from fate_flow.server.watchdog import Watchdog
from fate_flow.server.worker_groups import prepare_groups
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.engines.engine_settings import EngineSettings
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.party_keys import message_keys
from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.database.migrations import bind_party, upgrade
from fate_flow.store.database.opening import create_if_missing
from fate_flow.store.sql.store import SqlStore

_GC_THRESHOLD = (20_000, 20, 20)    # requests and rounds leave few cycles; Python's 700 would search too often
_RESTART_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)
_CALM_SECONDS = 30.0
_STOP_SECONDS = 15.0
_ANSWER_SECONDS = 30.0
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_HTTP_SECONDS = 120.0         # without a sign of life of a process that serves


def serve(conf_path: Path) -> int:
    """Run the server in the foreground until SIGTERM or SIGINT. Raise FlowError if it cannot start."""
    if unread := take_variables_of_sdk():
        _say(f"WARNING: not read: {', '.join(unread)}; the section traces says where spans go, with which headers")
    settings = load_settings(conf_path)
    providers_of(settings)               # refuses a name that one of ours has
    import_engines(settings)
    check_program_user(settings)
    check_exports(settings)
    spans = ProcessSpans(settings)
    prepare_home(settings)
    with _only_one(settings), named_server(settings):
        settings = with_client_keys(settings)
        _prepare_store(settings)
        signature = signature_of(settings)
        for text in start_warnings(settings):
            _say(f"WARNING: {text}")
        open_home(settings)
        _say(prepare_groups(settings))
        return Supervisor(settings, spans, signature).run()


class _only_one:  # noqa: N801  # reads as a phrase where it is used
    """Hold the lock of a home. Raise FlowError if another server has it."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.run_dir / "server.lock"

    def __enter__(self) -> None:
        try:
            self._file = self._path.open("a")
        except OSError as error:
            raise FlowError(f"cannot open {os_error_text(error)}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FlowError(f"another server runs on this home ({self._path})") from error
        os.set_inheritable(self._file.fileno(), False)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _prepare_store(settings: Settings) -> None:
    """Upgrade the schema, bind the database to this party, register the engines, remove leftovers of the last run."""
    create_if_missing(settings.database_url)
    secret_of(settings)
    record = open_log(settings)
    store = open_store(settings, record)
    upgrade(store.database)
    bind_party(store.database, settings.party_id)
    prove_shared_home(settings, store.database)

    def register() -> None:
        with store.transaction() as tx:
            for name, one in settings.engines.items():
                tx.register_engine(_state_of(name, one), one.config, now_on_the_wall())
            tx.forget_refused_submissions()

    Retry()(register, is_repeatable=True)
    for party_id in _without_key(settings, store):
        _say(f"WARNING: there is no public key of party {party_id} here (flow key save): jobs with it are refused")
    if swept := sweep(settings.data_dir):
        record.emit(Event.DETECT_NOTE, text=f"removed {swept} tables that killed workers left unfinished")
    store.close()
    record.close()


def _state_of(name: str, engine: EngineSettings) -> EngineState:
    """Return an engine of which nothing is in use."""
    size = engine.size
    return EngineState(
        name, size.cores, size.memory, size.cores, size.memory, size.nodes, engine.section, size.gpus, size.gpus
    )


def _without_key(settings: Settings, store: SqlStore) -> list[str]:
    """Return the parties with a route whose requests are refused for lack of a key."""
    needed = [one for one in sorted(settings.routes) if settings.site.needs_saved_key(one)]
    now = now_on_the_wall()
    with store.reading() as tx:
        return [one for one in needed if not message_keys(tx, one, now)]


@dataclass
class _Child:
    """A process that the supervisor keeps running."""

    name: str
    run: Callable[[], None]
    pid: int = 0
    started: float = 0.0
    failures: int = 0
    next_start: float = 0.0
    http: HttpProcess | None = None
    is_aborted: bool = False     # it gives no sign of life, and was sent SIGABRT

    def end_if_silent(self) -> None:
        """Ask a process that serves to end if it gives no sign of life; kill it if it still does not."""
        if not self.pid or self.http is None or self.http.silent_seconds() < _HTTP_SECONDS:
            return
        _say(f"{self.name} gives no sign of life and is {'killed' if self.is_aborted else 'ended'}")
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL if self.is_aborted else signal.SIGABRT)
        self.is_aborted = True


@dataclass
class Supervisor:
    settings: Settings
    spans: ProcessSpans
    signature: SiteSignature | None = None      # all processes sign with the same key
    _children: list[_Child] = field(default_factory=list)
    _is_stopping: bool = False
    _has_answered: bool = False

    def __post_init__(self) -> None:
        self._pid = os.getpid()
        self._watchdog = Watchdog(self.settings.alive_file)
        self._wakeups = Wakeups(Wakeup(), Wakeup(), Wakeup())
        self._http = listen(self.settings.host, self.settings.http_port, "fateflow.http_port")
        self._workers = listen("127.0.0.1", self.settings.worker_port, "fateflow.worker_port")
        self._gateway = GatewayParts.of(self.settings, self.signature)
        self._remote_workers = WorkerListenerParts.of(self.settings, secret_of(self.settings))
        self._worker_url = f"http://127.0.0.1:{self._workers.getsockname()[1]}"
        self._http_processes = HttpProcesses(
            self.settings, self._wakeups, self._worker_url,
            EffectRunner(),  # each process that decides gets its own by the fork
            self.signature, self.spans,
        )  # fmt: skip
        self._public = (self._http, *((self._gateway.behind,) if self._gateway else ()))
        clients = self._http_processes.public_server(*self._public).processes()
        self._for_workers = (self._workers, *((self._remote_workers.behind,) if self._remote_workers else ()))
        workers = self._http_processes.worker_server(*self._for_workers).processes()
        self._children = [
            _Child("spawner", self._run_spawner),
            _Child("scheduler", self._run_scheduler),
            *(_Child("workers", partial(self._run_workers, one), http=one) for one in workers),
            *(_Child("http", partial(self._run_http, one), http=one) for one in clients),
            *([_Child("gateway", self._run_gateway)] if self._gateway else []),
            *([_Child("remote workers", self._run_remote_workers)] if self._remote_workers else []),
        ]

    # ------------------------------------------------------------------ the supervisor itself

    def run(self) -> int:
        self._wake, alarm = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(alarm, False)
        signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
        proc.share_arenas()
        proc.settle_memory()      # the children share it until one of them writes to it
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)      # it ends a wait below early
        announce_workers(self.settings, self._worker_url)
        try:
            self._look_after_children()
        finally:
            self._shut_down()     # also if this process fails: no process of a server outlives its supervisor
        return 0

    def _look_after_children(self) -> None:
        """Keep the children running; return when the server has to stop. Raise FlowError if it cannot start."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while not self._is_stopping:
            self._start_due()
            self._reap()
            self._end_what_stands_still()
            if not self._has_answered:
                self._has_answered = self._announce()
                if not self._has_answered and time.monotonic() > deadline:
                    raise FlowError("the server does not answer on its own port")
            self._sleep(0.02 if not self._has_answered else self._patience())

    def _patience(self) -> float:
        """Return the seconds until a child must be started or checked; the end of a child ends the wait early."""
        due = [child.next_start for child in self._children if not child.pid]
        seconds = min(due) - time.monotonic() if due else ALIVE_SECONDS
        return min(max(0.01, seconds), ALIVE_SECONDS)

    def _sleep(self, seconds: float) -> None:
        """Wait; return early if a child dies or the server has to stop."""
        select.select([self._wake], [], [], seconds)
        with suppress(BlockingIOError):
            os.read(self._wake, 4096)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stopping = True

    def _start_due(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if not child.pid and now >= child.next_start:
                child.pid, child.started = self._fork(child), now

    def _fork(self, child: _Child) -> int:
        if child.http is not None:
            child.http.prepare()
            child.is_aborted = False
        sys.stdout.flush()
        sys.stderr.flush()
        with proc.blocked(_STOP_SIGNALS):        # else a stop could come to our handlers in the child, and be lost
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                for number in (*_STOP_SIGNALS, signal.SIGCHLD):
                    signal.signal(number, signal.SIG_DFL)
        if pid:
            return pid
        code = 1
        try:
            proc.die_with_parent(self._pid)
            for one in self._children:
                if one.http is not None and one is not child:
                    one.http.close()
            gc.set_threshold(*_GC_THRESHOLD)
            child.run()
            code = 0
        except SystemExit as leave:
            code = leave.code if isinstance(leave.code, int) else 1
        except BaseException:  # noqa: BLE001  # the frames above are the supervisor's and must not see it
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for child in self._children:
                if child.pid == pid:
                    self._note_death(child, status)

    def _note_death(self, child: _Child, status: int) -> None:
        now = time.monotonic()
        child.pid = 0
        child.failures = 0 if now - child.started > _CALM_SECONDS else child.failures + 1
        pause = _RESTART_PAUSES[min(child.failures, len(_RESTART_PAUSES) - 1)]
        child.next_start = now + pause
        if not self._is_stopping:
            how = os.waitstatus_to_exitcode(status)
            _say(f"{child.name} ended with {how}, starts again in {pause} s")

    def _end_what_stands_still(self) -> None:
        [scheduler] = [child for child in self._children if child.name == "scheduler"]
        if scheduler.pid and self._watchdog.stands_still(scheduler.pid, time.monotonic()):
            _say("the scheduler gives no sign of life and is killed")
            with suppress(ProcessLookupError):
                os.kill(scheduler.pid, signal.SIGKILL)
        for child in self._children:
            child.end_if_silent()

    def _announce(self) -> bool:
        """Write `run/server.json` once the server answers; return whether it does. Raise FlowError if that fails."""
        host = "127.0.0.1" if self.settings.host in ("0.0.0.0", "::") else self.settings.host  # noqa: S104
        url = f"http://{f'[{host}]' if ':' in host else host}:{self.settings.http_port}"
        if not (answers(url) and serves_workers(self._worker_url)):
            return False
        if self._gateway is not None and not self._gateway.is_ready():
            return False
        if self._remote_workers is not None and not self._remote_workers.is_ready():
            return False
        stat = proc.read_stat(os.getpid())
        document = {
            "pid": os.getpid(),
            "started": stat.started if stat else 0,
            "party_id": self.settings.party_id,
            "url": self.settings.url,
            "worker_url": self._worker_url,
            "shared_home": str(self.settings.shared),
            "conf": str(self.settings.conf_path),
        }
        file = self.settings.run_dir / "server.json"
        try:
            write_json(file, document)
        except OSError as error:
            raise FlowError(f"cannot write {os_error_text(error, file)}") from error
        return True

    def _shut_down(self) -> None:
        """End the gateway first, whose requests under way need the others; then the listeners, both at once, since each
        waits a second for kept-alive connections; then the other processes."""
        self._close_listeners()      # else who connects after the end of a listener would wait for the end of them all
        for names in (("gateway", "remote workers"), ("http", "workers"), ("scheduler",), ("spawner",)):
            ending = [child for child in self._children if child.name in names and child.pid]
            for child in ending:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGTERM)
            for child in ending:
                self._await_end(child)
        withdraw_workers(self.settings)
        with suppress(OSError):      # on a full disk the file stays, and names a dead process
            (self.settings.run_dir / "server.json").unlink()
        if self._gateway is not None:
            self._gateway.remove()
        if self._remote_workers is not None:
            self._remote_workers.remove()

    def _await_end(self, child: _Child) -> None:
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline:
            pid, _ = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                return
            self._sleep(0.05)
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)

    # ------------------------------------------------------------------ the children

    def _run_spawner(self) -> None:
        become_spawner(
            self._wakeups.spawner.receiving_end, self._wakeups.scheduler.sending_end, self._pid, self.settings.home,
            self.settings.jobs_dir,
        )

    def _run_scheduler(self) -> None:
        self._close_listeners()
        SchedulerLoop(
            self.settings, self._wakeups, self._worker_url, home_id_of(self.settings), self.spans, self.signature
        ).run()

    def _run_http(self, process: HttpProcess) -> None:
        self._close_listeners(*self._public)
        self._http_processes.run_public(process)

    def _run_workers(self, process: HttpProcess) -> None:
        self._close_listeners(*self._for_workers)
        process.run()

    def _run_gateway(self) -> None:
        assert self._gateway is not None
        self._close_listeners(*(one for one in self._gateway.sockets if one is not self._gateway.behind))
        self._gateway.run()

    def _run_remote_workers(self) -> None:
        assert self._remote_workers is not None
        self._close_listeners(self._remote_workers.listener)
        open_log(self.settings)
        self._remote_workers.run(reserve_of(self.settings).give_back)

    def _close_listeners(self, *kept: socket.socket) -> None:
        """Close the sockets of other processes, so that no port stays open after its process."""
        of_gateway = self._gateway.sockets if self._gateway else ()
        of_workers = self._remote_workers.sockets if self._remote_workers else ()
        for listener in (self._http, self._workers, *of_gateway, *of_workers):
            if listener not in kept:
                listener.close()


def _say(text: str) -> None:
    """Print a message on stderr: the supervisor opens no log, so that its forks share none."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
