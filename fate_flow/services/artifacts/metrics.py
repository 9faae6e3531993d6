"""Metrics: rows of `t_tracking_metric`, as many as this party keeps of a job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fate_flow.core.metrics.form import PIECE_BYTES
from fate_flow.core.model.artifact import Artifact
from fate_flow.services.artifacts.kind import ArtifactKind, Maker, Removed
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import Metric, Scope

LIMIT = "limits.metrics_max_bytes"


class MetricKind(ArtifactKind):
    """What the result file of a task has replaces what the task has reported under the same name while it ran."""

    noun = "metric"
    has_rows = True

    def publish(self, tx: Transaction, maker: Maker, artifacts: Sequence[Artifact]) -> str:
        left_out = [text for artifact in artifacts for text in artifact.metadata["left_out"]]
        listed = [_metric(maker, one) for artifact in artifacts for one in artifact.metadata["metrics"]]
        for one in listed:
            tx.drop_metric(one.task, one.namespace, one.name)
        free = maker.most_metric_bytes - tx.metric_size(maker.task.job_id)
        for one in listed:
            free -= PIECE_BYTES + len(json.dumps([one.namespace, one.name, one.data, one.meta]))
            if free < 0:
                left_out.append(f"{one.name}: {too_many(maker.task.job_id, maker.most_metric_bytes)}")
                break
            tx.save_metrics([one], maker.at)
        return f"metrics of {maker.task.name} are left out: {'; '.join(left_out)}" if left_out else ""

    def clear(self, tx: Transaction, scope: Scope) -> Removed:
        return Removed(rows=tx.drop_metrics(scope))


def too_many(job_id: str, most: int) -> str:
    """Return the refusal of metrics beyond what a party keeps of one job."""
    return f"the metrics of job {job_id} would take more than {most} bytes here ({LIMIT})"


def _metric(maker: Maker, one: Mapping[str, Any]) -> Metric:
    return Metric(maker.task, one["namespace"], one["name"], tuple(map(tuple, one["data"])), one["meta"])
