"""A program in a sandbox (`commands.sandbox`): what it sees of the machine, and where it can connect to."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fate_flow.components.providers.program_order import ORDER, PEERS, WORK, Order
from fate_flow.core.model.program import ProgramRules
from fate_flow.engines.local.groups import Limits
from tests.kit.servers.engine_site import Site

PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable      # one that any user can run
BWRAP = os.environ.get("FATE_FLOW_TEST_BWRAP", "")
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not BWRAP, reason="bubblewrap is neither installed nor to be downloaded (bin/test says why)"),
]

MEMORY_MB = 32       # enough for the program; what carries its connections may need more

LOOKS = """
import json, os, socket, sys, urllib.request
def tried(act):
    try:
        return act() or "yes"
    except OSError as error:
        return error.strerror or type(error).__name__
def reached(port):
    with socket.create_connection(("127.0.0.1", port), 60) as one:
        one.sendall(b"ping")
        one.shutdown(socket.SHUT_WR)
        return one.recv(9).decode()
listener, other, home, left, own = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6]
found = {
    "listener": [tried(lambda: reached(listener)) for _ in range(2)],
    "other": tried(lambda: reached(other)),
    "outside": tried(lambda: socket.create_connection(("192.0.2.1", 80), 5)),
    "abstract": tried(lambda: socket.socket(socket.AF_UNIX).connect("\\0" + left)),
    "key": tried(lambda: open(home + "/keys/root.pem").read()),
    "home": sorted(os.listdir(home)),
    "home of the server": os.listdir(own) if os.path.isdir(own) else [],
    "tmp": sorted(os.listdir("/tmp")),
    "run": os.listdir("/run"),
    "system": tried(lambda: open("/etc/written", "w").close()),
    "order": tried(lambda: open("../exit.json", "w").close()),
    "work": tried(lambda: open("made", "w").close()),
    "processes": sum(name.isdigit() for name in os.listdir("/proc")) < 5,
    "group": os.getuid(),
}
print(json.dumps(found), flush=True)
sys.exit(7)
"""


@pytest.fixture
def reached() -> Iterator[Site]:
    """An engine with a home that another user can pass through."""
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    home.chmod(0o711)
    (home / "jobs").mkdir(mode=0o711)
    (home / "keys").mkdir(mode=0o700)
    (home / "keys" / "root.pem").write_text("secret")
    shutil.copy(BWRAP, home / "bwrap")         # where another user reaches it
    site = Site(home)
    site.start_spawner()
    yield site
    site.close()
    shutil.rmtree(home)


@pytest.fixture
def listener() -> Iterator[int]:
    """The listener for workers: it answers in capitals."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve() -> None:
            while True:
                try:
                    accepted, _ = server.accept()
                except OSError:
                    return
                with accepted:
                    accepted.sendall(accepted.recv(9).upper())

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def ordered(site: Site, listener: int, *argv: str, user: str = "", home: str = "", **env: str) -> Path:
    folder = site.home / "jobs" / "w"
    (folder / WORK).mkdir(parents=True)
    (folder / PEERS).write_text("[]")
    rules = ProgramRules(enabled=True, allow=(PYTHON,), user=user, sandbox=str(site.home / "bwrap"), home=home)
    env = {"FATE_FLOW_EXCHANGE_URL": f"http://127.0.0.1:{listener}/v1/exchange", **env}
    (folder / ORDER).write_text(Order((PYTHON, *argv), env, rules).to_json())
    spec = site.spec(PYTHON, *argv, cwd=folder / WORK, output_max_bytes=100_000, limits=Limits(memory_mb=MEMORY_MB))
    return site.launch(spec)


@pytest.mark.parametrize("user", ["", pytest.param("nobody", marks=pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can run programs as another user"))])     # bin/test notes it
def test_a_program_reaches_the_listener_for_workers_and_nothing_else(
    reached: Site, listener: int, user: str, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()               # a home beside the one that several servers share
    with socket.create_server(("127.0.0.1", 0)) as other, socket.socket(socket.AF_UNIX) as abstract:
        name = f"left-{os.getpid()}"
        abstract.bind("\0" + name)
        abstract.listen()
        port = other.getsockname()[1]
        looks = ("-c", LOOKS, str(listener), str(port), str(reached.home), name, str(tmp_path))
        folder = ordered(reached, listener, *looks, user=user, home=str(tmp_path))
        end = reached.end_of(folder)
    assert (end.exit_code, end.cause) == (7, "exited"), (end, reached.output_of(folder, "err.log"))
    found = json.loads(reached.output_of(folder))
    assert found.pop("group") == (65534 if user else os.geteuid())
    assert found == {
        "listener": ["PING", "PING"], "other": "Connection refused", "outside": "Network is unreachable",
        "abstract": "Connection refused", "key": "No such file or directory", "home": ["jobs"], "run": [],
        "home of the server": [],
        "tmp": sorted({one.parts[2] for one in (reached.home, tmp_path) if one.parts[1] == "tmp"}),
        "system": "Read-only file system", "order": "Read-only file system", "work": "yes", "processes": True,
    }  # fmt: skip
    assert (folder / WORK / "made").exists()


def test_a_program_with_streams_is_refused_by_name(reached: Site, listener: int) -> None:
    end = reached.end_of(ordered(reached, listener, "-c", "", FATE_FLOW_LISTEN_A="127.0.0.1:1"))
    assert end.cause == "not_started"
    assert "ports: this party runs programs without a network (commands.sandbox)" in end.message
