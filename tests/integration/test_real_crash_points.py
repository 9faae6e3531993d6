"""A server dies at a commit, an effect, a message or a reply of a job, and comes back: nothing is lost.

All points are tried by `bin/chaos --crash-points`, which takes some minutes; here one in `STEP`, from one that is
drawn anew for each run of the tests and is named when something goes wrong.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.chaos.crash_points import SIDES, run

pytestmark = pytest.mark.timeout(300)

STEP = 4


def tell(text: str) -> None:
    print(text, file=sys.stderr)


def test_a_server_that_dies_at_any_point_of_a_job_leaves_the_books_balanced(tmp_path: Path) -> None:
    outcome = run(tmp_path, random.randrange(10_000), STEP, with_mariadb=False, tell=tell)
    print(outcome.figures())
    assert not outcome.problems, outcome.figures()
    assert {one.side for one in outcome.passages if one.has_died} == set(SIDES), outcome.figures()
