"""What a job may ask of a party at most."""

from __future__ import annotations

import pytest

from fate_flow.core.model.resources import EngineSize, Request
from fate_flow.core.planning.participant.admission import Excess, excess
from tests.kit.values import HOST

SIZE = EngineSize(nodes=1, cores=8, memory=1024, max_cores_percent_per_job=0.5)
CORES, MEMORY = "cores", "memory"


def asks(cores: int, memory: int = 0) -> Request:
    return Request(cores, memory, cores, memory)


@pytest.mark.parametrize(
    ("requests", "is_own", "expected"),
    [
        ([], True, None),
        ([asks(4, 1024)], False, None),
        ([asks(2, 512), asks(2, 512)], False, None),
        ([asks(5)], True, Excess(f"asks for 5 cores, a job may have at most 4 at {HOST}", CORES)),
        ([asks(5)], False, Excess(f"asks for 5 cores, more than a job may have at {HOST}", CORES)),
        ([asks(2), asks(3)], True, Excess(f"asks for 5 cores, a job may have at most 4 at {HOST}", CORES)),
        ([asks(1, 1025)], True, Excess(f"asks for 1025 MB of memory, {HOST} has 1024 in all", MEMORY)),
        ([asks(1, 1025)], False, Excess(f"asks for 1025 MB of memory, more than {HOST} has", MEMORY)),
    ],
)
def test_a_job_that_no_idle_engine_could_serve(
    requests: list[Request], is_own: bool, expected: Excess | None
) -> None:
    assert excess(requests, SIZE, HOST, is_own=is_own) == expected


def test_a_party_without_memory_limits_none() -> None:
    assert excess([asks(1)], EngineSize(1, 4), HOST, is_own=False) is None
    assert excess([asks(1, 1)], EngineSize(1, 4), HOST, is_own=False) is not None
