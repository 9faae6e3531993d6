"""What an engine sees of a worker: it runs, it has made a table, it failed, it was stopped."""

from __future__ import annotations

from typing import Any

from fate_flow.core.model.artifact import METRIC, TABLE, Artifact
from fate_flow.core.model.job import WorkerPlace
from fate_flow.services.context.ports import Observation, TaskOutputs


def a_table(name: str, namespace: str = "out", key: str = "data", count: int = 3) -> Artifact:
    """A table as a worker reports it."""
    metadata: dict[str, Any] = {
        "namespace": namespace, "name": name, "count": count, "replaced": 0, "schema": {}, "job_id": "",
    }
    return Artifact(TABLE, f"standalone:///{namespace}/{name}", metadata, key)


def made(name: str, namespace: str = "out") -> Observation:
    """A worker that succeeded and made a table and a metric."""
    metric = {"namespace": "train", "name": "work", "data": [["loss", 1]], "meta": {}}
    metrics = Artifact(METRIC, "file:///w/metric.json", {"metrics": [metric], "left_out": []}, "metric")
    return with_outputs(a_table(name, namespace), metrics, rows=3)


def with_outputs(*artifacts: Artifact, **summary: Any) -> Observation:
    """A worker that succeeded and made these artifacts."""
    return Observation("exited", PLACE, "exited", 0, None, True, "", TaskOutputs(artifacts, summary))


PLACE = WorkerPlace(7)
RUNS = Observation("running", PLACE)
FAILED = Observation("exited", PLACE, "exited", 1, None, False, "it went wrong")
STOPPED = Observation("exited", PLACE, "stopped", None, 15)
SUCCEEDED = Observation("exited", PLACE, "exited", 0, None, True)
