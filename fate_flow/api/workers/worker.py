"""The listener for this party's own workers, on loopback: the exchange, the tracker, the report route and the documents
of a job. Each worker has its own token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flask import Blueprint, Flask, Response

from fate_flow.api.between_parties.exchange import ExchangeEnvelope, Forward, worker_blueprint
from fate_flow.api.bodies.reading import BodyRequest
from fate_flow.api.http.errors import Api, register_apis
from fate_flow.api.http.request_origin import OriginCheck
from fate_flow.api.v1.envelope import ok
from fate_flow.api.workers import metrics, operation, staged, tracker
from fate_flow.api.workers.envelope import WORKERS
from fate_flow.api.workers.metric_space import MetricSpace
from fate_flow.api.workers.staged import StagedSettings
from fate_flow.core.metrics.form import MOST_BYTES_OF_JOB
from fate_flow.relay.spool import Spool
from fate_flow.store.contract.transaction import Store

WakeJob = Callable[[str], None]
"""Ask the scheduler to check a job."""


def create_worker_app(
    spool: Spool, forward: Forward, slots: int, wake_job: WakeJob, max_bytes: int, store: Store,
    clock: Callable[[], int], data_dir: Path, metrics_max_bytes: int = MOST_BYTES_OF_JOB,
    of_staged: StagedSettings | None = None,
) -> Flask:  # fmt: skip
    """Return the application of the workers' listener; `of_staged`: None if no worker runs on another host."""
    app = Flask("fate_flow.workers", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = max_bytes
    app.request_class = BodyRequest
    app.before_request(OriginCheck().check)
    space = MetricSpace(metrics_max_bytes)
    results: tuple[Blueprint, ...] = (
        tracker.blueprint(spool, store, clock, data_dir, space), operation.blueprint(spool, store),
        metrics.blueprint(spool, store, clock, space), _report_blueprint(spool, wake_job),
    )  # fmt: skip
    exchange = worker_blueprint(spool, forward, slots)
    if of_staged is not None:
        results += (staged.blueprint(of_staged, store),)
    register_apis(app, Api(WORKERS, results), Api(ExchangeEnvelope(), (exchange,)))
    return app


def _report_blueprint(spool: Spool, wake_job: WakeJob) -> Blueprint:
    """Return the blueprint of `/v1/party/.../report` (party-api-v1, section 3).

    A report only makes the scheduler check the worker: its state is read from its process and files, not from the
    report."""
    blueprint = Blueprint("worker_report", __name__, url_prefix="/v1")

    @blueprint.post("/party/<job_id>/<component>/<task_id>/<version>/<role>/<party_id>/report")
    def report(job_id: str, component: str, task_id: str, version: str, role: str, party_id: str) -> Response:  # noqa: ARG001  # the task id holds it
        tracker.worker_of(spool, (job_id, task_id, version, role, party_id))
        wake_job(job_id)
        return ok()

    return blueprint
