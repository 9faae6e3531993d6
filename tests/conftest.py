"""What holds for all tests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.division import FromBothEnds

pytest.register_assert_rewrite("tests.kit", "tests.store_contract")   # a failure shows its values, as in a test


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FromBothEnds:
    return FromBothEnds(config, log)


# A busy machine makes no test fail: nothing is judged by how long it took.
settings.register_profile("fate_flow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fate_flow")
