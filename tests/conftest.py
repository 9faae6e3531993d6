"""What holds for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

WITH_SERVERS = frozenset({"chaos", "genuine", "integration"})
"""Folders of tests that borrow real servers from each other: in one process, one after the other."""


def pytest_itemcollected(item: pytest.Item) -> None:
    folder, *_ = item.path.relative_to(Path(__file__).parent).parts
    if folder in WITH_SERVERS:
        item.add_marker(pytest.mark.xdist_group("servers"))


# A busy machine makes no test fail: nothing is judged by how long it took.
settings.register_profile("fate_flow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fate_flow")
