"""`/v2/log/...`: lines of a log of a job, of one of its parties, or of a task there (client-api-v2, section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.arguments import read_job_id, read_party
from fate_flow.api.http.declared import COUNT, FREE, TEXT, WHOLE, Arguments, a_list, declared
from fate_flow.api.http.services import Services
from fate_flow.api.v1.party.log_lines import LEVELS, SCHEDULE, SCHEDULE_ERROR, count_lines, log_name, numbered
from fate_flow.api.v2.arguments import arguments
from fate_flow.api.v2.envelope import ok
from fate_flow.core.access.client_roles import AUDIT, OPERATE, SUBMIT
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_component_name, shown

_OF_JOB = {"schedule_info": SCHEDULE, "schedule_error": SCHEDULE_ERROR}
_OF_TASK = {f"task_{level}": log_name(level) for level in LEVELS}
_LOG: Arguments = {"log_type": TEXT, "job_id": TEXT}
_SEAT: Arguments = {"role": TEXT, "party_id": TEXT}
_ROLES = SUBMIT | OPERATE | AUDIT
_INSTANCE = ("instance_id",)
"""A key of the clients of several servers at one site. This party has one."""


def blueprint(services: Services) -> Blueprint:
    settings = services.settings
    logs = Blueprint("v2_logs", __name__, url_prefix="/v2/log")

    @logs.get("/count")
    @declared(
        "Show the number of lines of a log.", _ROLES, needs=_LOG, takes=_SEAT | {"task_name": TEXT}, idle=_INSTANCE,
        data=COUNT,
    )
    def count() -> Response:
        return ok(count_lines(_file(settings.log_dir, arguments())))

    @logs.get("/query")
    @declared(
        "Show lines of a log.", _ROLES, needs=_LOG | _SEAT,
        takes={"task_name": TEXT, "begin": WHOLE, "end": WHOLE}, idle=_INSTANCE, data=a_list(FREE),
    )
    def query() -> Response:
        sent = arguments()
        return ok(list(numbered(_file(settings.log_dir, sent), sent.get("begin", 1), sent.get("end"))))

    return logs


def _file(logs: Path, sent: Mapping[str, Any]) -> Path:
    """Return the log file that the request means; every part of its path is a checked name. Raise BadRequest."""
    kind, folder = sent["log_type"], logs / read_job_id(sent)
    if kind in _OF_JOB:
        return folder / _OF_JOB[kind]
    if kind not in _OF_TASK:
        raise BadRequest(f"log_type: {shown(kind)} is not one of {', '.join((*_OF_JOB, *_OF_TASK))}")
    party = read_party(sent)
    folder = folder / party.role / party.party_id
    return folder / (check_component_name(sent["task_name"]) if "task_name" in sent else "") / _OF_TASK[kind]
