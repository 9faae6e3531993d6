"""No sequence of jobs uses a table more often, or holds more at once, than was granted (`limits.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from fate_flow.core.quotas.holding import Left
from fate_flow.services.participant import reserving
from fate_flow.services.workers import allowed, launching
from fate_flow.store.memory.store import MemoryTransaction
from tests.kit.mostly_heavy import mostly_heavy
from tests.simulation.limits import LimitStory, hunt

pytestmark = pytest.mark.long

STORIES, SEEDS = 15, 200
_KEEP = allowed._share

MUTANTS: dict[str, Callable[[], Any]] = {
    "uses are not counted": lambda: patch.object(launching, "count_uses", lambda *_: ""),
    "a retry is no further use": lambda: patch.object(allowed, "_share", lambda key: _KEEP(replace(key, version=0))),
    "seats share a use": lambda: patch.object(
        allowed, "_share", lambda key: _KEEP(key).replace("_arbiter_", "_host_")
    ),
    "all uses are forgotten": lambda: patch.object(MemoryTransaction, "use_table", lambda *_: True),
    "cores are not limited": lambda: patch.object(reserving, "left_for", lambda *_: Left()),
    "what is held does not count": lambda: patch.object(MemoryTransaction, "cores_of_jobs_by", lambda *_: 0),
    "GPUs that are held do not count": lambda: patch.object(MemoryTransaction, "gpus_of_jobs_by", lambda *_: 0),
}  # fmt: skip


def test_no_sequence_of_jobs_goes_beyond_a_limit() -> None:
    stories = [LimitStory(seed) for seed in range(STORIES)]
    started = sum(story.run(120) for story in stories)
    assert started >= STORIES, "workers are started, so that there is something to look at"
    refused = sum("more use of table demo/granted" in line for story in stories for line in story.transcript)
    waiting = sum("no more cores at once" in line for story in stories for line in story.transcript)
    gpus = sum("no more GPUs at once" in line for story in stories for line in story.transcript)
    assert (refused > 0, waiting > 0, gpus > 0) == (True, True, True), "limits are met"


@pytest.mark.parametrize("name", mostly_heavy([*MUTANTS], 1))
def test_a_deliberate_bug_is_caught(name: str) -> None:
    assert hunt(MUTANTS[name], SEEDS), "no story breaks a rule"
