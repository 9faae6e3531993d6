"""`/v1/metrics` on the workers' listener: what a worker reports while it runs.

The body is FATE 2's: `{"data": [{name, type, groups, step_axis, data}, ...]}`. The token of the worker says whose
metrics they are. The points of a curve may come in pieces. What the result file of the task has under the same name
replaces them when the task has succeeded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.v1.envelope import ok, silent_json
from fate_flow.api.workers.metric_space import MetricSpace
from fate_flow.api.workers.tracker import session_of_worker
from fate_flow.core.metrics.form import PIECE_BYTES, Kept, read_metric
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.relay.spool import Spool
from fate_flow.relay.spool_session import Session
from fate_flow.store.contract.transaction import Store
from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.values import Metric


def blueprint(spool: Spool, store: Store, clock: Callable[[], int], space: MetricSpace) -> Blueprint:
    retry = Retry()
    metrics = Blueprint("metrics", __name__, url_prefix="/v1")

    @metrics.post("/metrics")
    def record() -> Response:
        session = session_of_worker(spool)
        listed = list(map(_metric_of, _listed(silent_json())))
        key = _task_of(session)

        def once() -> None:
            with store.transaction() as tx:
                space.take(tx, key.job_id, len(listed) * PIECE_BYTES + len(json.dumps(listed)))
                kept = (Metric(key, one["namespace"], one["name"], one["data"], one["meta"]) for one in listed)
                tx.save_metrics(kept, clock())

        retry(once)
        return ok()

    return metrics


def _listed(body: Mapping[str, Any]) -> list[Any]:
    found = body.get("data")
    if not isinstance(found, list):
        raise BadRequest(f"data: {shown(found)} is not a list of metrics")
    return found


def _metric_of(said: Any) -> Kept:
    try:
        return read_metric(said)
    except ValueError as error:
        raise BadRequest(f"data: {error}") from error


def _task_of(session: Session) -> TaskKey:
    name = session.task_id.removeprefix(f"{session.job_id}_")
    return TaskKey(session.job_id, name, session.version, Party(session.role, session.party_id))
