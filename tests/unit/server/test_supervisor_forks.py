"""A process that the supervisor has just forked ends on SIGTERM, too."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fate_flow.server import supervisor
from tests.kit.waiting import eventually


def test_a_signal_right_after_the_fork_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would come to the handler of the supervisor in the child, and a stop would wait 15 s for that child."""

    def pause_until_signalled(_: Any) -> None:
        (tmp_path / "forked").touch()
        eventually((tmp_path / "signalled").exists)

    monkeypatch.setattr(signal, "set_wakeup_fd", pause_until_signalled)      # the first step of the child
    parent = object.__new__(supervisor.Supervisor)
    parent._pid, parent._children = os.getpid(), []
    before = signal.signal(signal.SIGTERM, lambda *_: None)      # as the supervisor, which notes it and goes on
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        pid = parent._fork(supervisor._Child("http", lambda: None))
        eventually((tmp_path / "forked").exists)
        os.kill(pid, signal.SIGTERM)
        (tmp_path / "signalled").touch()
        _, status = os.waitpid(pid, 0)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask, "the supervisor itself goes on hearing it"
