"""Everything at once, from seeds. `python -m tests.simulation.chaos SEED` replays one that failed, with its
transcript; `python -m tests.simulation.chaos --seeds 20000 --first 2000` tries many more."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.kit.mostly_heavy import mostly_heavy
from tests.simulation.chaos import Story, Totals, processes, run_seed, run_seeds


@pytest.mark.long
def test_thirty_seeds_break_no_rule() -> None:
    totals = Totals()
    totals.add(run_seeds(range(28), "memory", processes()))
    totals.add(run_seeds(range(100_000, 100_002), "sqlite", processes()))
    print(totals.text())
    assert not totals.violations, totals.text()
    assert totals.seeds >= 30
    assert totals.steps >= 4_800
    assert sum(totals.faults.values()) >= 150


@pytest.mark.heavy
def test_five_hundred_seeds_break_no_rule_and_meet_every_fault() -> None:
    totals = Totals()
    totals.add(run_seeds(range(480), "memory", processes()))
    totals.add(run_seeds(range(100_000, 100_020), "sqlite", processes()))
    print(totals.text())
    assert not totals.violations, totals.text()
    assert totals.seeds >= 500
    assert totals.steps >= 80_000
    assert sum(totals.faults.values()) >= 2_500
    assert min(totals.faults[kind] for kind in KINDS) > 0, totals.text()
    assert totals.not_allowed > 40
    assert min(totals.hints[what] for what in ("sent", "heeded", "declined")) > 18, totals.text()


KINDS = (
    "request lost", "reply lost", "request late", "reply late", "request repeated", "reply repeated", "ring lost",
    "partition", "cut off", "crash", "crash before the reply", "killed", "power cut", "stopped", "clock step",
    "fewer cores", "dead route", "no connection", "task fails", "worker killed", "submit repeated",
)  # fmt: skip


def test_a_seed_replays_to_the_letter() -> None:
    first, again = run_seed(7), run_seed(7)
    assert first.transcript == again.transcript
    assert first.steps == again.steps


@pytest.mark.parametrize("seed", mostly_heavy([83, *range(84, 90)], 1))
def test_a_seed_replays_in_another_process(seed: int) -> None:
    """No set decides, whose order each process of Python has for itself."""
    code = f"from tests.simulation.chaos import run_seed; print(run_seed({seed}).transcript)"
    transcripts = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": one}, capture_output=True, check=True
        ).stdout
        for one in "02"
    ]  # fmt: skip
    assert len(transcripts[0]) > 100
    assert transcripts[0] == transcripts[1]


@pytest.mark.parametrize("seed", mostly_heavy([20, 21, 23, 24, 25], 1))
def test_both_stores_tell_the_same_story(seed: int) -> None:
    """But where a process dies between two writes (22): one stores in two steps what the other does in one."""
    assert run_seed(seed).transcript == run_seed(seed, "sqlite").transcript


def test_tasks_with_resources_of_their_own_break_no_rule() -> None:
    """The tasks that run at once need no more than their job has reserved."""
    style: dict[str, Any] = {"needs": 1.0, "cores": 6, "programs": 0.0}
    unequal = sum(Story(seed, "memory", **style).run().acted["unequal tasks at once"] for seed in range(3))
    assert unequal > 0, "tasks with different needs run at once"


def test_tasks_on_another_engine_than_their_job_break_no_rule() -> None:
    """On each engine, what is in use and what remains are all there is, and no task has less than it needs."""
    style: dict[str, Any] = {"needs": 1.0, "gpus": 0.7, "cores": 6, "programs": 0.3}
    beside = sum(Story(seed, "memory", **style).run().acted["tasks beside their jobs"] for seed in range(3))
    beside += Story(3, "sqlite", **style).run().acted["tasks beside their jobs"]
    assert beside > 5


def test_gpus_on_an_engine_of_their_own_break_no_rule() -> None:
    """Two workers never have one device, and on each engine what is in use and what remains are all there is."""
    shared_out = 0
    for seed in range(12):
        shared_out += Story(seed, "memory", gpus=0.7).run().acted["devices shared out"]
    Story(3, "sqlite", gpus=1.0).run()
    assert shared_out > 30
