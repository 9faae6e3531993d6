"""Everything at once, from seeds. A seed that fails prints its transcript, and `python -m tests.simulation.chaos SEED`
replays it."""

from __future__ import annotations

import pytest

from tests.simulation.chaos import run_seed


@pytest.mark.parametrize("first", range(0, 300, 10))
def test_everything_settles_in_memory(first: int) -> None:
    for seed in range(first, first + 10):
        run_seed(seed)


@pytest.mark.parametrize("first", range(1_000, 1_030, 3))
def test_everything_settles_on_sqlite(first: int) -> None:
    for seed in range(first, first + 3):
        run_seed(seed, "sqlite")


def test_a_seed_replays_to_the_letter() -> None:
    assert run_seed(7).transcript == run_seed(7).transcript
    assert run_seed(7).steps == run_seed(7).steps


def test_the_faults_do_happen() -> None:
    lines = [line for seed in range(20) for line in run_seed(seed).transcript]
    assert sum("crash" in line for line in lines) > 10
    assert sum("repeat" in line for line in lines) > 10
    assert sum("stop" in line for line in lines) > 5
