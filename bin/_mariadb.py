"""A temporary MariaDB server for the tests, which any user can run without changes to the system.

If mariadbd is installed, it is used. Otherwise Debian's packages are downloaded with apt-get (never installed) and
unpacked under `.cache/mariadb`, with the libraries that they need and the system lacks; later runs need no network.
This uses only the standard library, since it runs before there is a virtual environment.

DIR has `data`, `tmp`, `mariadbd.log`, and `mariadb.json` with the port, the pid and the start time. Another process may
have the pid later, so no signal is sent before the start time is compared.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CACHE = Path(__file__).resolve().parent.parent / ".cache"
HOST = "127.0.0.1"
PORTS = range(13300, 32000)    # below the ports that Linux assigns to clients
PORT_ATTEMPTS = 5
START_SECONDS = 60.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.02
NOT_TO_BE_HAD = 4

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


class NotToBeHad(Exception):
    """MariaDB is not installed and cannot be downloaded."""


class Failed(Exception):
    """MariaDB is available, but fails."""


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
        if not self.libraries:
            return dict(os.environ)
        inherited = os.environ.get("LD_LIBRARY_PATH", "")
        return {**os.environ, "LD_LIBRARY_PATH": self.libraries + (f":{inherited}" if inherited else "")}

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
    state = _read_state(folder)
    if _is_alive(state):
        return state
    binaries = find_binaries()
    if not (folder / "data" / "mysql").is_dir():
        _initialise(binaries, folder)
    ports = [int(state["port"])] if "port" in state else random.sample(PORTS, PORT_ATTEMPTS)
    for port in ports:
        if _is_free(port):
            return _run(binaries, folder, port, options)
    raise Failed(f"port {ports[0]} is taken" if "port" in state else "no free port was found")


def stop(folder: Path, number: signal.Signals = signal.SIGTERM) -> bool:
    """End the server of this folder; return False if none was running."""
    state = _read_state(folder)
    if not _is_alive(state):
        return False
    _send(state, number)
    deadline = time.monotonic() + STOP_SECONDS
    while _is_alive(state):
        if time.monotonic() > deadline:
            _send(state, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    return True


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
        raise Failed(f"the system tables could not be made:\n{_last_lines(made.stdout)}")


def _run(binaries: Binaries, folder: Path, port: int, options: Sequence[str]) -> dict[str, Any]:
    log = folder / "mariadbd.log"
    argv = [*binaries.argv(folder / "data"), f"--port={port}", *SERVER_OPTIONS, *options]
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True, cwd=folder, env=binaries.environment(),
        )
    state = {
        "url": f"mysql://root@{HOST}:{port}", "pid": process.pid, "port": port,
        "started": _start_time(process.pid) or 0,
    }
    _write_state(folder, state)
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
            raise Failed(f"mariadbd {how}; the end of {log}:\n{_last_lines(log.read_bytes())}")
        time.sleep(POLL_SECONDS)


def _greets(port: int) -> bool:
    """Return whether the server sends its handshake: protocol 10, in the first byte after a header of four bytes."""
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            return connection.recv(5)[4:] == b"\x0a"
    except OSError:
        return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


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
    root = CACHE / "mariadb"
    with _locked(CACHE / "mariadb.lock"):
        if not (root / "complete").exists():
            _fetch(root)
    return _unpacked(root)


def _unpacked(root: Path) -> Binaries:
    libraries = sorted({str(path.parent) for path in root.rglob("lib*.so*")})
    return Binaries(root / "usr" / "sbin" / "mariadbd", root / "usr", ":".join(libraries))


def _fetch(root: Path) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise NotToBeHad(f"mariadbd is not installed, and without {tool} Debian's package cannot be downloaded")
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.write("MariaDB is not installed; downloading Debian's packages into .cache (once) ...\n")
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="mariadb.") as made_in:
        making = Path(made_in, "root")
        making.mkdir()
        apt = Apt(Path(made_in, "packages"))
        wanted = ["mariadb-server-core"]
        seen: set[str] = set()
        while wanted:
            packages = apt.download(wanted)
            seen.update(wanted)
            for package in packages:
                _unpack(package, making)
            missing = _missing_libraries(_unpacked(making))
            wanted = [name for name in _libraries_of(packages) if name not in seen] if missing else []
        if missing:
            raise NotToBeHad(f"Debian's mariadbd needs {', '.join(missing)}, which none of its dependencies contains")
        (making / "complete").touch()
        making.rename(root)


def _unpack(package: Path, root: Path) -> None:
    done = subprocess.run(
        ["dpkg-deb", "-x", str(package), str(root)],  # noqa: S607
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )
    if done.returncode:
        raise NotToBeHad(f"{package.name} cannot be unpacked: {_one_line(done.stdout)}")


def _missing_libraries(binaries: Binaries) -> list[str]:
    done = subprocess.run(
        ["ldd", str(binaries.server)],  # noqa: S607
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=binaries.environment(), check=False,
    )
    return re.findall(r"^\s*(\S+) => not found", done.stdout.decode(), re.MULTILINE)


def _libraries_of(packages: Sequence[Path]) -> list[str]:
    """Return the library packages that these depend on and that are not installed."""
    names: list[str] = []
    for package in packages:
        fields = _output(["dpkg-deb", "-f", str(package), "Pre-Depends", "Depends"])
        for line in fields.splitlines():
            for one in line.partition(":")[2].split(","):
                first = re.match(r"\s*(lib[a-z0-9.+-]+)", one)    # the first alternative, which Debian prefers
                if first and first[1] not in names and not _is_installed(first[1]):
                    names.append(first[1])
    return names


def _is_installed(package: str) -> bool:
    return "ok installed" in _output(["dpkg-query", "-W", "-f=${Status}\n", package])


def _output(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode("utf-8", "replace")


class Apt:
    """apt-get with its own caches and package lists: it reads the system's, and writes nothing to the system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        state = CACHE / "apt"
        for name in ("lists/partial", "cache/archives/partial"):
            (state / name).mkdir(parents=True, exist_ok=True)
        self._own_lists = ("-o", f"Dir::State::Lists={state / 'lists'}")
        # The machine's apt.conf.d is not used, since its hooks would change the machine; but its Acquire options, such
        # as proxies, are copied.
        config = state / "apt.conf"
        kept = [line for line in _output(["apt-config", "dump"]).splitlines() if line.startswith("Acquire::")]
        config.write_text("\n".join((
            'Dir::Etc::Main "/dev/null";', f'Dir::Etc::Parts "{state / "no.conf.d"}";',
            f'Dir::Cache "{state / "cache"}";', 'Dir::Cache::pkgcache "";', 'Dir::Cache::srcpkgcache "";',
            f'APT::Sandbox::User "{pwd.getpwuid(os.getuid()).pw_name}";', 'Debug::NoLocking "1";',
            *kept, "",
        )), encoding="utf-8")
        self._environment = {**os.environ, "APT_CONFIG": str(config), "LC_ALL": "C"}

    def download(self, names: Sequence[str]) -> list[Path]:
        """Download the packages and return their files: with the machine's lists, or with new ones if these fail."""
        before = set(self._folder.iterdir())
        problem = self._apt_get("download", *names)
        if problem:
            problem = self._apt_get(*self._own_lists, "update")
            problem = self._apt_get(*self._own_lists, "download", *names) and (problem or "apt-get download failed")
        found = sorted(set(self._folder.iterdir()) - before)
        if problem or len(found) < len(names):
            raise NotToBeHad(f"mariadbd is not installed, and Debian's packages cannot be downloaded: {problem}")
        return found

    def _apt_get(self, *arguments: str) -> str:
        """Run apt-get; return the reason of a failure in one line, "" for success."""
        done = subprocess.run(
            ["apt-get", "-qq", *arguments],  # noqa: S607
            cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        # For apt-get, an update that reached no mirror is only a warning.
        errors = [line for line in lines if "Failed to fetch" in line or line.startswith(("E:", "Err:"))]
        return (errors or lines or ["apt-get failed"])[0] if errors or done.returncode else ""


# The state in DIR


def _read_state(folder: Path) -> dict[str, Any]:
    try:
        state = json.loads((folder / "mariadb.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _write_state(folder: Path, state: dict[str, Any]) -> None:
    draft = folder / f".mariadb.json.{os.getpid()}"
    draft.write_text(json.dumps(state), encoding="utf-8")
    draft.replace(folder / "mariadb.json")


def _is_alive(state: dict[str, Any]) -> bool:
    return "pid" in state and _start_time(state["pid"]) == state["started"]


def _send(state: dict[str, Any], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(state["pid"])
        try:
            if _is_alive(state):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _start_time(pid: int) -> int | None:
    """Return the start time of a living process, in clock ticks since boot; None for any other."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = line[line.rindex(b")") + 2:].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _one_line(output: bytes) -> str:
    return " ".join(output.decode("utf-8", "replace").split())


def _last_lines(output: bytes, lines: int = 15) -> str:
    return "\n".join(f"    {line}" for line in output.decode("utf-8", "replace").splitlines()[-lines:])


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
        with _locked(folder / "mariadb.lock"):
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
