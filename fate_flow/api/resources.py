"""`/v1/resource/...`: what this party's engine has and who holds it (client-api-v1, section 3.2)."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from fate_flow.api.arguments import read_job_id, read_text
from fate_flow.api.envelope import arguments, failed, ok, silent_json
from fate_flow.api.services import Services
from fate_flow.core.errors import JobNotFound
from fate_flow.core.job import Job
from fate_flow.store.views import Row

_UNKNOWN_JOB = 100


def blueprint(services: Services) -> Blueprint:
    desk, views = services.desk, services.views
    resources = Blueprint("resources", __name__, url_prefix="/v1/resource")

    @resources.post("/query")
    def query() -> Response:
        engine = views.engine(read_text(silent_json(), "engine_name"))
        holders = [_holder(row) for row in views.jobs_that_hold()]
        return ok({"use_resource_job": holders, "computing_engine_resource": engine})

    @resources.post("/return")
    def give_back() -> Response:
        job_id = read_job_id(arguments("job_id"))
        try:
            returned = desk.return_resources(job_id)
        except JobNotFound as error:
            return failed(_UNKNOWN_JOB, error.message)
        return ok([_returned(job, done) for job, done in returned])

    return resources


def _holder(row: Row) -> Row:
    return {
        "job_id": row["f_job_id"],
        "role": row["f_role"],
        "party_id": row["f_party_id"],
        "core": row["f_cores"],
        "memory": row["f_memory"],
    }


def _returned(job: Job, done: bool) -> dict[str, Any]:
    """A seat as it was before, and whether something came back."""
    return {
        "job_id": job.job_id,
        "role": job.party.role,
        "party_id": job.party.party_id,
        "resource_in_use": job.holds and not done,
        "resource_return_status": done,
    }
