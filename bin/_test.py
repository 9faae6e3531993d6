"""Run the checks: ruff, mypy, and pytest with a MariaDB server, the genuine FATE client, Slurm and promtool.

`--heavy` runs the tests that take long or need large packages of others, and nothing else; `--kubernetes` those with an
API server of Kubernetes, which takes ten minutes of a processor to build.

A run writes only to its own folder, `.cache/test/<name>`, and removes it at the end, unless FATE_FLOW_TEST_KEEP=1. What
tests that have passed and servers that have ended leave in it is removed at once. A run holds a lock in its folder. So
a later run recognises the folder of a killed run, and ends the servers in it.

pytest is this same file in another process: earlier problems must be printed above pytest's closing line, which is the
last line that people read.
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
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

CHECKOUT = Path(__file__).resolve().parent.parent
CACHE = CHECKOUT / ".cache"
URL_VARIABLE = "FATE_FLOW_TEST_MYSQL_URL"
NOTES_VARIABLE = "FATE_FLOW_TEST_NOTES"
BEFORE_VARIABLE = "FATE_FLOW_TEST_BEFORE"
"""What failed before a run (.ci/run): the run says it, too, and fails."""
PARTS = {
    "FATE_FLOW_TEST_FATE_CLIENT": ("GENUINE CLIENT", "python", "_environment.py", "fate_client"),
    "FATE_FLOW_TEST_SLURM": ("SLURM", "slurmctld", "_slurm.py", "fetch"),
    "FATE_FLOW_TEST_PROMTOOL": ("PROMTOOL", "promtool", "_programs.py", "prometheus"),
    "FATE_FLOW_TEST_BWRAP": ("SANDBOX", "bwrap", "_programs.py", "bubblewrap"),
    "FATE_FLOW_TEST_KUSTOMIZE": ("KUSTOMIZE", "kustomize", "_programs.py", "kustomize"),
    "FATE_FLOW_TEST_NGINX": ("NGINX", "nginx", "_programs.py", "nginx"),
}
HEAVY_PARTS = {
    "FATE_FLOW_TEST_FATE": ("FATE", "python", "_fate_provider.py", "install", "--json"),
    "FATE_FLOW_TEST_FATE_CLIENT_2": ("FATE CLIENT 2", "python", "_environment.py", "fate_client_2"),
    "FATE_FLOW_TEST_FLOWER": ("FLOWER", "python", "_environment.py", "flower"),
    "FATE_FLOW_TEST_FLOWER_1_41": ("FLOWER 1.41", "python", "_environment.py", "flower_1_41"),
    "FATE_FLOW_TEST_XGBOOST": ("XGBOOST", "python", "_environment.py", "xgboost"),
    "FATE_FLOW_TEST_SPU": ("SPU", "python", "_environment.py", "spu"),
    "FATE_FLOW_TEST_RAY": ("RAY", "python", "_environment.py", "ray"),
    "FATE_FLOW_TEST_MACHINE": ("MACHINE", "", "_programs.py", "machine"),
    "FATE_FLOW_TEST_RECORD_CHECKER": ("RECORD CHECKER", "checker", "_record_checker.py"),
}
KUBERNETES = {"FATE_FLOW_TEST_KUBERNETES": ("KUBERNETES", "", "_kubernetes.py")}
BROWSER = {"FATE_FLOW_TEST_BROWSER": ("BROWSER", "", "_programs.py", "browser")}
"""Programs of others, by the variable that says to the tests where they are: what a banner calls them, the key in what
the script prints (empty: all of it, as JSON), and the script that gets them."""
KUBERNETES_TESTS = ("tests/heavy/test_kubernetes.py",)
HEAVY_TESTS = (
    "-n", "3", "--maxfail", "2", "-m", "heavy", "--ignore", *KUBERNETES_TESTS,
    "tests/heavy", "tests/integration", "tests/simulation",
)  # fmt: skip
"""One process has the tests with FATE's components (tests/division.py). After two failures the rest is left out: each
test might wait for its deadline."""
SIDE_BY_SIDE = ("-n", "4", "-m", "not heavy")
"""Three processes mostly wait for servers, the other one computes: tests/division.py."""
FAST = ("-n", "4", "-m", "not long and not heavy", "--hypothesis-profile", "quick", "tests/unit", "tests/simulation")
"""The tests for a developer's loop: none needs a database server or another environment. Tests that make up values make
up fewer (tests/conftest.py)."""
SCRIPTS = sorted(str(path.relative_to(CHECKOUT)) for path in CHECKOUT.glob("bin/**/*.py"))
KEEP_VARIABLE = "FATE_FLOW_TEST_KEEP"
_KEPT = "all" if os.environ.get(KEEP_VARIABLE) else "failed"
"""Which folders of tests stay until the end of the run: to remove all of them at its end takes seconds."""
_CHECKS_SECONDS = 600.0      # for ruff and mypy, after the last test
_END_SECONDS, _PAUSE_SECONDS = 60.0, 0.05       # for killed processes
_TERMINAL = 4        # in /proc/PID/stat, after the name
CHECKS = (
    ("ruff", ["ruff", "check", "--quiet", "fate_flow", "tests", "bin"]),
    ("mypy", ["mypy", "--no-error-summary", "fate_flow", *SCRIPTS]),
)


class Terminated(KeyboardInterrupt):
    """A signal to this process alone asks it to end."""


@dataclass
class Outcome:
    """The problems outside the tests: lines for the reader, and whether the run fails."""

    notes: list[str] = field(default_factory=list)
    failed: bool = False

    def add(self, note: str, *, fails: bool) -> None:
        self.notes.append(note)
        self.failed = self.failed or fails


class _Checks:
    """ruff and mypy, which run beside the tests. What they found is printed above pytest's closing line."""

    def __init__(self, folder: Path, environment: dict[str, str], checks: Sequence[tuple[str, list[str]]]) -> None:
        self._begun = []
        for name, argv in checks:
            output = folder / f"{name}.txt"
            with output.open("w") as file:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", *argv], cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL,
                    stdout=file, stderr=subprocess.STDOUT, start_new_session=True,     # Ctrl-C ends this process
                )
            self._begun.append((name, process, output))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _name, process, _output in self._begun:
            process.kill()
            process.wait()

    def add_to(self, outcome: Outcome) -> None:
        """Wait for their ends."""
        for name, process, output in self._begun:
            if process.wait():
                found = output.read_text(encoding="utf-8", errors="replace").strip()
                outcome.add(f"{name} FAILED\n{found}", fails=True)


def run_fast(arguments: Sequence[str]) -> int:
    """Run all checks, and the tests of a developer's loop; return the exit code."""
    with _own_folder() as folder:
        environment = _environment(folder)
        with _Checks(folder, environment, CHECKS) as checks:
            return _run_tests(folder, environment, checks, Outcome(), [*FAST, *arguments])


def run_heavy(arguments: Sequence[str]) -> int:
    """Run the tests that take long or need large packages of others (the mark `heavy`); return the exit code."""
    with _own_folder() as folder, _mariadb(folder) as server, _fetched(PARTS | HEAVY_PARTS | BROWSER) as parts:
        environment, outcome = _environment(folder), Outcome()
        if before := os.environ.get(BEFORE_VARIABLE):
            outcome.add(before, fails=True)
        server.add_to(environment, outcome)
        parts.add_to(environment, outcome)
        with _Checks(folder, environment, ()) as checks:
            return _run_tests(folder, environment, checks, outcome, arguments or [*HEAVY_TESTS, *_with_heavy_tests()])


def run_kubernetes(arguments: Sequence[str]) -> int:
    """Run the tests with a real API server of Kubernetes, which is built first; return the exit code."""
    with _own_folder() as folder, _fetched(KUBERNETES) as parts:
        environment, outcome = _environment(folder), Outcome()
        parts.add_to(environment, outcome)
        with _Checks(folder, environment, ()) as checks:
            return _run_tests(folder, environment, checks, outcome, [*KUBERNETES_TESTS, *arguments])


def _with_heavy_tests() -> list[str]:
    """Return the files outside these folders that may have tests with the mark: pytest need not import the others."""
    files = [one for one in (CHECKOUT / "tests").glob("*/**/test_*.py") if "heavy" in one.read_text(encoding="utf-8")]
    return sorted(name for one in files if not (name := str(one.relative_to(CHECKOUT))).startswith(HEAVY_TESTS[-3:]))


def run_all(arguments: Sequence[str]) -> int:
    """Run all checks and tests but those of `--heavy`, or the tests that are asked for; return the exit code."""
    wanted = PARTS | BROWSER if any("browser" in one for one in arguments) else PARTS
    with _own_folder() as folder, _mariadb(folder) as server, _fetched(wanted) as parts:
        environment, outcome = _environment(folder), Outcome()
        with _Checks(folder, environment, () if arguments else CHECKS) as checks:
            server.add_to(environment, outcome)
            parts.add_to(environment, outcome)
            if os.geteuid():
                outcome.add("PROGRAMS OF ANOTHER USER SKIPPED: only root can run them", fails=False)
            if problem := _why_no_groups():
                outcome.add(f"LIMITS BY CGROUPS SKIPPED: {problem}", fails=False)     # they need root, also on a CI
            return _run_tests(folder, environment, checks, outcome, arguments or SIDE_BY_SIDE)


def _why_no_groups() -> str:
    """Return why this machine lets no test limit processes by cgroups; empty if it does."""
    from fate_flow.engines.local.group_search import AUTO, find_groups  # not for each start

    return find_groups(AUTO, f"fate_flow-test-{os.getpid()}", 0).why_not


def _is_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment: checks and tests write only inside the checkout."""
    return {
        **os.environ, "TMPDIR": str(_temporary(folder)), "HYPOTHESIS_STORAGE_DIRECTORY": str(CACHE / "hypothesis"),
        "RUFF_CACHE_DIR": str(CACHE / "ruff"), "MYPY_CACHE_DIR": str(CACHE / "mypy"),
    }


def _temporary(folder: Path) -> Path:
    return folder / "tmp"


def _run_tests(
    folder: Path, environment: dict[str, str], checks: _Checks, outcome: Outcome, arguments: Sequence[str]
) -> int:
    """Run pytest, which prints the notes of the outcome above its closing line; return the exit code."""
    notes = folder / "notes.json"
    environment[NOTES_VARIABLE] = str(notes)

    def write_notes() -> None:
        checks.add_to(outcome)
        draft = notes.with_suffix(".draft")
        draft.write_text(json.dumps(outcome.notes), encoding="utf-8")
        draft.replace(notes)

    writing = threading.Thread(target=write_notes, daemon=True)
    writing.start()
    code = _run([
        sys.executable, "-P", str(Path(__file__)), "--pytest", f"--basetemp={folder / 'pytest'}",
        "-o", f"cache_dir={CACHE / 'pytest'}", "-o", f"tmp_path_retention_policy={_KEPT}", *arguments,
    ], environment)
    writing.join()
    return code or int(outcome.failed)


class _Helper:
    """A script of this folder that runs during the other checks: it prints JSON, or its problem."""

    def __init__(self, script: str, *arguments: str) -> None:
        # In its own session: Ctrl-C must reach only this process.
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
            os.killpg(self._process.pid, signal.SIGTERM)    # with the processes that it has started
        self._process.communicate()

    def ended(self) -> tuple[str, str]:
        """Wait for its end; return its stdout and stderr."""
        return self._process.communicate()

    def wait(self) -> tuple[dict[str, Any], str]:
        """Return the document that it printed, and the reason if there is none."""
        output, errors = self.ended()
        if self._process.returncode == 0:
            return json.loads(output), ""
        self.cannot_be_had = self._process.returncode == 4
        lines = errors.strip().splitlines()
        return {}, "\n".join(lines[-1:] if self.cannot_be_had else lines)


class _Fetched:
    """Programs of others that are got during the other checks."""

    def __init__(self, parts: Mapping[str, tuple[str, ...]], helpers: Mapping[str, _Helper]) -> None:
        self._parts = parts
        self._helpers = helpers

    def add_to(self, environment: dict[str, str], outcome: Outcome) -> None:
        """Wait for them. The variable of what cannot be had is empty, and a banner says so."""
        for variable, (title, key, *_) in self._parts.items():
            helper = self._helpers[variable]
            found, problem = helper.wait()
            environment[variable] = found.get(key, "") if key else json.dumps(found) if found else ""
            if problem:
                outcome.add(f"{title} PART SKIPPED: {problem}", fails=_is_ci() or not helper.cannot_be_had)


@contextmanager
def _fetched(parts: Mapping[str, tuple[str, ...]]) -> Iterator[_Fetched]:
    with ExitStack() as stack:
        yield _Fetched(parts, {name: stack.enter_context(_Helper(*script)) for name, (_, _, *script) in parts.items()})


class _Server:
    """A MariaDB server that starts during the other checks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._given = os.environ.get(URL_VARIABLE, "")
        # Tests that kill a database server start one of their own, whose commits are on disk.
        self._starting = None if self._given else self._call("start", "--throw-away")

    def add_to(self, environment: dict[str, str], outcome: Outcome) -> None:
        """Wait for it. Without one, there is no variable, and a banner says so."""
        if self._starting is None:
            environment[URL_VARIABLE] = self._given
            return
        found, problem = self._starting.wait()
        if url := str(found.get("url", "")):
            environment[URL_VARIABLE] = url
        else:
            outcome.add(f"MARIADB PART SKIPPED: {problem}", fails=_is_ci() or not self._starting.cannot_be_had)

    def stop(self) -> None:
        if self._starting:
            self._starting.ended()
            self._call("stop").ended()

    def _call(self, *verb: str) -> _Helper:
        return _Helper("_mariadb.py", *verb, "--dir", str(self._folder))


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
        # A short name: paths of Unix sockets below it may have at most 107 characters.
        folder = Path(tempfile.mkdtemp(dir=runs, prefix=""))
        _temporary(folder).mkdir()
        lock = (folder / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        _be_deaf()
        if os.environ.get(KEEP_VARIABLE):
            _end_processes(folder)
        else:
            _clear(folder)
        lock.close()


def _clear_if_abandoned(folder: Path) -> None:
    with (folder / "lock").open("a") as lock, suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _clear(folder)


def _clear(folder: Path) -> None:
    _end_processes(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _end_processes(folder: Path) -> None:
    """Kill what an unfinished test or run has left running: pytest, servers, workers, databases."""
    deadline = time.monotonic() + _END_SECONDS
    while (left := [process for process in Path("/proc").glob("[0-9]*") if _belongs_to(process, folder)]):
        if time.monotonic() > deadline:
            return
        for process in left:
            with suppress(OSError):      # it has ended
                handle = os.pidfd_open(int(process.name))
                try:
                    if _belongs_to(process, folder):    # and not to a process that has the number now
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                finally:
                    os.close(handle)
        time.sleep(_PAUSE_SECONDS)       # a server that was not dead yet may have started others


def _belongs_to(process: Path, folder: Path) -> bool:
    """Whether the run of this folder has started it. A shell or an editor in which somebody looks at the folder has
    a terminal."""
    try:
        if process.name == str(os.getpid()) or process.stat().st_uid != os.getuid():
            return False
        if f"TMPDIR={_temporary(folder)}".encode() in (process / "environ").read_bytes().split(b"\0"):
            return True
        has_terminal = (process / "stat").read_bytes().rpartition(b")")[2].split()[_TERMINAL] != b"0"
        text = (process / "cmdline").read_bytes() + bytes((process / "cwd").readlink())
        return not has_terminal and f"{folder}/".encode() in text + b"/"
    except OSError:     # it has ended
        return False


def _run(argv: Sequence[str], environment: dict[str, str]) -> int:
    """Run a command that shares our terminal; return its exit code. If interrupted, wait until it has cleaned up."""
    process = subprocess.Popen(argv, cwd=CHECKOUT, env=environment)
    try:
        return process.wait()
    except BaseException as error:
        if isinstance(error, Terminated):    # Ctrl-C reaches the command directly
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(timeout=60)
        process.kill()
        process.wait()
        raise


def _be_deaf() -> None:
    """Ignore signals from now on: the clean-up must be completed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def _locked(path: Path) -> Iterator[IO[str]]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


class _Notes:
    """A pytest plugin that prints earlier problems right above the closing line."""

    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, None, None]:
        yield
        if not (path := os.environ.get(NOTES_VARIABLE)):
            return
        deadline = time.monotonic() + _CHECKS_SECONDS
        while not Path(path).exists():           # the checks beside the tests have not ended
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} is not there after {_CHECKS_SECONDS:.0f} s")
            time.sleep(0.1)
        for note in json.loads(Path(path).read_text(encoding="utf-8")):
            first, *others = note.splitlines()
            terminalreporter.write_sep("!", first, red=True, bold=True)
            for line in others:
                terminalreporter.write_line(line)


def _run_pytest(arguments: Sequence[str]) -> int:
    import pytest

    pytest.hookimpl(wrapper=True, tryfirst=True)(_Notes.pytest_terminal_summary)    # outermost, so it ends last
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, str(CHECKOUT))    # as in `python -m pytest`
    return int(pytest.main(list(arguments), plugins=[_Notes()]))


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def main(arguments: Sequence[str]) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)    # on this exception, pytest takes down its fixtures
    if arguments[:1] == ["--pytest"]:
        return _run_pytest(arguments[1:])
    runs = {"--fast": run_fast, "--heavy": run_heavy, "--kubernetes": run_kubernetes}
    run = runs.get(arguments[0] if arguments else "")
    try:
        return run(arguments[1:]) if run else run_all(arguments)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
