"""`bin/bench --compare`: what is computed of the numbers of two trees, and a commit that is not here."""

from __future__ import annotations

import pytest

from tests.bench.trees.compare import COST, OTHER, THIS, NotThere, commit_of, compared, is_dearer

ROUNDS = {OTHER: [{COST: 100.0}, {COST: 80.0}, {COST: 50.0}], THIS: [{COST: 110.0}, {COST: 120.0}, {COST: 50.0}]}


def test_a_ratio_is_that_of_rounds_and_not_of_medians() -> None:
    found = compared(ROUNDS)
    assert found["medians"] == {COST: {OTHER: 80.0, THIS: 110.0}}
    assert found["ratios"][COST] == {"median": 1.1, "p90": 1.42, "min": 1.0, "max": 1.5}


@pytest.mark.parametrize(("most", "is_it"), [(1.05, True), (1.1, False), (1.3, False)])
def test_what_costs_more_than_the_limit_is_dearer(most: float, is_it: bool) -> None:
    assert is_dearer(compared(ROUNDS), most) is is_it


def test_a_commit_that_is_not_here_is_said() -> None:
    with pytest.raises(NotThere, match="nowhere-at-all is no commit of this checkout"):
        commit_of("nowhere-at-all")
