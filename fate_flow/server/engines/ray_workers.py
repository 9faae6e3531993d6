"""The engine that places workers as jobs of Ray, with a home that its machines share."""

from __future__ import annotations

import sys

from fate_flow.engines.placed.conduct import Conduct
from fate_flow.engines.ray.client import RayClient
from fate_flow.engines.ray.cluster import RayCluster, RayShare
from fate_flow.server.engines.parts import EngineParts
from fate_flow.server.engines.placed_workers import PlacedWorkers, home_of_names, way_to_listener, workers_on
from fate_flow.settings.engines.engine_settings import EngineSettings
from fate_flow.settings.engines.ray import RayJobs, RaySettings

_RUN = "fate_flow.engines.ray.run"


def build_ray(parts: EngineParts, one: EngineSettings) -> PlacedWorkers:
    """Return an engine of kind `ray`."""
    assert isinstance(one, RaySettings), one
    prefix = f"fate-flow-{home_of_names(parts.secret)}-"
    cluster = RayCluster(
        RayClient(one.address, one.token_file, one.ca_file), prefix, _of(one, one.own),
        {party_id: _of(one, jobs) for party_id, jobs in one.partners.items()},
    )  # fmt: skip
    return workers_on(cluster, parts, one, Conduct(
        poll_seconds=one.poll_seconds,
        longest_pending=one.longest_pending,
        settle=one.settle_seconds,
        runner=lambda folder: [str(one.python or sys.executable), "-P", "-m", _RUN, str(folder)],
        jobs_dir=parts.settings.jobs_dir,
        prefix=prefix,
        gathers=True,
        env=way_to_listener(parts),
    ))  # fmt: skip


def _of(one: RaySettings, jobs: RayJobs) -> RayShare:
    return RayShare(jobs.resources, jobs.runtime_env, one.driver_cores, one.labels)
