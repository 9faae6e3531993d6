"""What an engine sees of a worker: it runs, it has made a table, it failed, it was stopped."""

from __future__ import annotations

from fate_flow.core.model.job import WorkerPlace
from fate_flow.services.context.ports import Observation, TaskOutputs
from fate_flow.store.values import TableMeta


def made(name: str, namespace: str = "out") -> Observation:
    """A worker that succeeded and made one table under each key."""
    table = TableMeta(namespace, name, f"standalone:///{namespace}/{name}", 3, {}, origin="output")
    metrics = (("train", "work", (("loss", 1),), {}),)
    return Observation(
        "exited", PLACE, "exited", 0, None, True, "", TaskOutputs((("data", table),), metrics, {"rows": 3})
    )


PLACE = WorkerPlace(7)
RUNS = Observation("running", PLACE)
FAILED = Observation("exited", PLACE, "exited", 1, None, False, "it went wrong")
STOPPED = Observation("exited", PLACE, "stopped", None, 15)
SUCCEEDED = Observation("exited", PLACE, "exited", 0, None, True)
