"""`/v1/operation/job_config/get` on the workers' listener (party-api-v1, section 5): the documents of a job.

A worker gets them only for its own party's seat, which its token identifies.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.arguments import read_job_id, read_party, read_whole
from fate_flow.api.v1.envelope import HttpError, arguments, ok
from fate_flow.api.workers.tracker import session_of_worker
from fate_flow.core.model.errors import BadRequest, PermissionDenied
from fate_flow.relay.spool import Spool
from fate_flow.relay.spool_session import Session
from fate_flow.store.contract.transaction import Store
from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.values import Document


def blueprint(spool: Spool, store: Store) -> Blueprint:
    retry = Retry()
    operation = Blueprint("operation", __name__, url_prefix="/v1/operation")

    @operation.post("/job_config/get")
    def job_config() -> Response:
        session = session_of_worker(spool)
        body = _asked()
        job_id, party = body["job_id"], body["party"]

        def read() -> Document | None:
            with store.reading() as tx:
                return tx.document(job_id, party)

        if not _is_own(session, body):
            raise PermissionDenied(f"the token is not that of job {job_id} on {party}, or not of this task")
        found = retry(read)
        if found is None:
            raise HttpError(404, f"job {job_id} on {party} is not known here")
        return ok({
            "dsl": found.dsl, "runtime_conf": found.runtime_conf, "runtime_conf_on_party": found.on_party,
            "train_runtime_conf": {},           # only for jobs that predict
        })  # fmt: skip

    return operation


def _asked() -> dict[str, Any]:
    """Return the job and the party, and the task if one is named. Raise HttpError (400) for invalid ones."""
    try:
        body = arguments("job_id", "role", "party_id")
        version = read_whole(body, "task_version", 0) if body.get("task_version") is not None else None
        return {
            "job_id": read_job_id(body), "party": read_party(body), "task_id": body.get("task_id"), "version": version,
        }  # fmt: skip
    except BadRequest as error:
        raise HttpError(400, error.message) from error


def _is_own(session: Session, asked: dict[str, Any]) -> bool:
    party = asked["party"]
    return (
        (session.job_id, session.role, session.party_id) == (asked["job_id"], party.role, party.party_id)
        and asked["task_id"] in (None, session.task_id)
        and asked["version"] in (None, session.version)
    )
