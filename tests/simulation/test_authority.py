"""What runs at a seat is what the founder of its job says, and was granted, allowed and approved at that moment; nobody
changes or reads anything of a job in which he has no part. `authority.py` has the stories and the rules."""

from __future__ import annotations

import pytest

from tests.simulation.authority import Story, hunt
from tests.simulation.mutants.authority_bugs import MUTANTS, SEEDS

pytestmark = pytest.mark.long

STORIES = 40


def test_no_sequence_of_statements_breaks_a_rule() -> None:
    started = [Story(seed).run() for seed in range(STORIES)]
    assert sum(started) >= STORIES // 2, "workers are started, so that there is something to look at"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_deliberate_bug_is_caught(name: str) -> None:
    assert hunt(MUTANTS[name], SEEDS), "no story breaks a rule"
