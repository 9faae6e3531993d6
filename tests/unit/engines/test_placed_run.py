"""What a placed job executes: it passes on the signals of its cluster, and notes what only these say."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fate_flow.engines.local.worker import NOBODY, Exit, Started, WorkerSpec, write_atomically
from fate_flow.engines.placed import run
from fate_flow.engines.placed.folder import intend, why_stopped
from fate_flow.engines.placed.submitting import Submitter
from tests.kit.waiting import eventually


@pytest.mark.parametrize(("number", "noted"), [(signal.SIGUSR1, "timeout"), (signal.SIGTERM, None)])
def test_a_worker_that_is_warned_of_the_limit_of_time_ends_by_it(
    tmp_path: Path, number: signal.Signals, noted: str | None
) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    argv = ("/bin/sleep", "60")
    spec = WorkerSpec("w", folder, "mine", "exec", argv, folder, folder / "out", folder / "err", grace_seconds=5)
    write_atomically(folder / "launch.json", spec.to_json())
    intend(folder, "fate-flow-home-w", 0, Submitter(NOBODY, ""))
    job = os.fork()
    if job == 0:
        code = 1
        try:
            code = run.main([str(folder)])
        finally:
            os._exit(code)
    eventually(lambda: Started.read(folder))
    os.kill(job, number)
    _, status = os.waitpid(job, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGTERM
    assert Exit.read(folder) == Exit(None, signal.SIGTERM, "stopped")
    assert why_stopped(folder) == noted
