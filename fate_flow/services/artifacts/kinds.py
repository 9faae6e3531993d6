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
from fate_flow.services.artifacts.kind import ArtifactKind
from fate_flow.services.artifacts.metrics import MetricKind
from fate_flow.services.artifacts.tables import TableKind
from fate_flow.store.contract.transaction import Transaction

_IN_SUMMARY = "files"


class FileKind(ArtifactKind):
    """Files that a program leaves. The summary of the task lists them, with their sizes and digests."""

    noun = "file"

    def in_summary(self, artifacts: Sequence[Artifact]) -> Mapping[str, Any]:
        return {_IN_SUMMARY: {one.key: dict(one.metadata) for one in artifacts}} if artifacts else {}


class ModelKind(ArtifactKind):
    """Models. Tasks of the same job read them in the folder of their worker, others in the store; both are at this
    party. The summary of the task lists them."""

    port = MODEL
    noun = "model"
    is_stored = True
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


Kinds = Mapping[str, ArtifactKind]

KINDS: Kinds = MappingProxyType({
    TABLE: TableKind(), FILE: FileKind(), METRIC: MetricKind(),
    JSON_MODEL: ModelKind(), MODEL_DIRECTORY: ModelKind(), DATAFRAME: FrameKind(),
})
"""By the name of the kind, in the order in which outputs are published."""
