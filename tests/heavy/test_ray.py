"""A real Ray: what the engine relies on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kit.engines.ray_checks import CHECKS, JobsApi
from tests.kit.engines.ray_head import CORES, STOP_SECONDS, RayHead, running_ray

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def ray(python_of: Callable[[str], Path]) -> Iterator[RayHead]:
    with running_ray(python_of("ray")) as head:
        yield head


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_jobs_api_is_as_the_engine_knows_it(
    check: Callable[[JobsApi], None], ray: RayHead, tmp_path: Path
) -> None:
    check(JobsApi(ray.client, tmp_path, CORES, STOP_SECONDS))
