"""The engine that runs workers as Jobs of Kubernetes: staged over the listener for workers, or on a volume."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fate_flow.api.workers.staged import staged_token
from fate_flow.core.model.errors import BadSettings
from fate_flow.engines.kubernetes.cluster import Api, KubernetesCluster
from fate_flow.engines.kubernetes.kueue import Admission
from fate_flow.engines.kubernetes.manifests import PodSettings, WorkerAt
from fate_flow.engines.placed.conduct import Conduct
from fate_flow.engines.staged.places import ADDRESS, PIN
from fate_flow.server.engines.parts import EngineParts
from fate_flow.server.engines.placed_workers import (
    PlacedWorkers,
    StagedWorkers,
    home_of_names,
    way_of_staged,
    workers_on,
)
from fate_flow.settings.engines.engine_settings import EngineSettings
from fate_flow.settings.engines.kubernetes import KubernetesSettings, PodShare

NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")      # of a pod: where it runs
_RUN = "fate_flow.engines.placed.run"


def build_kubernetes(parts: EngineParts, one: EngineSettings) -> PlacedWorkers:
    """Return an engine of kind `kubernetes`. Raises BadSettings."""
    assert isinstance(one, KubernetesSettings), one
    return kubernetes_workers(parts, one, _client_of(one))


def kubernetes_workers(parts: EngineParts, one: KubernetesSettings, api: Api) -> PlacedWorkers:
    """Return the engine over these requests. Raises BadSettings."""
    one = replace(one, namespace=namespace_of(one))
    home_id = home_of_names(parts.secret)
    prefix = f"fate-flow-{home_id}-"
    is_staged = not one.volume_claim
    cluster = KubernetesCluster(
        api, home_id, _pods_of(parts, one, one.own), _reach_of(parts, one) if is_staged else None,
        {party_id: _pods_of(parts, one, share) for party_id, share in one.partners.items()},
        Admission(api, one.namespace, one.kueue_check) if one.kueue_check else None,
        one.gang_scheduler,
    )  # fmt: skip
    conduct = Conduct(
        poll_seconds=one.poll_seconds,
        longest_pending=one.longest_pending,
        settle=one.settle_seconds,
        runner=lambda folder: [one.python, "-P", "-m", _RUN, str(folder)],
        jobs_dir=parts.settings.jobs_dir,
        prefix=prefix,
        gathers=True,
    )
    return workers_on(cluster, parts, one, conduct, StagedWorkers if is_staged else PlacedWorkers)


def namespace_of(one: KubernetesSettings) -> str:
    """Return where the Jobs of an engine are: without a setting, where this pod runs. Raises BadSettings."""
    if one.namespace or one.kubeconfig is not None:
        return one.namespace or "default"
    try:
        return NAMESPACE.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise BadSettings(f"{one.section}.namespace: is missing, and {NAMESPACE} cannot be read: set it") from error


def _client_of(one: KubernetesSettings) -> Api:
    try:
        from fate_flow.engines.kubernetes.api import ClientApi
    except ModuleNotFoundError as error:
        raise BadSettings(
            f"{one.section}: the package {error.name} is missing: install fate_flow[kubernetes]"
        ) from error
    return ClientApi(one.kubeconfig, one.context)


def _reach_of(parts: EngineParts, one: KubernetesSettings) -> Callable[[str], WorkerAt]:
    way = way_of_staged(parts, one, f"{one.section}.volume_claim for a volume with the home")
    return lambda worker_id: WorkerAt(way[ADDRESS], way[PIN], staged_token(parts.secret, worker_id))


def _pods_of(parts: EngineParts, one: KubernetesSettings, share: PodShare) -> PodSettings:
    return PodSettings(
        one.image, one.namespace, one.python, one.pull_policy, one.pull_secrets, one.service_account,
        share.node_selector, share.tolerations, one.run_as_user, one.volume_claim, str(parts.settings.shared),
        share.kueue_queue, one.scheduler, share.volcano_queue, share.priority_class, one.keep_seconds, one.labels,
    )  # fmt: skip
