"""The engines that place workers on the machines of a cluster, with a home that these machines share, or staged."""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fate_flow.api.workers.staged import staged_token
from fate_flow.core.model.errors import BadSettings
from fate_flow.engines.local.worker import LAUNCH, WorkerSpec, write_atomically
from fate_flow.engines.placed.cluster import Batch, Cluster, Gang
from fate_flow.engines.placed.conduct import Conduct
from fate_flow.engines.placed.engine import PlacedEngine
from fate_flow.engines.slurm.cluster import Share, SlurmCluster
from fate_flow.engines.staged.folder import StagedFolder
from fate_flow.engines.staged.places import ADDRESS, PIN, TOKEN
from fate_flow.gateway.workers.tls import WorkerTls
from fate_flow.server.engines.local_workers import FolderWorkers
from fate_flow.server.engines.parts import EngineParts
from fate_flow.services.context.ports import LaunchOrder
from fate_flow.settings.engines.engine_settings import EngineSettings
from fate_flow.settings.engines.ray import RaySettings
from fate_flow.settings.engines.slurm import SlurmSettings, SlurmShare

_RUN, _AWAY = "fate_flow.engines.placed.run", "fate_flow.engines.placed.away"
_AWAY_HINT = "the output that its job has left on its node may say why"
_NO_STREAMS = (
    "its task has streams to other parties, which are carried on the server's machine alone: run it on the engine local"
)


@dataclass(frozen=True)
class PlacedWorkers(FolderWorkers):
    """Workers that a cluster runs."""

    engine: PlacedEngine

    def _run(self, order: LaunchOrder, spec: WorkerSpec, imports: Sequence[str]) -> None:  # noqa: ARG002  # none is forked
        self.engine.launch(
            spec, order.need, order.initiator, gathers=order.gathers, gang=_gang_of(order), batch=_batch_of(order)
        )

    def has_living_worker(self, job_id: str) -> bool:
        found = (self.settings.jobs_dir / job_id).glob(f"**/{LAUNCH}")
        return any(self.engine.is_living(one.parent) for one in found)


@dataclass(frozen=True)
class StagedWorkers(PlacedWorkers):
    """Workers that a cluster runs on hosts without the home."""

    def _run(self, order: LaunchOrder, spec: WorkerSpec, imports: Sequence[str]) -> None:
        if not order.streams:
            super()._run(order, spec, imports)
            return
        write_atomically(spec.folder / LAUNCH, spec.to_json(), mode=0o600, is_durable=False)
        StagedFolder(spec.folder, self.settings.shared, 0).refuse(_NO_STREAMS)


def build_slurm(parts: EngineParts, one: EngineSettings) -> PlacedWorkers:
    """Return an engine of kind `slurm`. Raises BadSettings."""
    assert isinstance(one, SlurmSettings), one
    prefix = f"fate-flow-{home_of_names(parts.secret)}-"
    cluster = SlurmCluster(
        prefix, _of(one.own), {name: _of(share) for name, share in one.partners.items()}, one.commands,
        one.longest_time, features=one.labels, scratch=None if one.shared_home else one.scratch,
    )  # fmt: skip
    return placed_or_staged(
        cluster, parts, one, prefix, (_RUN, _AWAY), lambda worker_id: {TOKEN: staged_token(parts.secret, worker_id)}
    )


def placed_or_staged(
    cluster: Cluster, parts: EngineParts, one: SlurmSettings | RaySettings, prefix: str, modules: tuple[str, str],
    secrets: Callable[[str], Mapping[str, str]],
) -> PlacedWorkers:  # fmt: skip
    """Return the workers of an engine whose hosts see the home, or of one whose hosts do not.

    `modules`: what a job executes in the one case, and in the other; `secrets`: what the agent of a staged worker gets,
    by its id. Raises BadSettings."""
    python = [str(one.python or sys.executable), "-P", "-m"]
    run, away = modules
    conduct = Conduct(
        poll_seconds=one.poll_seconds,
        longest_pending=one.longest_pending,
        settle=one.settle_seconds,
        runner=lambda folder: [*python, run, str(folder)],
        jobs_dir=parts.settings.jobs_dir,
        prefix=prefix,
        gathers=True,
        env=way_to_listener(parts),
    )
    if one.shared_home:
        return workers_on(cluster, parts, one, conduct)
    base = str(one.scratch / prefix.rstrip("-"))
    return workers_on(cluster, parts, one, replace(
        conduct,
        runner=lambda folder: [*python, away, base, folder.name],
        env=way_of_staged(parts, one, f"{one.section}.shared_home: true for nodes that see the home"),
        secrets=secrets,
        hint=_AWAY_HINT,
    ), StagedWorkers)  # fmt: skip


def way_of_staged(parts: EngineParts, one: EngineSettings, instead: str) -> Mapping[str, str]:
    """Return the variables by which the agent of a staged worker finds the listener for workers.

    `instead`: the setting with which workers are not staged. Raises BadSettings."""
    listen = parts.settings.worker_listen
    if listen is None:
        raise BadSettings(
            f"{one.section}: workers on other hosts have no way to this server: set fateflow.worker_listen, or "
            f"{instead}"
        )
    return {ADDRESS: listen.address, PIN: WorkerTls.of(parts.settings.keys_dir).pin}


def way_to_listener(parts: EngineParts) -> Mapping[str, str]:
    """Return the variables by which a worker on a node finds the listener for workers, over which it reaches this
    server, or another one of the party at the same address. Without this listener there are none: its documents name
    the address for local workers."""
    listen = parts.settings.worker_listen
    if listen is None:
        return {}
    return {ADDRESS: listen.address, PIN: WorkerTls.of(parts.settings.keys_dir).pin}


def workers_on(
    cluster: Cluster, parts: EngineParts, one: EngineSettings, conduct: Conduct,
    kind: type[PlacedWorkers] = PlacedWorkers,
) -> PlacedWorkers:  # fmt: skip
    def ended(folder: Path) -> None:
        parts.wake_scheduler(json.dumps({"worker": folder.name, "event": "exited"}).encode())

    engine = PlacedEngine(cluster, conduct, ended)
    return kind(
        parts.settings, engine, parts.exchange_url, parts.secret, parts.wake_scheduler, parts.providers, one.program_env
    )


def _of(share: SlurmShare) -> Share:
    return Share(share.partition, share.account, share.qos, share.constraint)


def _gang_of(order: LaunchOrder) -> Gang | None:
    return Gang(_attempt(order), order.gang_size) if order.gang_size > 1 else None


def _batch_of(order: LaunchOrder) -> Batch | None:
    return Batch(_attempt(order), order.batch_size) if order.batch_size > 1 else None


def _attempt(order: LaunchOrder) -> str:
    """Return a name for this attempt of a task at this party."""
    text = f"{order.worker.task} {order.incarnation}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def home_of_names(secret: bytes) -> str:
    """Return the part of the names by which jobs of this home are told from those of other servers of the same user."""
    return hmac.new(secret, b"names of placed workers", hashlib.sha256).hexdigest()[:12]
