"""Rerun a job at its initiator: this server, or that of another party."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.api.http.caller import caller
from fate_flow.api.http.services import Services
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.initiator_bodies import read_rerun
from fate_flow.core.wire.v1.paths import endpoint_of


def rerun_at_initiator(services: Services, job_id: str, body: Mapping[str, Any]) -> Answer:
    """Return the answer of the initiator; `component_name` and `force` in the body select the tasks.

    Raises JobNotFound, BadRequest; Conflict if the job is not over or has nothing left to do."""
    jobs = services.use_cases.jobs
    initiator = _initiator_elsewhere(services, job_id)
    if initiator is None:
        jobs.rerun(job_id, body, caller())
        return Answer()
    asked = Command(CommandKind.ASK_RERUN, job_id, initiator, body=read_rerun(body).as_body(job_id))
    with services.asking("rerun", job_id) as ask_party:
        answer = ask_party(initiator, endpoint_of(asked), asked.body)
    if answer.is_ok:
        jobs.note_rerun_elsewhere(job_id, caller())
    return answer


def _initiator_elsewhere(services: Services, job_id: str) -> Party | None:
    """Return the initiator of a known job of another party; None if this server answers the request itself."""
    rows = services.context.read(lambda tx: tx.jobs_here(job_id))
    return None if not rows or any(row.is_initiator for row in rows) else rows[0].initiator
