"""The agent of a worker on a node without the home: its folder there, and which causes of an end it alone knows."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from fate_flow.engines.placed import away
from fate_flow.engines.placed.away import BAD_FOLDER, NodeAgent, NotOurs, scratch
from fate_flow.engines.placed.memory import Kills, counted
from fate_flow.engines.placed.run import TIME_IS_OVER
from fate_flow.engines.staged.server import Server

KILLED = {"exit_code": None, "signal": 9, "cause": "exited"}
STOPPED = {"exit_code": 7, "signal": None, "cause": "stopped"}
WELL = {"exit_code": 0, "signal": None, "cause": "exited"}
LATE = {"exit_code": None, "signal": 9, "cause": "server_lost"}


def test_a_worker_has_a_folder_of_its_own_which_nobody_else_reads_and_which_goes_with_it(tmp_path: Path) -> None:
    base = tmp_path / "base"
    with scratch(base) as one, scratch(base) as other:
        assert one != other
        (one / "jobs").mkdir()
        assert [stat.S_IMODE(path.stat().st_mode) for path in (base, one, other)] == [0o700] * 3
    assert list(base.iterdir()) == []


def test_what_an_agent_has_left_that_was_killed_is_removed_by_the_next_one(tmp_path: Path) -> None:
    base = tmp_path / "base"
    with scratch(base) as living:
        left = base / "left"
        left.mkdir()
        (left / ".lock").touch()
        (left / "data").touch()
        begins = base / ".begins"
        begins.mkdir()
        with scratch(base):
            assert not left.exists()
            assert living.exists()
            assert begins.exists(), "its agent has not locked it yet"


def test_what_a_child_of_a_dead_agent_still_has_open_does_not_keep_it(tmp_path: Path) -> None:
    with scratch(tmp_path / "base") as one, (one / ".lock").open() as lock:
        assert fcntl.fcntl(lock, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_folder_that_others_may_enter_is_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tmp_path / "base"
    base.mkdir()
    base.chmod(0o755)
    with pytest.raises(NotOurs, match="is not a folder of this user alone"), scratch(base):
        pass
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    base.rmdir()
    base.symlink_to(elsewhere)
    with pytest.raises(NotOurs), scratch(base):
        pass
    before = signal.getsignal(TIME_IS_OVER)
    try:
        assert away.main([str(base), "w"]) == BAD_FOLDER
    finally:
        signal.signal(TIME_IS_OVER, before)
        os.environ.pop("FATE_FLOW_STAGED_WORKER")
    assert "is not a folder of this user alone" in capsys.readouterr().err


@pytest.mark.parametrize(("end", "is_late", "is_asked", "killed", "cause"), [
    (STOPPED, True, False, 0, "timeout"),
    (STOPPED, True, True, 0, "stopped"),
    (STOPPED, False, False, 0, "stopped"),
    (KILLED, False, False, 1, "out_of_memory"),
    (KILLED, False, False, 0, "exited"),
    (WELL, True, False, 1, "exited"),
    (LATE, True, False, 1, "server_lost"),
])  # fmt: skip
def test_an_end_that_the_cluster_has_caused_says_so(
    monkeypatch: pytest.MonkeyPatch, end: Mapping[str, Any], is_late: bool, is_asked: bool, killed: int, cause: str
) -> None:
    agent = NodeAgent(cast(Server, None), asked=is_asked, kills=Kills(2))
    monkeypatch.setattr("fate_flow.engines.placed.memory.counted", lambda: 2 + killed)
    agent.tell_to_end(TIME_IS_OVER if is_late else signal.SIGTERM, None)
    assert agent.explained(end)["cause"] == cause


@pytest.mark.parametrize(("own", "file"), [
    ("0::/a/job_3", "a/job_3/memory.events"),
    ("4:cpu,cpuacct:/b\n3:memory:/b/job_3\n0::/", "memory/b/job_3/memory.oom_control"),
])  # fmt: skip
def test_processes_that_the_kernel_has_killed_are_counted_in_both_versions_of_groups(
    tmp_path: Path, own: str, file: str
) -> None:
    (tmp_path / "cgroup").write_text(own)
    assert counted(tmp_path / "cgroup", tmp_path) == 0
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("oom 4\noom_kill 3\n")
    assert counted(tmp_path / "cgroup", tmp_path) == 3
