"""The lease on a worker as its runner sees it, and a folder that hangs: no worker goes on beside its successor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fate_flow.engines.local.lease import Lease
from fate_flow.engines.local.worker import LAUNCH, Exit, WorkerSpec
from tests.kit.waiting import eventually


def a_lease(folder: Path, seconds: float = 10.0, grace: float = 5.0) -> Lease:
    (folder / "lease").write_text("1")
    return Lease(folder / "lease", seconds, grace, 100.0)


def test_it_is_over_when_nobody_has_rewritten_the_file_for_so_long(tmp_path: Path) -> None:
    lease = a_lease(tmp_path)
    assert not lease.is_over(101.0), "what the file has at first is no sign of life"
    assert (lease.is_over(109.9), lease.is_over(110.0)) == (False, True)
    (tmp_path / "lease").write_text("2")
    assert not lease.is_over(111.0)
    assert (lease.is_over(120.9), lease.is_over(121.0), lease.lost_at) == (False, True, 126.0)


def test_it_stays_over_for_whoever_could_not_look_until_the_worker_may_count_as_lost(tmp_path: Path) -> None:
    lease = a_lease(tmp_path)
    assert not lease.is_over(101.0)
    (tmp_path / "lease").write_text("2")
    assert lease.is_over(115.0), "the server may have begun another attempt since"
    (tmp_path / "lease").write_text("3")
    assert lease.is_over(116.0)


def test_without_a_lease_nothing_is_ever_over(tmp_path: Path) -> None:
    assert not Lease(None, 10.0, 5.0, 0.0).is_over(1e9)
    assert not Lease(tmp_path / "lease", 0.0, 5.0, 0.0).is_over(1e9)


_RUN = "import sys; from fate_flow.engines.local import runner; runner.run_worker(runner.Path(sys.argv[1]))"
_WORK = "setsid sleep 1000 & echo $! > other; echo $$ > own; sleep 1000"


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Path]:
    """A runner with a worker; the folder of the worker."""
    folder, log = tmp_path / "w", tmp_path / "log"
    folder.mkdir()
    (tmp_path / "lease").write_text("1")
    spec = WorkerSpec(
        "w", folder, "command", "exec", ("/bin/sh", "-c", _WORK), tmp_path, log, log, lease_file=tmp_path / "lease",
        lease_seconds=5.0, grace_seconds=0.5,
    )  # fmt: skip
    (folder / LAUNCH).write_text(spec.to_json())
    process = subprocess.Popen([sys.executable, "-P", "-c", _RUN, str(folder)])
    yield folder
    process.kill()
    process.wait()


def test_a_folder_that_hangs_ends_the_worker_and_all_that_it_has_started(tmp_path: Path, runner: Path) -> None:
    """A pipe without a writer stands for the hanging folder: the runner stands still as soon as it looks there."""

    def has_begun() -> bool:
        (tmp_path / "lease").write_text(f"{time.monotonic()}")       # it must not end before the folder hangs
        return (tmp_path / "own").exists() and (tmp_path / "own").read_text().strip() != ""

    eventually(has_begun)
    pids = [int((tmp_path / name).read_text()) for name in ("own", "other")]
    os.mkfifo(tmp_path / "pipe")
    os.replace(tmp_path / "pipe", tmp_path / "lease")
    eventually(lambda: not any(map(is_running, pids)))
    assert Exit.read(runner) is None, "the runner hangs"
    (tmp_path / "lease").write_text("2")      # the folder is back, and so is the server
    eventually(lambda: Exit.read(runner) is not None)
    assert Exit.read(runner) == Exit(None, 9, "server_lost")


def test_a_runner_that_hung_before_it_began_starts_nothing(tmp_path: Path) -> None:
    folder, log = tmp_path / "w", tmp_path / "log"
    folder.mkdir()
    (tmp_path / "lease").write_text("1")
    spec = WorkerSpec(
        "w", folder, "command", "exec", ("/bin/sh", "-c", "echo > begun"), tmp_path, log, log,
        lease_file=tmp_path / "lease", lease_seconds=0.2, grace_seconds=0.1,
    )  # fmt: skip
    os.mkfifo(folder / LAUNCH)
    process = subprocess.Popen([sys.executable, "-P", "-c", _RUN, str(folder)])
    eventually(lambda: (folder / "claimed").exists())
    claimed = time.monotonic()
    eventually(lambda: time.monotonic() - claimed > 0.4)
    (folder / LAUNCH).write_text(spec.to_json())
    assert process.wait(60) == 0
    end = Exit.read(folder)
    assert end is not None
    assert end.cause == "server_lost"
    assert not (tmp_path / "begun").exists()
