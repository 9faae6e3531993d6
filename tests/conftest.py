"""What holds for all tests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

WITH_SERVERS = frozenset({"chaos", "genuine", "integration"})
"""Folders whose tests borrow real servers from each other: each in one process, one test after the other."""


class ByFile(LoadScopeScheduling):
    """Whichever process is free takes the next file, or all of a folder that has servers."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.split("/")[1]
        return folder if folder in WITH_SERVERS else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    return ByFile(config, log)


# A busy machine makes no test fail: nothing is judged by how long it took.
settings.register_profile("fate_flow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fate_flow")
