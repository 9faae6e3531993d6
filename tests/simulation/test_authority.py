"""What runs at a seat is what the founder of its job says, and was granted, allowed and approved at that moment; nobody
changes or reads anything of a job in which he has no part. `authority.py` has the stories and the rules."""

from __future__ import annotations

import pytest

from tests.simulation.authority import STUMBLED, Story, hunt
from tests.simulation.mutants.authority_bugs import FIRST, MUTANTS, SEEDS

pytestmark = pytest.mark.long

STORIES = 40


def test_no_sequence_of_statements_breaks_a_rule() -> None:
    started = [Story(seed).run() for seed in range(STORIES)]
    assert sum(started) >= STORIES // 2, "workers are started, so that there is something to look at"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_deliberate_bug_is_caught(name: str) -> None:
    rule = hunt(MUTANTS[name], SEEDS, FIRST[name])
    assert rule, "no story breaks a rule"
    assert STUMBLED not in rule, "it does not fit any more what it changes"


def test_each_bug_has_a_seed_to_begin_with_and_that_is_within_the_hunt() -> None:
    assert FIRST.keys() == MUTANTS.keys()
    assert all(seed < SEEDS for seed in FIRST.values())
