"""Many cases of one rule, of which the whole of `bin/test` has the time for a few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def mostly_heavy(cases: Sequence[Any], few: int) -> list[Any]:
    """All of these cases; those behind the first few are for `bin/test --heavy` alone."""
    return [*cases[:few], *(pytest.param(case, marks=pytest.mark.heavy) for case in cases[few:])]
