"""A server whose start fails, or whose supervisor dies, leaves no process behind; what is left is seen and ended."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from fate_flow.cli.server import service
from fate_flow.cli.server.cluster_plan import Ports
from fate_flow.engines.local import proc
from fate_flow.engines.local.spawner import SPAWNER
from fate_flow.engines.local.worker import ProcessId
from fate_flow.engines.staged.pinned import PinnedClient, ServerAt
from fate_flow.gateway.workers.tls import WorkerTls
from fate_flow.server.probes import answers
from tests.kit.servers.warm import start_server
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    home.mkdir()
    yield home
    service.kill(home)


@pytest.fixture
def conf(home: Path, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "service_conf.yaml"
    ports = Ports()
    port = next(filter(ports.is_free, range(24000 + os.getpid() % 400 * 5, 65536)))
    path.write_text(yaml.safe_dump({"party_id": "9999", "home": str(home), "fateflow": {"http_port": port}}))
    yield path
    ports.close()


def holders(home: Path) -> list[ProcessId]:
    return service._lock_holders(home)


def test_a_start_that_cannot_write_leaves_nothing_behind_and_the_next_one_works(home: Path, conf: Path) -> None:
    code = """
import errno, os, sys
from fate_flow.server import supervisor
from fate_flow.cli.server.main import fate_flow
def full(path, _):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
supervisor.write_json = full
fate_flow(sys.argv[1:])
"""
    with (
        service.launch(conf, home, command=(sys.executable, "-c", code)) as launch,
        pytest.raises(service.ServiceFailed, match=r"cannot write .*server\.json: the disk is full; make room there"),
    ):
        launch.wait()
    assert holders(home) == []
    assert answers(service.start(conf, home).url, 60)       # seconds, of a busy machine


@pytest.mark.heavy
def test_a_console_that_has_grown_is_emptied_and_the_server_is_found_by_it_as_before(home: Path, conf: Path) -> None:
    settings = yaml.safe_load(conf.read_text())
    conf.write_text(yaml.safe_dump({**settings, "log": {"file_max_bytes": 5_000}}))
    console = service.console_log(home)
    console.parent.mkdir(parents=True)
    console.write_bytes(b"x" * 6_000)
    running = start_server(conf, home)
    eventually(lambda: list(console.parent.glob("console.log.*")) != [])
    eventually(lambda: console.stat().st_size < 5_000)      # it is copied first, then emptied
    # Asked while all of them run: what the supervisor leaves behind ends at once, between a list and a look at it.
    members = service.server_processes(home)
    assert running.supervisor in members
    assert len(members) > 1
    stats = [(one, stat) for one in members if (stat := proc.read_stat(one.pid))]
    assert [one for one, stat in stats if not service._has_console_of(stat, home) and one.is_alive()] == []
    running.supervisor.send(signal.SIGKILL)
    eventually(lambda: not running.supervisor.is_alive())
    service.kill(home)
    assert holders(home) == []


def test_a_start_that_cannot_say_its_number_ends_what_it_started(
    home: Path, conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            spawned.append(self)

    def full(path: Path, _: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(subprocess, "Popen", Noted)
    monkeypatch.setattr(service, "write_atomically", full)
    with pytest.raises(service.ServiceFailed, match=r"cannot write .*launch.json: the disk is full; make room there"):
        service.launch(conf, home, command=("sh", "-c", "sleep 600"))
    assert [process.wait(timeout=90) for process in spawned] == [-signal.SIGKILL]


@pytest.mark.parametrize("is_named", [True, False])
def test_a_start_that_fails_leaves_a_server_alone_that_was_started_otherwise(home: Path, is_named: bool) -> None:
    """Such as by systemd: while it starts, no file names it, and a second start finds its lock."""
    (home / "run").mkdir()
    code = "import sys\nlock = open(sys.argv[1], 'a')\nprint('opened')\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-uc", code, str(home / "run" / "server.lock")], text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, start_new_session=True,
    ) as other:  # fmt: skip
        assert other.stdout
        assert other.stdout.readline() == "opened\n"
        named = ProcessId.of(other.pid)
        failing = ("sh", "-c", "sleep 1; exit 1")
        with service.launch(Path("conf"), home, command=failing) as launch:
            if is_named:        # it has just begun to answer
                document = {"pid": named.pid, "started": named.started, "party_id": "9999", "url": "http://127.0.0.1:9"}
                (home / "run" / "server.json").write_text(json.dumps(document))
            with pytest.raises(service.ServiceFailed, match="exit code 1 before it answered"):
                launch.wait()
        assert named.is_alive()


def test_a_start_while_the_server_ends_starts_it_again(home: Path) -> None:
    (home / "run").mkdir()
    with subprocess.Popen(["sleep", "600"]) as ending:
        named = ProcessId.of(ending.pid)
        document = {"pid": named.pid, "started": named.started, "party_id": "9999", "url": "http://127.0.0.1:9"}
        (home / "run" / "server.json").write_text(json.dumps(document))
        with service.launch(Path("conf"), home, command=("sh", "-c", "exit 3")) as launch:
            assert not launch.is_new
            ending.terminate()
            with pytest.raises(service.ServiceFailed, match="the server ended with exit code 3 before it answered"):
                launch.wait()


def test_no_process_outlives_the_supervisor(home: Path, conf: Path) -> None:
    running = start_server(conf, home)
    eventually(lambda: len(service.server_processes(home)) == 5)
    everybody = service.server_processes(home)
    supervisor = psutil.Process(running.pid)
    assert {one.pid for one in supervisor.children()} == {one.pid for one in everybody} - {supervisor.pid}, (
        "none stands between the supervisor and those that serve"
    )
    assert running.supervisor.send(signal.SIGKILL)
    eventually(lambda: not any(one.is_alive() for one in everybody))


def test_a_server_that_ends_slowly_refuses_connections_meanwhile(home: Path, conf: Path) -> None:
    """Another party that asks it then would wait for its answer, and so could two that end at once for each other."""
    running = start_server(conf, home)
    host, port = running.url.removeprefix("http://").split(":")
    scheduler = eventually(lambda: scheduler_of(running.pid), "the scheduler")
    scheduler.suspend()
    # A process takes the signal when it is its turn to run: on a busy machine that is later.
    eventually(lambda: scheduler.status() == psutil.STATUS_STOPPED)
    assert running.supervisor.send(signal.SIGTERM)
    eventually(lambda: answer_to_connect(host, int(port)) == errno.ECONNREFUSED)
    assert running.supervisor.is_alive()
    assert scheduler.status() == psutil.STATUS_STOPPED
    scheduler.resume()
    eventually(lambda: not running.supervisor.is_alive())


def scheduler_of(supervisor: int) -> psutil.Process | None:
    """None while its processes cannot be told apart: a fork begins with the sockets and the name of the supervisor, and
    opens and closes files all the time."""
    with suppress(OSError, psutil.Error):
        children = psutil.Process(supervisor).children()
        others = [one for one in children if one.name() != SPAWNER]
        found = [one for one in others if not listening_sockets(one.pid)]
        return found[0] if len(found) == len(children) - len(others) == 1 else None
    return None


def answer_to_connect(host: str, port: int) -> int:
    with socket.socket() as made:
        return made.connect_ex((host, port))


def spawners(home: Path) -> list[int]:
    pids = [one.pid for one in service.server_processes(home)]
    return [pid for pid in pids if SPAWNER.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]


def listening_sockets(pid: int) -> set[str]:
    """The TCP sockets of a process that take connections."""
    table = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    listening = {f"socket:[{columns[9]}]" for columns in table if columns[3] == "0A"}
    opened: set[str] = set()
    for one in os.scandir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):       # a process that imports opens and closes files all the time
            opened.add(os.readlink(one.path))
    return listening & opened


@pytest.mark.heavy
def test_the_spawner_holds_no_port(home: Path, conf: Path) -> None:
    """What it starts outlives the server, and a port that it held would be taken for the server's."""
    running = service.start(conf, home)
    eventually(lambda: spawners(home) != [])      # it was forked before, and becomes another program
    assert len(listening_sockets(running.pid)) == 2
    assert [listening_sockets(pid) for pid in spawners(home)] == [set()]


def test_a_server_that_no_file_names_is_found_by_its_lock(home: Path, conf: Path) -> None:
    running = start_server(conf, home)
    for name in ("server.json", "launch.json"):
        (home / "run" / name).unlink()
    assert service.server_processes(home) == []
    assert len(holders(home)) > 3
    assert service.kill(home)
    assert not running.supervisor.is_alive()
    assert holders(home) == []


@pytest.mark.parametrize("is_named", [True, False])
def test_a_server_whose_main_thread_has_ended_is_ended_with_its_lock(home: Path, is_named: bool) -> None:
    """SIGKILL may end the main thread first: the process looks dead, and has its files and locks still."""
    (home / "run").mkdir()
    lock = home / "run" / "server.lock"
    code = """
import ctypes, fcntl, sys, threading
lock = open(sys.argv[1], "a")
fcntl.flock(lock, fcntl.LOCK_EX)
threading.Thread(target=threading.Event().wait).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    with subprocess.Popen([sys.executable, "-c", code, str(lock)], start_new_session=True) as process:
        try:
            supervisor = ProcessId.of(process.pid)
            if is_named:
                document = {"pid": supervisor.pid, "started": supervisor.started}
                (home / "run" / "launch.json").write_text(json.dumps(document))
            eventually(lambda: (stat := proc.read_stat(process.pid)) and stat.state == "Z")
            assert supervisor.is_alive()
            assert service.kill(home, of={supervisor} if is_named else None)
            assert not supervisor.is_alive()
            with lock.open("a") as again:
                fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            process.kill()


@pytest.mark.heavy
def test_a_runner_that_leaves_the_group_of_its_server_meanwhile_is_not_killed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner is in the group for its first moment. Once it has claimed its worker, that would be lost with it."""
    code = """
import os, signal, sys
print("here", flush=True)
if os.fork() == 0:
    signal.alarm(300)         # not left behind if the test fails
    sys.stdin.read()
    os.setsid()
    print("left", flush=True)
signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as supervisor:
        try:
            (home / "run").mkdir()
            named = ProcessId.of(supervisor.pid)
            (home / "run" / "launch.json").write_text(json.dumps({"pid": named.pid, "started": named.started}))
            assert supervisor.stdin
            assert supervisor.stdout
            assert supervisor.stdout.readline() == "here\n"
            [left] = map(ProcessId.of, eventually(lambda: proc.descendants(supervisor.pid)))
            find, leave, said = service._members, supervisor.stdin.close, supervisor.stdout.readline

            def members_before_one_leaves(*given: Any) -> list[proc.Stat]:
                found = find(*given)
                if left.pid in [one.pid for one in found]:
                    leave()
                    assert said() == "left\n"
                return found

            monkeypatch.setattr(service, "_members", members_before_one_leaves)
            assert service.kill(home)
            assert not named.is_alive()
            assert left.send(signal.SIGKILL)
        finally:
            supervisor.kill()


def test_a_home_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path, conf: Path) -> None:
    code = f"""
import errno, os, pathlib
def refuse(self, *_, **__):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))
pathlib.Path.chmod = refuse
from fate_flow.cli.server.main import fate_flow
fate_flow(["serve", "-c", {str(conf)!r}])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "the file system is mounted read-only; mount it writable, or configure another folder" in done.stderr
    assert "Errno" not in done.stderr


def test_workers_on_other_hosts_reach_the_server_over_tls_and_nothing_but_their_routes(home: Path, conf: Path) -> None:
    settings = yaml.safe_load(conf.read_text())
    ports = Ports()
    port = next(filter(ports.is_free, range(settings["fateflow"]["http_port"] + 1, 65536)))
    ports.close()
    settings["fateflow"]["worker_listen"] = {"host": "127.0.0.1", "port": port}
    conf.write_text(yaml.safe_dump(settings))
    start_server(conf, home)
    client = PinnedClient(ServerAt.of(f"127.0.0.1:{port}", WorkerTls.of(home / "keys").pin), "no token")
    place = {"topic": "t", "role": "host", "party_id": "1", "seq": 0}
    assert client.ask("POST", "/v1/exchange/peek", place).status == 401
    assert "unknown token" in client.ask("POST", "/v1/version/get", body=b"{}").text, "whatever route is asked for"
    client.close()
