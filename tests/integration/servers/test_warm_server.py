"""A server or a `flow` that a warm process forked (tests/kit/servers/warm.py) is as one that was executed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from fate_flow.cli.server import service
from fate_flow.engines.local.spawner import SPAWNER
from tests.kit.servers.party_servers import BASE_PORT, GUEST, Cluster, PartyServer, bin_cluster, running_cluster
from tests.kit.servers.warm import EXECUTED_SPAWNER, WARM, Done, WarmProcess
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

SERVER = "fate_flow"
# The script of a checkout whose path has a blank is run by a shell, which sets these, and then by python.
OF_A_SHELL = ("PWD", "OLDPWD", "SHLVL", "_")
NAMES = (SERVER, "python")
STATUS = ("Umask", "Groups", "SigBlk", "SigIgn", "SigCgt", "Threads", "NoNewPrivs", "Uid")


def executed(root: Path) -> None:
    """`bin/cluster start`, as users have it."""
    argv = [sys.executable, "-P", "-m", "fate_flow.cli.server.cluster", "start", "--dir", str(root)]
    environment = dict(os.environ)      # without what a library has set behind the back of Python
    subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, cwd="/", env=environment, check=True
    )


def looks(party: PartyServer) -> dict[str, Any]:
    """What the system shows of a server, in what stays the same from one start to the next."""
    running = service.find(party.home)
    assert running is not None
    server = psutil.Process(running.pid)
    return {
        "argv": argv_of(server), "parent": server.ppid(), **inside(server),
        "processes": Counter(_name(one) for one in (server, *server.children(recursive=True))),
    }


def spawner_of(party: PartyServer) -> psutil.Process:
    """The spawner of a server, as soon as it serves."""
    running = service.find(party.home)
    assert running is not None
    server = psutil.Process(running.pid)
    [spawner] = eventually(lambda: [one for one in server.children() if one.name() == SPAWNER], "the spawner")
    last = 1 << (signal.SIGINT - 1)      # of the signals that it sets
    eventually(lambda: int(inside(spawner)["status"]["SigIgn"], 16) & last, "the spawner's signals")
    return spawner


def looks_of_spawner(party: PartyServer) -> dict[str, Any]:
    """The same of its spawner, whose sockets have other numbers."""
    spawner = spawner_of(party)
    argv = argv_of(spawner)
    return {"argv": (argv[:4], len(argv), argv[-2:]), "children": spawner.children(), **inside(spawner)}


def environment_of(party: PartyServer) -> dict[str, str]:
    """That of a server whose spawner is executed, with the same."""
    without = (*OF_A_SHELL, *EXECUTED_SPAWNER)
    return {key: value for key, value in spawner_of(party).environ().items() if key not in without}


def argv_of(process: psutil.Process) -> list[str]:
    return [f"/{one.lstrip('/')}" if number == 0 else one for number, one in enumerate(process.cmdline())]


_MADE_UP = re.compile(r"wgunicorn-\w+")       # the file of the signs of life of an HTTP process


def inside(process: psutil.Process) -> dict[str, Any]:
    pid = process.pid
    opened = [_target(one) for one in os.scandir(f"/proc/{pid}/fd")]
    files = [one for one in opened if one and not one.endswith((".py", ".pyc", ".so")) and not Path(one).is_dir()]
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        "folder": process.cwd(), "leads": (os.getsid(pid) == pid, os.getpgid(pid) == pid), "nice": process.nice(),
        "files": Counter(files),     # without those of a module that it imports at this moment
        "streams": [os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)],
        "status": {key: status[key] for key in STATUS},
    }


def _target(descriptor: os.DirEntry[str]) -> str:
    """What it leads to, without a part of a name that is drawn; empty if it was closed meanwhile."""
    try:
        return _MADE_UP.sub("wgunicorn-", os.readlink(descriptor.path).partition(":")[0])
    except FileNotFoundError:
        return ""


def _name(process: psutil.Process) -> str:
    return SERVER if process.name() in NAMES else process.name()


@pytest.mark.heavy
def test_a_forked_server_is_as_an_executed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_cluster(tmp_path / "c", (GUEST,), base_port=BASE_PORT + 170) as cluster:
        spawner = looks_of_spawner(cluster.guest)
        monkeypatch.setenv("FLAVOUR", "of this start")      # later than the warm process
        cluster.kill(GUEST)
        bin_cluster("start", cluster.root, has_many_jobs=True)
        environment, server = environment_of(cluster.guest), looks(cluster.guest)
        cluster.kill(GUEST)
        executed(cluster.root)
        assert environment == environment_of(cluster.guest)
        assert environment["FLAVOUR"] == "of this start"
        assert server == looks(cluster.guest)
        assert spawner == looks_of_spawner(cluster.guest)


@pytest.mark.parametrize(("code", "arguments"), [
    (0, ("server", "versions")), (1, ("job", "stop", "-j", "202601011200000000000")),
    (2, ("job", "submit", "-c", "broken.json")), (3, ("--server", "http://127.0.0.1:1", "job", "list")),
])
def test_a_forked_flow_is_as_an_executed_one(
    on_sqlite: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("FATE_FLOW_SERVER", on_sqlite.guest.url)     # later than the warm process
    (tmp_path / "broken.json").write_text("{")
    done = subprocess.run(
        [Path(sys.executable).with_name("flow"), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=120, cwd=tmp_path, check=False,
    )
    assert done.returncode == code
    assert WARM.run("flow", *arguments, cwd=tmp_path) == Done(code, done.stdout, done.stderr)


@pytest.mark.parametrize(("code", "given", "arguments"), [
    (0, "", ("admin", "held", "--json")), (1, "fate-flow-invite:AbCdEf", ("party", "join")),
])
def test_a_forked_fate_flow_is_as_an_executed_one(
    on_sqlite: Cluster, code: int, given: str, arguments: tuple[str, ...]
) -> None:
    argv = [*arguments, "-c", str(on_sqlite.guest.home / "conf" / "service_conf.yaml")]
    done = subprocess.run(
        [Path(sys.executable).with_name("fate_flow"), *argv], input=given, capture_output=True, text=True, timeout=120,
        cwd="/", check=False,
    )
    assert done.returncode == code, done.stderr
    assert WARM.run("fate_flow", *argv, given=given) == Done(code, done.stdout, done.stderr)


def test_a_command_that_fails_says_why_and_its_code(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="there is no cluster here; bin/cluster up creates one"):
        bin_cluster("kill", tmp_path, "--party", GUEST)


@pytest.mark.heavy
def test_a_command_that_dies_or_does_not_end_is_an_error_and_the_process_behind_it_is_replaced(tmp_path: Path) -> None:
    warm = WarmProcess()
    assert warm.run("bin/cluster", "--help").code == 0
    assert warm._process is not None
    with service.lock_file(tmp_path / "cluster.lock"), pytest.raises(AssertionError, match="does not end"):
        warm.run("bin/cluster", "up", "--dir", str(tmp_path), "--party", GUEST, seconds=0.01)
    first = warm._process
    first.kill()
    first.wait()
    assert "Usage:" in warm.run("bin/cluster", "--help").out
    assert warm._process is not first


@pytest.mark.heavy
def test_it_ends_with_the_process_that_uses_it() -> None:
    code = """
import os, signal
from tests.kit.servers.warm import WARM
assert WARM.run("bin/cluster", "--help").code == 0
print(WARM._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=120,
        check=False,
    )
    eventually(lambda: not psutil.pid_exists(int(done.stdout)), "the end of the warm process")
