"""What a placed job executes: it passes on the signals of its cluster, and notes what only these say."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fate_flow.engines.local.worker import NOBODY, SECOND, Exit, Started, WorkerSpec, write_atomically
from fate_flow.engines.placed import run
from fate_flow.engines.placed.folder import intend, why_stopped
from fate_flow.engines.placed.submitting import Submitter
from tests.kit.waiting import eventually


def worker(tmp_path: Path) -> Path:
    """The folder of a worker that is placed."""
    folder = tmp_path / "w"
    folder.mkdir()
    argv = ("/bin/sleep", "60")
    spec = WorkerSpec("w", folder, "mine", "exec", argv, folder, folder / "out", folder / "err", grace_seconds=5)
    write_atomically(folder / "launch.json", spec.to_json())
    intend(folder, "fate-flow-home-w", 0, Submitter(NOBODY, ""))
    return folder


def started(folder: Path) -> int:
    """A job of this worker."""
    job = os.fork()
    if job == 0:
        code = 1
        try:
            code = run.main([str(folder)])
        finally:
            os._exit(code)
    return job


def end_of(job: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])


@pytest.mark.parametrize(("number", "noted"), [(signal.SIGUSR1, "timeout"), (signal.SIGTERM, None)])
def test_a_worker_that_is_warned_of_the_limit_of_time_ends_by_it(
    tmp_path: Path, number: signal.Signals, noted: str | None
) -> None:
    folder = worker(tmp_path)
    job = started(folder)
    eventually(lambda: Started.read(folder))
    os.kill(job, number)
    assert end_of(job) == 128 + signal.SIGTERM
    assert Exit.read(folder) == Exit(None, signal.SIGTERM, "stopped")
    assert why_stopped(folder) == noted
    assert not (folder / SECOND).exists()


def test_a_second_job_of_a_worker_says_that_the_first_has_the_claim(tmp_path: Path) -> None:
    folder = worker(tmp_path)
    first = started(folder)
    eventually(lambda: Started.read(folder))
    assert end_of(started(folder)) != 0
    assert (folder / SECOND).exists()
    os.kill(first, signal.SIGTERM)
    end_of(first)
    assert Exit.read(folder) == Exit(None, signal.SIGTERM, "stopped")
