"""Runs the checks: ruff, mypy, and pytest with a MariaDB server beside it, and with the genuine FATE client.

Everything a run writes lies in a folder of its own, `.cache/test/<name>`, which is removed in the end;
FATE_FLOW_TEST_KEEP=1 leaves it. A run holds a lock in its folder, so that a later run can tell what was left
by one that was killed, and ends the servers in it.

pytest is this same file in a process of its own: what went wrong before the tests has to be printed above
pytest's closing line, which is the last that anybody reads.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

CHECKOUT = Path(__file__).resolve().parent.parent
CACHE = CHECKOUT / ".cache"
URL_VARIABLE = "FATE_FLOW_TEST_MYSQL_URL"
CLIENT_VARIABLE = "FATE_FLOW_TEST_FATE_CLIENT"
NOTES_VARIABLE = "FATE_FLOW_TEST_NOTES"
SIDE_BY_SIDE = ("-n", "4")
"""Two processes mostly wait for servers, two work: tests/division.py."""
FAST = ("-n", "2", "-m", "not long", "tests/unit", "tests/simulation")
"""What a developer runs again and again: nothing of it needs a database server or another environment."""
SCRIPTS = sorted(f"bin/{path.name}" for path in CHECKOUT.glob("bin/*.py"))
CHECKS = (
    ("ruff", ["ruff", "check", "--quiet", "fate_flow", "tests", "bin"]),
    ("mypy", ["mypy", "--no-error-summary", "fate_flow", *SCRIPTS]),
)


class Terminated(KeyboardInterrupt):
    """Somebody wants us to end, and said so to this process alone."""


@dataclass
class Outcome:
    """What went wrong outside the tests: lines for the reader, and whether the run fails for it."""

    notes: list[str] = field(default_factory=list)
    failed: bool = False

    def add(self, note: str, *, fails: bool) -> None:
        self.notes.append(note)
        self.failed = self.failed or fails


def run_fast(arguments: Sequence[str]) -> int:
    """The exit code of all checks, and of those tests that take less than a minute together."""
    with _own_folder() as folder:
        environment = _environment(folder)
        outcome = _checked(environment)
        return _run_tests(folder, environment, outcome, [*FAST, *arguments])


def run_all(arguments: Sequence[str]) -> int:
    """The exit code of the whole run."""
    is_ci = os.environ.get("CI", "").lower() in ("1", "true", "yes")
    with _own_folder() as folder, _mariadb(folder) as server, _Helper("_fate_client.py") as client:
        environment = _environment(folder)
        outcome = Outcome() if arguments else _checked(environment)
        url, problem = server.wait()
        if url:
            environment[URL_VARIABLE] = url
        else:
            outcome.add(f"MARIADB PART SKIPPED: {problem}", fails=is_ci or not server.cannot_be_had)
        found, problem = client.wait()
        environment[CLIENT_VARIABLE] = found.get("python", "")
        if problem:
            outcome.add(f"GENUINE CLIENT PART SKIPPED: {problem}", fails=is_ci or not client.cannot_be_had)
        return _run_tests(folder, environment, outcome, arguments or SIDE_BY_SIDE)


def _environment(folder: Path) -> dict[str, str]:
    """Nothing that a check or a test writes leaves the checkout."""
    return {
        **os.environ, "TMPDIR": str(folder / "tmp"), "HYPOTHESIS_STORAGE_DIRECTORY": str(CACHE / "hypothesis"),
        "RUFF_CACHE_DIR": str(CACHE / "ruff"), "MYPY_CACHE_DIR": str(CACHE / "mypy"),
    }


def _checked(environment: dict[str, str]) -> Outcome:
    """What the checks before the tests find wrong."""
    outcome = Outcome()
    for name, argv in CHECKS:
        if _run([sys.executable, "-P", "-m", *argv], environment):
            outcome.add(f"{name} FAILED, see above", fails=True)
    return outcome


def _run_tests(folder: Path, environment: dict[str, str], outcome: Outcome, arguments: Sequence[str]) -> int:
    """The exit code of pytest, which prints the notes of the outcome above its closing line."""
    environment[NOTES_VARIABLE] = json.dumps(outcome.notes)
    code = _run([
        sys.executable, "-P", str(Path(__file__)), "--pytest", f"--basetemp={folder / 'pytest'}",
        "-o", f"cache_dir={CACHE / 'pytest'}", *arguments,
    ], environment)
    return code or int(outcome.failed)


class _Helper:
    """A script beside this one, at work while the other checks run: it prints JSON, or says what is wrong."""

    def __init__(self, script: str, *arguments: str) -> None:
        # In a session of its own: Ctrl-C is for us to act on, not for it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(CHECKOUT / "bin" / script), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )
        self.cannot_be_had = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)    # with what it has started
        self._process.communicate()

    def ended(self) -> tuple[str, str]:
        """All that it printed, once it has come to its end: its output, and what it said."""
        return self._process.communicate()

    def wait(self) -> tuple[dict[str, Any], str]:
        """The document that it printed, or why there is none."""
        output, errors = self.ended()
        if self._process.returncode == 0:
            return json.loads(output), ""
        self.cannot_be_had = self._process.returncode == 4
        lines = errors.strip().splitlines()
        return {}, "\n".join(lines[-1:] if self.cannot_be_had else lines)


class _Server:
    """MariaDB, on its way up while the other checks run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._given = os.environ.get(URL_VARIABLE, "")
        self._starting = None if self._given else self._call("start")

    @property
    def cannot_be_had(self) -> bool:
        return self._starting is not None and self._starting.cannot_be_had

    def wait(self) -> tuple[str, str]:
        """Its URL, or why there is none."""
        if self._starting is None:
            return self._given, ""
        found, problem = self._starting.wait()
        return str(found.get("url", "")), problem

    def stop(self) -> None:
        if self._starting:
            self._starting.ended()
            self._call("stop").ended()

    def _call(self, verb: str) -> _Helper:
        return _Helper("_mariadb.py", verb, "--dir", str(self._folder))


@contextmanager
def _mariadb(folder: Path) -> Iterator[_Server]:
    server = _Server(folder / "mariadb")
    try:
        yield server
    finally:
        _be_deaf()
        server.stop()


@contextmanager
def _own_folder() -> Iterator[Path]:
    runs = CACHE / "test"
    runs.mkdir(parents=True, exist_ok=True)
    with _locked(runs.with_suffix(".lock")):
        for left in sorted(path for path in runs.iterdir() if path.is_dir()):
            _clear_if_abandoned(left)
        # Short: paths of Unix sockets below it may have 107 characters.
        folder = Path(tempfile.mkdtemp(dir=runs, prefix=""))
        (folder / "tmp").mkdir()
        lock = (folder / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        _be_deaf()
        if os.environ.get("FATE_FLOW_TEST_KEEP"):
            _end_servers(folder)
        else:
            _clear(folder)
        lock.close()


def _clear_if_abandoned(folder: Path) -> None:
    with (folder / "lock").open("a") as lock, suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _clear(folder)


def _clear(folder: Path) -> None:
    _end_servers(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _end_servers(folder: Path) -> None:
    """What a test, or a whole run, that did not come to its end has left running."""
    if (folder / "mariadb" / "mariadb.json").exists():
        _quietly(str(CHECKOUT / "bin" / "_mariadb.py"), "stop", "--dir", str(folder / "mariadb"))
    clusters = {path.parents[2] for path in folder.rglob("run/server.json")}
    for cluster in sorted(path for path in clusters if (path / "cluster.json").exists()):
        _quietly("-m", "fate_flow.cli.server.cluster", "down", "--dir", str(cluster))


def _quietly(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-P", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True, check=False,
    )


def _run(argv: Sequence[str], environment: dict[str, str]) -> int:
    """The exit code of a command that shares our terminal; interrupted, we wait until it has cleaned up."""
    process = subprocess.Popen(argv, cwd=CHECKOUT, env=environment)
    try:
        return process.wait()
    except BaseException as error:
        if isinstance(error, Terminated):    # Ctrl-C reaches it without us
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(timeout=60)
        process.kill()
        process.wait()
        raise


def _be_deaf() -> None:
    """What is left to do has to be done whatever comes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def _locked(path: Path) -> Iterator[IO[str]]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


class _Notes:
    """A pytest plugin: what went wrong before the tests, right above the closing line."""

    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, None, None]:
        yield
        for note in json.loads(os.environ.get(NOTES_VARIABLE, "[]")):
            first, *others = note.splitlines()
            terminalreporter.write_sep("!", first, red=True, bold=True)
            for line in others:
                terminalreporter.write_line(line)


def _run_pytest(arguments: Sequence[str]) -> int:
    import pytest

    pytest.hookimpl(wrapper=True, tryfirst=True)(_Notes.pytest_terminal_summary)    # outermost, so that it ends last
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, str(CHECKOUT))    # as `python -m pytest` has it
    return int(pytest.main(list(arguments), plugins=[_Notes()]))


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def main(arguments: Sequence[str]) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)    # pytest takes down its fixtures on this one
    if arguments[:1] == ["--pytest"]:
        return _run_pytest(arguments[1:])
    try:
        return run_fast(arguments[1:]) if arguments[:1] == ["--fast"] else run_all(arguments)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
