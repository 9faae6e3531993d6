"""The engine that places workers as jobs of Ray, with a home that its machines share, or staged."""

from __future__ import annotations

from collections.abc import Callable

from fate_flow.api.workers.staged import claim_token
from fate_flow.core.model.job import Worker
from fate_flow.engines.ray.client import RayClient
from fate_flow.engines.ray.cluster import RayCluster, RayShare
from fate_flow.engines.staged.places import CLAIM
from fate_flow.server.engines.parts import EngineParts
from fate_flow.server.engines.placed_workers import PlacedWorkers, home_of_names, placed_or_staged
from fate_flow.settings.engines.engine_settings import EngineSettings
from fate_flow.settings.engines.ray import RayJobs, RaySettings
from fate_flow.settings.settings import Settings

_LOOK_SECONDS = 10.0             # at the output of a job, while its agent waits
_RUN, _AWAY = "fate_flow.engines.ray.run", "fate_flow.engines.ray.away"


def build_ray(parts: EngineParts, one: EngineSettings) -> PlacedWorkers:
    """Return an engine of kind `ray`. Raises BadSettings."""
    assert isinstance(one, RaySettings), one
    prefix = _prefix(parts.secret)
    cluster = RayCluster(
        RayClient(one.address, one.token_file, one.ca_file), prefix, _of(one, one.own),
        {party_id: _of(one, jobs) for party_id, jobs in one.partners.items()},
    )  # fmt: skip
    return placed_or_staged(
        cluster, parts, one, prefix, (_RUN, _AWAY), lambda worker_id: {CLAIM: claim_token(parts.secret, worker_id)}
    )


def printed_by_jobs(settings: Settings, secret: bytes) -> Callable[[Worker], str]:
    """Return what reads the output of the job of a staged worker on Ray. It raises Unreadable."""

    def printed(worker: Worker) -> str:
        one = settings.engines.get(worker.engine)
        if not isinstance(one, RaySettings) or one.shared_home:
            return ""
        client = RayClient(one.address, one.token_file, one.ca_file, _LOOK_SECONDS)
        return client.printed(f"{_prefix(secret)}{worker.worker_id}")

    return printed


def _prefix(secret: bytes) -> str:
    return f"fate-flow-{home_of_names(secret)}-"


def _of(one: RaySettings, jobs: RayJobs) -> RayShare:
    return RayShare(jobs.resources, jobs.runtime_env, one.driver_cores, one.labels)
