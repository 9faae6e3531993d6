"""A temporary MariaDB server for the tests, which any user can run without changes to the system.

If mariadbd is installed, it is used. Otherwise Debian's packages are downloaded with apt-get (never installed) and
unpacked under `.cache/mariadb`, with the libraries that they need and the system lacks; later runs need no network.
This uses only the standard library, since it runs before there is a virtual environment.

DIR has `data`, `tmp`, `mariadbd.log`, and `mariadb.json` with the port, the pid and the start time. Another process may
have the pid later, so no signal is sent before the start time is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))      # `python -P` leaves it out
from _daemons import (
    HOST,
    POLL_SECONDS,
    PORTS,
    Failed,
    end,
    identity,
    is_alive,
    is_free,
    last_lines,
    read_state,
    write_state,
)
from _debian import NOT_TO_BE_HAD, NotToBeHad, environment, fetched, library_path, locked

PORT_ATTEMPTS = 5
START_SECONDS = 60.0
STATE = "mariadb.json"

SERVER_OPTIONS = (
    f"--bind-address={HOST}", "--skip-name-resolve", "--socket=mariadbd.sock", "--pid-file=mariadbd.pid",
    # A relative name is in the data folder; the absolute path of a socket could be too long.
    "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M", "--innodb-flush-log-at-trx-commit=1",
    "--character-set-server=utf8mb4", "--max-connections=400", "--max-allowed-packet=64M",
    "--performance-schema=0", "--skip-log-bin", "--innodb-buffer-pool-dump-at-shutdown=0",
    "--innodb-buffer-pool-load-at-startup=0",
)
THROW_AWAY_OPTIONS = (
    "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--sync-frm=0", "--innodb-fast-shutdown=2",
    "--innodb-file-per-table=0",             # tests make and drop many databases
    "--loose-innodb-flush-method=nosync",    # `loose`: versions to come may not know it
)
"""For data that need not outlive the server: it waits for no disk. These options replace those above."""


@dataclass(frozen=True)
class Binaries:
    """The programs of MariaDB: installed, or unpacked under .cache."""

    server: Path
    base: Path            # the value of --basedir
    libraries: str = ""   # folders for LD_LIBRARY_PATH

    @property
    def share(self) -> Path:
        """Return the folder with the SQL that makes the system tables."""
        for folder in (self.base / "share" / "mysql", self.base / "share" / "mariadb", self.base / "share"):
            if _system_tables(folder):
                return folder
        raise Failed(f"{self.server}: the SQL of its system tables is not below {self.base}/share")

    def environment(self) -> dict[str, str]:
        return environment(self.libraries)

    def argv(self, data: Path) -> list[str]:
        user = pwd.getpwuid(os.getuid()).pw_name if os.getuid() == 0 else None
        return [
            str(self.server), "--no-defaults", f"--basedir={self.base}", f"--datadir={data}",
            f"--tmpdir={data.parent / 'tmp'}", f"--lc-messages-dir={self.share}",
            *([f"--user={user}"] if user else []),
        ]


def find_binaries() -> Binaries:
    """Return an installed or downloaded MariaDB. Raise NotToBeHad."""
    return _installed() or _fetched()


def start(folder: Path, options: Sequence[str] = ()) -> dict[str, Any]:
    """Start a server unless it runs, on its earlier port if it had one; return its state when it answers.

    `options` follow those that every server has here."""
    for name in ("data", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    state = read_state(folder / STATE)
    if is_alive(state):
        return state
    binaries = find_binaries()
    if not (folder / "data" / "mysql").is_dir():
        _initialise(binaries, folder)
    ports = [int(state["port"])] if "port" in state else random.sample(PORTS, PORT_ATTEMPTS)
    for port in ports:
        if is_free(port):
            return _run(binaries, folder, port, options)
    raise Failed(f"port {ports[0]} is taken" if "port" in state else "no free port was found")


def stop(folder: Path, number: signal.Signals = signal.SIGTERM) -> bool:
    """End the server of this folder; return False if none was running."""
    return end(read_state(folder / STATE), number)


def _initialise(binaries: Binaries, folder: Path) -> None:
    """Make the system tables, as mariadb-install-db does; root needs no password, even over TCP."""
    shutil.rmtree(folder / "data")
    (folder / "data").mkdir()
    head = b"create database if not exists mysql;\nuse mysql;\nSET @auth_root_socket=NULL;\n"
    script = head + b"".join(path.read_bytes() for path in _system_tables(binaries.share))
    argv = [
        *binaries.argv(folder / "data"), "--bootstrap", "--silent-startup", "--log-warnings=0",
        "--enforce-storage-engine=", "--max-allowed-packet=8M", "--net-buffer-length=16K",
        "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M",
    ]
    made = subprocess.run(
        argv, input=script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=binaries.environment(), check=False
    )
    if made.returncode:
        shutil.rmtree(folder / "data", ignore_errors=True)    # so that the next start does not take it for complete
        raise Failed(f"the system tables could not be made:\n{last_lines(made.stdout)}")


def _run(binaries: Binaries, folder: Path, port: int, options: Sequence[str]) -> dict[str, Any]:
    log = folder / "mariadbd.log"
    argv = [*binaries.argv(folder / "data"), f"--port={port}", *SERVER_OPTIONS, *options]
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True, cwd=folder, env=binaries.environment(),
        )
    state = {"url": f"mysql://root@{HOST}:{port}", "port": port, **identity(process.pid)}
    write_state(folder / STATE, state)
    try:
        _await_answer(process, port, log)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return state


def _await_answer(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _greets(port):
        if process.poll() is not None or time.monotonic() > deadline:
            how = f"ended with {process.returncode}" if process.returncode is not None else "does not answer"
            raise Failed(f"mariadbd {how}; the end of {log}:\n{last_lines(log.read_bytes())}")
        time.sleep(POLL_SECONDS)


def _greets(port: int) -> bool:
    """Return whether the server sends its handshake: protocol 10, in the first byte after a header of four bytes."""
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            return connection.recv(5)[4:] == b"\x0a"
    except OSError:
        return False


def _system_tables(share: Path) -> list[Path]:
    """Return the scripts in the order in which they must run; the prefix of their names depends on the version."""
    for prefix in ("mysql", "mariadb"):
        names = ("system_tables", "performance_tables", "system_tables_data")
        paths = [share / f"{prefix}_{name}.sql" for name in names]
        if all(path.is_file() for path in paths):
            return paths
    return []


# Find or download MariaDB


def _installed() -> Binaries | None:
    folders = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin", "/usr/local/sbin"))
    found = shutil.which("mariadbd", path=folders)
    if not found:
        return None
    binaries = Binaries(Path(found), Path(found).resolve().parent.parent)
    # A half-removed package leaves the program without its SQL.
    return binaries if _system_tables(binaries.share) else None


def _fetched() -> Binaries:
    """Return Debian's packages, unpacked under .cache; the first run that needs them downloads them."""
    root = fetched("mariadb", "mariadbd", ["mariadb-server-core"], lambda made: [made / "usr" / "sbin" / "mariadbd"])
    return Binaries(root / "usr" / "sbin" / "mariadbd", root / "usr", library_path(root))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bin/mariadb", description="A MariaDB server for tests.")
    parser.add_argument("verb", choices=["start", "stop", "kill", "restart"],
                        help="kill sends SIGKILL; start after stop or kill uses the same data and port")
    parser.add_argument("--dir", required=True, type=Path, help="folder of its data; created if missing")
    parser.add_argument("--throw-away", action="store_true",
                        help="start or restart a server that waits for no disk: its data may be lost if it is killed")
    asked = parser.parse_args(arguments)
    folder = asked.dir.resolve()
    if asked.verb in ("stop", "kill") and not folder.is_dir():
        sys.stderr.write(f"MariaDB was not running: {folder} does not exist\n")
        return 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / "mariadb.lock"):
            if asked.verb != "start":
                was_running = stop(folder, signal.SIGKILL if asked.verb == "kill" else signal.SIGTERM)
                sys.stderr.write(f"MariaDB {'has ended' if was_running else 'was not running'}\n")
            if asked.verb in ("start", "restart"):
                state = start(folder, THROW_AWAY_OPTIONS if asked.throw_away else ())
                sys.stdout.write(json.dumps({"url": state["url"], "pid": state["pid"]}) + "\n")
    except NotToBeHad as error:
        sys.stderr.write(f"MariaDB is not available: {error}\n")
        return NOT_TO_BE_HAD
    except (Failed, OSError) as error:
        sys.stderr.write(f"MariaDB: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
