"""Crash points: off without the switch of the tests, and where they are on, one death at the point that was named."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.server.crash_points import FILE, ON, SWITCH, CrashPoints, crash_points_of
from fate_flow.settings.settings import Settings
from fate_flow.store.memory.store import MemoryStore

PASSING = """
import sys
from pathlib import Path
from fate_flow.server.crash_points import CrashPoints

points = CrashPoints(Path(sys.argv[1]))
for kind in sys.argv[2:]:
    points.reached(kind)
"""


def settings(home: Path) -> Settings:
    (home / "run").mkdir()
    return Settings(party_id="9999", home=home)


def armed(path: Path, at: str) -> Path:
    path.write_text(json.dumps({"at": at}), encoding="utf-8")
    return path


def state(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def passing(path: Path, *kinds: str) -> int:
    """How a process group of its own ended that passed these points."""
    argv = [sys.executable, "-c", PASSING, str(path), *kinds]
    return subprocess.run(argv, start_new_session=True, check=False, timeout=180).returncode


def test_there_are_none_without_the_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    assert crash_points_of(settings(tmp_path)) is None


def test_a_switch_that_says_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    with pytest.raises(BadSettings, match=f"{SWITCH}: '1' is not '{ON}'"):
        crash_points_of(settings(tmp_path))


def test_nothing_happens_where_no_point_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, ON)
    points = crash_points_of(settings(tmp_path))
    assert points is not None
    points.reached("commit")
    armed(tmp_path / "run" / FILE, "")
    points.reached("commit")
    points.reached("send")
    assert state(tmp_path / "run" / FILE)["counts"] == {"commit": 1, "send": 1}


def test_the_group_dies_at_the_point_and_only_once(tmp_path: Path) -> None:
    path = armed(tmp_path / FILE, "send:2")
    assert passing(path, "send", "commit", "commit") == 0
    assert passing(path, "send", "send") == -signal.SIGKILL
    assert state(path) == {"at": "send:2", "counts": {"send": 2, "commit": 2}, "fired": True}
    assert passing(path, "send") == 0


def test_a_commit_counts_once_it_is_made(tmp_path: Path) -> None:
    points = CrashPoints(armed(tmp_path / FILE, ""))
    store = points.around_store(MemoryStore())
    with pytest.raises(RuntimeError), store.transaction():
        raise RuntimeError
    assert "counts" not in state(tmp_path / FILE)
    with store.transaction():
        assert "counts" not in state(tmp_path / FILE)
    with store.reading():
        pass
    assert state(tmp_path / FILE)["counts"] == {"commit": 1}


def test_an_effect_is_counted_before_it_is_carried_out(tmp_path: Path) -> None:
    points = CrashPoints(armed(tmp_path / FILE, ""))
    done: list[int] = []
    points.around_effects(lambda effects: [effect() for effect in effects] and None)(
        [lambda: done.append(state(tmp_path / FILE)["counts"]["effect"])] * 2
    )
    assert done == [1, 2]


def test_replies_to_parties_count_and_heartbeats_do_not(tmp_path: Path) -> None:
    points = CrashPoints(armed(tmp_path / FILE, ""))
    served = points.around_replies(lambda environ, start: [b""])
    for path, caller in (("/v1/party/batch", "1"), ("/v1/party/heartbeat", "1"), ("/v1/job/submit", "")):
        served({"PATH_INFO": path, **({"HTTP_SRC_PARTY_ID": caller} if caller else {})}, lambda *_: lambda _: None)
    assert state(tmp_path / FILE)["counts"] == {"reply": 1}
