"""The Jobs API of tests is as that of Ray: `bin/test --heavy` runs the same checks on a real head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fate_flow.engines.ray.client import RayClient
from tests.kit.engines.ray_checks import CHECKS, JobsApi
from tests.kit.engines.ray_jobs import STOP_SECONDS, running_fake


@pytest.fixture
def api(tmp_path: Path) -> Iterator[JobsApi]:
    with running_fake(tmp_path, cores=4) as ray:
        yield JobsApi(RayClient(ray.address, ray.token_file), tmp_path, cores=4, stop_seconds=STOP_SECONDS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_api_of_tests_is_as_that_of_ray(check: Callable[[JobsApi], None], api: JobsApi) -> None:
    check(api)
