"""The table of kinds: what is published, read by tasks, granted and removed. On disk: components/artifacts/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fate_flow.core.model.artifact import (
    DATA,
    DATAFRAME,
    FILE,
    JSON_MODEL,
    METRIC,
    MODEL,
    MODEL_DIRECTORY,
    TABLE,
    Artifact,
)
from fate_flow.core.model.spec import Party
from fate_flow.services.artifacts.kind import ArtifactKind, Maker, Removed
from fate_flow.services.artifacts.tables import TableKind
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import Metric, Scope

_IN_SUMMARY = "files"


class FileKind(ArtifactKind):
    """Files that a program leaves. The summary of the task lists them, with their sizes and digests."""

    noun = "file"

    def in_summary(self, artifacts: Sequence[Artifact]) -> Mapping[str, Any]:
        return {_IN_SUMMARY: {one.key: dict(one.metadata) for one in artifacts}} if artifacts else {}


class ModelKind(ArtifactKind):
    """Models, which stay in the folder of their worker, and at their party. The summary of the task lists them."""

    port = MODEL
    noun = "model"
    stays_with_worker = True

    def in_summary(self, artifacts: Sequence[Artifact]) -> Mapping[str, Any]:
        return {"models": {one.key: one.kind for one in artifacts}} if artifacts else {}


class FrameKind(ArtifactKind):
    """FATE's data frames, which stay in a folder of their seat of the job, and at their party."""

    port = DATA
    noun = "table"
    stays_with_worker = True


def files_of(tx: Transaction, job_id: str, task: str, party: Party) -> Mapping[str, Any]:
    """Return what is stored about the published files of a party task, by the names of its outputs."""
    summary = tx.summary(job_id, task, party) or {}
    return summary.get(_IN_SUMMARY) or {}


class MetricKind(ArtifactKind):
    """Metrics: rows of `t_tracking_metric`."""

    noun = "metric"
    has_rows = True

    def publish(self, tx: Transaction, maker: Maker, artifacts: Sequence[Artifact]) -> None:
        listed = [one for artifact in artifacts for one in artifact.metadata["metrics"]]
        tx.save_metrics((_metric(maker, one) for one in listed), maker.at)

    def clear(self, tx: Transaction, scope: Scope) -> Removed:
        return Removed(rows=tx.drop_metrics(scope))


def _metric(maker: Maker, one: Mapping[str, Any]) -> Metric:
    data = tuple((pair[0], pair[1]) for pair in one["data"])
    return Metric(maker.task, one["namespace"], one["name"], data, one["meta"])


Kinds = Mapping[str, ArtifactKind]

KINDS: Kinds = MappingProxyType({
    TABLE: TableKind(), FILE: FileKind(), METRIC: MetricKind(),
    JSON_MODEL: ModelKind(), MODEL_DIRECTORY: ModelKind(), DATAFRAME: FrameKind(),
})
"""By the name of the kind, in the order in which outputs are published."""
