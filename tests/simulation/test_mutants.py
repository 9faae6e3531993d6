"""The simulation bites: each deliberate bug is caught, and the output says by which seed and which rule."""

from __future__ import annotations

import pytest

from tests.simulation.chaos import processes
from tests.simulation.mutants.hunting import hunt_all
from tests.simulation.mutants.table import MUTANTS


@pytest.mark.heavy
def test_every_mutant_is_caught() -> None:
    found = list(hunt_all(MUTANTS, processes()))
    print("\n".join(one.text for one in found))
    assert len(found) >= 12
    assert all(one.is_caught for one in found), [one.text for one in found if not one.is_caught]
