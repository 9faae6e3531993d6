"""One Slurm for all tests of this folder, which run in one process (tests/division.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.servers.slurm import SlurmCluster, running_slurm


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    with running_slurm() as cluster:
        yield cluster
