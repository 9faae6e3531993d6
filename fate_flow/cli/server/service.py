"""Start, find and end one party's server, for `bin/service.sh` and `bin/cluster`.

Two files in `<home>/run` identify a server: `server.json`, which its supervisor writes once it answers, and
`launch.json`, which `launch` writes before that. Both have the supervisor's pid *and* its start time, since the system
may give the pid to another process later. All processes of a server are in the supervisor's process group. Its workers
are not, so ending the group leaves them alone.

If the supervisor is dead, the system may give the number of its group to another program. Then only those processes of
the group count as the server's that still have `console.log` of this home open. To stop or kill a server that neither
file names, the processes that have `server.lock` open are taken; a start leaves them alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click

from fate_flow.core.model.errors import FlowError
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.engines.local import proc
from fate_flow.engines.local.worker import NOBODY, ProcessId, read_json, write_atomically
from fate_flow.server.probes import answers

START_SECONDS = 60.0
STOP_SECONDS = 20.0
KILL_SECONDS = 60.0
POLL_SECONDS = 0.02
NOT_RUNNING, NOT_ANSWERING = 3, 4  # exit codes of `status`, from the Linux Standard Base


class ServiceFailed(FlowError):
    """The server could not be started or stopped."""


@dataclass(frozen=True)
class Running:
    """A running server: its supervisor, and its addresses."""

    supervisor: ProcessId
    party_id: str
    url: str
    worker_url: str

    @property
    def pid(self) -> int:
        return self.supervisor.pid


def find(home: Path) -> Running | None:
    """Return the server of this home; None unless its supervisor is alive and the server has answered before."""
    found = _read_of_run(home, "server.json")
    try:
        running = Running(
            supervisor=ProcessId(int(found["pid"]), int(found["started"])),
            party_id=str(found["party_id"]),
            url=str(found["url"]),
            worker_url=str(found.get("worker_url") or ""),
        )
    except (KeyError, TypeError, ValueError):
        return None
    return running if running.supervisor.is_alive() else None


def start(conf: Path, home: Path, *, timeout_seconds: float = START_SECONDS) -> Running:
    """Start the server of this home unless it runs; return it when it answers."""
    with launch(conf, home) as launched:
        return launched.wait(timeout_seconds)


def launch(conf: Path, home: Path, *, command: Sequence[str] = ()) -> Launch:
    """Begin to start the server of this home; first end the processes that a dead server left."""
    (home / "run").mkdir(parents=True, exist_ok=True)
    argv = [*(command or _server_command()), "serve", "-c", str(conf)]
    launched = Launch(home, lock_file(home / "run" / "start.lock"), argv)
    try:
        if not find(home):
            launched.begin()
    except BaseException:
        launched.abandon()
        launched.close()
        raise
    return launched


class Launch:
    """A server that is starting. Until `close`, no other command can start a server in this home."""

    def __init__(self, home: Path, lock: IO[str], argv: Sequence[str]) -> None:
        self._home = home
        self._lock = lock
        self._argv = argv
        self._process: subprocess.Popen[bytes] | None = None
        self._supervisor = NOBODY
        self._console_begin = 0

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_new(self) -> bool:
        """False if the server was already running."""
        return self._process is not None

    def begin(self) -> None:
        """Start the server; first end the processes that a dead one left."""
        kill(self._home, of=_supervisors(self._home))
        self._console_begin = _size(console_log(self._home))
        with _signals_deferred():
            self._process = _spawn(self._argv, self._home)
            # Our own child, not yet waited for: it exists, if only as a zombie.
            self._supervisor = ProcessId.of(self._process.pid)

    def wait(self, timeout_seconds: float = START_SECONDS) -> Running:
        """Return the server when it answers; if it does not, end what was started here and raise ServiceFailed."""
        try:
            return self._wait(timeout_seconds)
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """End what was started here. It may have failed because another server, which is still starting, has the home:
        that one is left alone."""
        if self._process:
            kill(self._home, of={self._supervisor})
            self._process.wait()

    def close(self) -> None:
        """Release the home; the server runs on."""
        self._lock.close()
        if self._process and self._process.returncode is None:
            self._process.returncode = 0    # the server outlives us on purpose: subprocess must not warn

    def _wait(self, timeout_seconds: float) -> Running:
        deadline = time.monotonic() + timeout_seconds
        while True:
            code = self._process.poll() if self._process else None
            if code is not None:
                how = f"exit code {code}" if code >= 0 else f"signal {-code}"
                raise self._failure(f"the server ended with {how} before it answered")
            running = find(self._home)
            if running and answers(running.url):
                return running
            if running is None and self._process is None:
                self.begin()        # the server that was running had been told to stop
            if time.monotonic() > deadline:
                raise self._failure(f"the server did not answer within {timeout_seconds:g} seconds")
            time.sleep(POLL_SECONDS)

    def _failure(self, problem: str) -> ServiceFailed:
        console = console_log(self._home)
        return ServiceFailed(f"{problem}; the end of {console}:\n{_tail(console, self._console_begin)}")


def ask_to_stop(home: Path) -> bool:
    """Send SIGTERM to the supervisor, or to the rest of its group; return False if no process was running."""
    members = _all_of(home)
    supervisors = _supervisors(home)
    for member in [one for one in members if ProcessId.seen(one) in supervisors] or members:
        _send(member, signal.SIGTERM)
    return bool(members)


def stop(home: Path, *, timeout_seconds: float = STOP_SECONDS) -> bool:
    """Ask the server to end; kill it after the timeout. Return False if no process was running."""
    if not ask_to_stop(home):
        return False
    await_end(home, timeout_seconds)
    return True


def await_end(home: Path, timeout_seconds: float) -> None:
    """Return when no process of the server is left; kill them after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while _all_of(home):
        if time.monotonic() > deadline:
            kill(home)
        time.sleep(POLL_SECONDS)


def kill(home: Path, *, of: Collection[ProcessId] | None = None) -> bool:
    """Kill every process of the server, even if its supervisor is dead; return False if no process was running.

    `of`: kill only what these supervisors have started."""
    members = _all_of(home, (), of)
    if not members:
        return False
    # Remember the groups now: once the supervisor is dead, nothing shows that the rest of its group is the server's.
    groups = {one.group for one in members}
    deadline = time.monotonic() + KILL_SECONDS
    while members:
        if time.monotonic() > deadline:
            raise ServiceFailed(f"process {members[0].pid} of the server in {home} does not end on SIGKILL")
        for member in members:
            _send(member, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
        members = _all_of(home, groups, of)
    return True


def server_processes(home: Path) -> list[ProcessId]:
    """Return the running processes of this home's server, oldest first."""
    return [ProcessId.seen(one) for one in _members(home)]


def _all_of(
    home: Path, known_groups: Collection[int] = (), of: Collection[ProcessId] | None = None
) -> list[proc.Stat]:
    """Return as `_members` does; if there is none, and `of` is not given, those who hold the lock of this home."""
    return _members(home, known_groups, of) or (_lock_holders(home) if of is None else [])


def _members(
    home: Path, known_groups: Collection[int] = (), of: Collection[ProcessId] | None = None
) -> list[proc.Stat]:
    """Return the running processes of this home's server, oldest first. `known_groups` certainly belong to it.

    `of`: its supervisors, if not those that the files of this home name."""
    supervisors = _supervisors(home) if of is None else of
    running = {stat.pid: stat for stat in running_processes()} if supervisors else {}
    found: dict[int, proc.Stat] = {}
    for supervisor in supervisors:
        leader = running.get(supervisor.pid)
        if leader and leader.started != supervisor.started:
            continue    # another process has this pid, so nothing of the group is left
        if leader:
            found[leader.pid] = leader
        for stat in running.values():
            if stat.group != supervisor.pid or stat.started < supervisor.started:
                continue
            if leader or stat.group in known_groups or _has_console_of(stat, home):
                found[stat.pid] = stat
    return sorted(found.values(), key=lambda stat: (stat.started, stat.pid))


def _send(member: proc.Stat, signal_number: int) -> None:
    """Send a signal to a process of the server, unless it has left the server's group: then it is the runner of a
    worker, which was forked a moment ago, and the worker lives on."""
    ProcessId.seen(member).send(signal_number, group=member.group)


def running_processes() -> list[proc.Stat]:
    """Return every process of this machine that has not ended."""
    stats = (proc.read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [stat for stat in stats if stat and stat.is_running]


def console_log(home: Path) -> Path:
    """Return the file for the server's stdout and stderr."""
    return home / "logs" / "fate_flow" / "console.log"


def lock_file(path: Path) -> IO[str]:
    """Wait for the lock on this file; the lock is held until the returned file is closed."""
    lock = path.open("a", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except BaseException:
        lock.close()
        raise
    return lock


def _server_command() -> list[str]:
    return [str(Path(sys.executable).parent / "fate_flow")]


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer signals to the end of the block: no signal may come between a start and the file that names the process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield           # Python handles signals only in the main thread
        return
    try:
        for number in before:
            signal.signal(number, lambda got, _: came.append(got))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for got in came:
            signal.raise_signal(got)


def _spawn(argv: Sequence[str], home: Path) -> subprocess.Popen[bytes]:
    console = console_log(home)
    console.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(console, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd=home
        )
    # Our own child, not yet waited for: it exists, if only as a zombie.
    identity = ProcessId.of(process.pid)
    document = {"pid": identity.pid, "started": identity.started}
    file = home / "run" / "launch.json"
    try:
        write_atomically(file, json.dumps(document))
    except OSError as error:         # without the file nobody could find the process: kill it
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise ServiceFailed(f"cannot write {os_error_text(error, file)}") from error
    return process


def _read_of_run(home: Path, name: str) -> dict[str, Any]:
    """Return what a file of the server says; nothing if there is none. Raises PermissionError to another user."""
    path = home / "run" / name
    with suppress(FileNotFoundError):
        path.open("rb").close()
    return read_json(path) or {}


def _supervisors(home: Path) -> set[ProcessId]:
    """Return the supervisors that the files of this home name; they may have ended."""
    found = set()
    for name in ("server.json", "launch.json"):
        document = _read_of_run(home, name)
        with suppress(KeyError, TypeError, ValueError):
            found.add(ProcessId(int(document["pid"]), int(document["started"])))
    return found


def _has_console_of(stat: proc.Stat, home: Path) -> bool:
    console = str(console_log(home).resolve())
    for folder in _descriptor_folders(stat):
        for name in ("1", "2"):
            with suppress(OSError):
                if os.readlink(f"{folder}/{name}") == console:
                    return True
    return False


def _lock_holders(home: Path) -> list[proc.Stat]:
    """Return the processes that hold the server lock of this home; this reads the open files of all own processes."""
    lock = str((home / "run" / "server.lock").resolve())
    return [stat for stat in running_processes() if _has_open(stat, lock)]


def _has_open(stat: proc.Stat, path: str) -> bool:
    for folder in _descriptor_folders(stat):
        with suppress(OSError):
            for entry in os.scandir(folder):
                with suppress(OSError):
                    if os.readlink(entry.path) == path:
                        return True
    return False


def _descriptor_folders(stat: proc.Stat) -> list[str]:
    """Return the folders that list the open files of a process. If its main thread has ended before the others, the
    list of the process is empty, and each living thread has the whole list."""
    if stat.state not in "ZX":
        return [f"/proc/{stat.pid}/fd"]
    with suppress(OSError):
        return [f"/proc/{stat.pid}/task/{thread}/fd" for thread in os.listdir(f"/proc/{stat.pid}/task")]
    return []


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _tail(path: Path, begin: int, lines: int = 20) -> str:
    """Return the last lines that a log got since its size was `begin`."""
    try:
        with path.open("rb") as file:
            size = _size(path)
            file.seek(max(begin if begin <= size else 0, size - 16384))      # the server empties a log that is too long
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        return f"    {error}"
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "    (nothing)"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("action", type=click.Choice(["start", "stop", "restart", "status"]))
@click.option(
    "-c", "--conf-path", "conf", type=click.Path(path_type=Path), envvar="FATE_FLOW_CONF",
    default=lambda: Path(os.environ.get("FATE_FLOW_CHECKOUT", "."), "conf", "service_conf.yaml"),
    help="The server's configuration. By default FATE_FLOW_CONF, or conf/service_conf.yaml of this checkout.",
)
def main(action: str, conf: Path) -> None:
    """Start, stop, restart or show the server of one party. Workers are left alone.

    Exit codes of status: 0 running, 3 not running, 4 running but not answering.

    Example: bin/service.sh start -c conf/service_conf.yaml
    """
    # Imported here, since bin/cluster knows the homes by itself and starts faster without it.
    from fate_flow.settings.reader import load_settings

    conf = conf.resolve()
    try:
        home = load_settings(conf).home
        if action == "status":
            raise SystemExit(_show_status(home))
        if action in ("stop", "restart"):
            click.echo("the server has ended" if stop(home) else "no server is running")
        if action in ("start", "restart"):
            _start_and_tell(conf, home)
    except FlowError as error:
        raise click.ClickException(error.message) from error
    except OSError as error:
        raise click.ClickException(os_error_text(error)) from error


def _start_and_tell(conf: Path, home: Path) -> None:
    with launch(conf, home) as launched:
        running = launched.wait()
    word = "is running" if launched.is_new else "was already running"
    click.echo(f"party {running.party_id} {word}: {running.url} (pid {running.pid})")


def _show_status(home: Path) -> int:
    running = find(home)
    if running is None:
        click.echo(f"no server is running in {home}")
        return NOT_RUNNING
    is_answering = answers(running.url)
    word = "is running" if is_answering else "is running but does not answer"
    click.echo(f"party {running.party_id} {word}: {running.url} (pid {running.pid})")
    return 0 if is_answering else NOT_ANSWERING


if __name__ == "__main__":
    main(prog_name="service.sh")
