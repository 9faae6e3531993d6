"""Crash points: one death at the point that was named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fate_flow.server import http_processes, scheduling
from fate_flow.store.contract.transaction import Store
from fate_flow.store.memory.store import MemoryStore
from tests.chaos.crash_points import chosen_points
from tests.kit.servers.crash_points import FILE, KINDS, CrashPoints
from tests.kit.servers.crashing_server import install

PASSING = """
import sys
from pathlib import Path
from tests.kit.servers.crash_points import CrashPoints

points = CrashPoints(Path(sys.argv[1]))
for kind in sys.argv[2:]:
    points.reached(kind)
"""


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def armed(path: Path, at: str) -> Path:
    path.write_text(json.dumps({"at": at}), encoding="utf-8")
    return path


def state(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def passing(path: Path, *kinds: str) -> int:
    """How a process group of its own ended that passed these points."""
    argv = [sys.executable, "-P", "-c", PASSING, str(path), *kinds]
    return subprocess.run(argv, start_new_session=True, check=False, timeout=180, env=ENVIRONMENT).returncode


def test_nothing_happens_where_no_point_is_named(tmp_path: Path) -> None:
    points = CrashPoints(tmp_path / FILE)
    points.reached("commit")
    armed(tmp_path / FILE, "")
    points.reached("commit")
    points.reached("send")
    assert state(tmp_path / FILE)["counts"] == {"commit": 1, "send": 1}


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


@dataclass(frozen=True)
class Parts:
    """Those of the use cases that have points."""

    store: Store = field(default_factory=MemoryStore)
    carry_out: Callable[[Sequence[Callable[[], object]]], object] = lambda effects: [effect() for effect in effects]


class NoLog:
    def requested(self, job_id: str, url: str) -> None:
        pass

    def answered(self, job_id: str, endpoint: str, body: Mapping[str, Any]) -> None:
        pass


def test_a_server_has_them_at_its_store_effects_senders_and_replies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    armed(tmp_path / "run" / FILE, "")
    for module, name, part in (
        (http_processes, "build_context", Parts), (scheduling, "build_context", Parts),
        (scheduling, "SenderLog", NoLog), (http_processes, "create_public_app", lambda: Flask(__name__)),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, part)
    install(tmp_path)
    for module in (http_processes, scheduling):
        with module.build_context().store.transaction():
            pass
        module.build_context().carry_out([lambda: None])
    scheduling.SenderLog().requested("j", "u")
    scheduling.SenderLog().answered("j", "u", {})
    http_processes.create_public_app().test_client().get("/", headers={"SRC-PARTY-ID": "1"})
    assert state(tmp_path / "run" / FILE)["counts"] == {"commit": 2, "effect": 2, "send": 1, "answer": 1, "reply": 1}


@pytest.mark.parametrize("step", [1, 2, 4, 7])
@pytest.mark.parametrize("answers", [1, 3, 4, 9, 18])
def test_one_point_in_a_step_of_each_kind_is_chosen_and_each_seed_reaches_others(answers: int, step: int) -> None:
    counts = {"commit": 14, "effect": 4, "send": 9, "answer": answers, "reply": 1}
    reached: dict[str, set[int]] = {kind: set() for kind in KINDS}
    for seed in range(100):
        chosen = chosen_points(counts, seed, step)
        assert {kind: len(numbers) for kind, numbers in chosen.items()} == {
            kind: max(1, passed // step) for kind, passed in counts.items()
        }
        for kind, numbers in chosen.items():
            assert all(after - before == step for before, after in pairwise(numbers))
            reached[kind].update(numbers)
    assert reached == {kind: set(range(1, passed + 1)) for kind, passed in counts.items()}


def test_a_kind_that_no_job_passes_is_not_chosen() -> None:
    assert list(chosen_points({"reply": 2, "commit": 5}, 1, 4)) == ["commit", "reply"]
