"""A server dies at a commit, an effect, a message or a reply of a job, and comes back: nothing is lost.

All points are tried by `bin/chaos --crash-points`, which takes some minutes; here one in `STEP` of each kind, at least
one: those of `bin/chaos --crash-points --step 4 --seed 1`. Other seeds choose other points.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.chaos.crash_points import SIDES, run
from tests.kit.servers.crash_points import KINDS

pytestmark = pytest.mark.timeout(900)

STEP, SEED = 4, 1


def tell(text: str) -> None:
    print(text, file=sys.stderr)


@pytest.mark.heavy
def test_a_server_that_dies_at_any_point_of_a_job_leaves_the_books_balanced(tmp_path: Path) -> None:
    outcome = run(tmp_path, SEED, STEP, with_mariadb=False, tell=tell)
    print(outcome.figures())
    assert not outcome.problems, outcome.figures()
    assert set(outcome.counts) == set(SIDES)
    for side, passed in outcome.counts.items():
        dead = {one.point.split(":")[0] for one in outcome.passages if one.side == side and one.has_died}
        assert dead == set(passed), outcome.figures()
    assert set().union(*outcome.counts.values()) == set(KINDS), outcome.figures()
