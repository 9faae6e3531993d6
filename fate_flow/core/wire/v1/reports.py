"""Reports: a party's statement about its share of a task (party-api-v1, section 4), alone or within an answer.

`reason`, `message`, `incarnation`, `exit_code`, `caused_by`, `waits`, `failed_workers` and the status `stopping` are
our extensions. A received report may be malformed, or may state what its sender may not state; only its form is checked
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import (
    check_component_name,
    check_incarnation,
    check_job_id,
    check_party_id,
    check_role,
    check_task_id,
    check_version,
)
from fate_flow.core.model.job import Command, CommandKind, Job, Report, Task, TaskKey
from fate_flow.core.model.reasons import Reason, task_status_for
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.wire.v1.endings import PLAIN_V1_REASONS
from fate_flow.core.wire.v1.fields import cause_in, exit_code_in, moment_in, reason_in, text_in

MOST_COUNTED = 1_000_000
MOST_WAITS = 500
"""Characters of the text about what a share waits for."""
NOT_WELL_FORMED = "party_status: the report is not well formed"


def report_of(task: Task, is_plain_v1: bool = False, failed_workers: int = 0) -> dict[str, Any]:
    """Return the body of a report.

    `is_plain_v1`: for a plain v1 initiator, which has no `stopping`; it gets `running` instead. `failed_workers`: their
    number, if the job limits it."""
    key = task.key
    text = {TaskStatus.STOPPING: TaskStatus.RUNNING} if is_plain_v1 else {}
    status, party_status = text.get(task.status, task.status), text.get(task.party_status, task.party_status)
    body = {
        "job_id": key.job_id,
        "component_name": key.name,
        "task_id": key.task_id,
        "task_version": key.version,
        "role": key.party.role,
        "party_id": key.party.party_id,
        "status": status.value,
        "party_status": party_status.value,
        "incarnation": task.incarnation,
        "reason": task.reason.value if task.reason else None,
        "message": task.message,
        "error_report": task.message,
        "exit_code": task.exit_code,
        "caused_by": task.caused_by or None,
        "start_time": task.start_time or None,
        "end_time": task.end_time or None,
        "elapsed": task.end_time - task.start_time if task.end_time and task.start_time else None,
    }
    if task.waits and task.party_status is TaskStatus.WAITING:
        body["waits"] = task.waits
    return {**body, "failed_workers": failed_workers} if failed_workers else body


def report_to(job: Job, task: Task, failed_workers: int) -> Command:
    """Return the report of a share to the initiator of the job. `job`: the row of the job at the seat of the share."""
    key, body = task.key, report_of(task, job.is_plain_v1, failed_workers)
    return Command(
        CommandKind.REPORT, key.job_id, job.initiator, job.run, key.name, key.version, body["party_status"], body
    )


def read_report(body: Mapping[str, Any]) -> Report | None:
    """Read the report in a body; None if it is malformed."""
    try:
        key = _task_in(body)
        status = TaskStatus(body.get("party_status"))
        incarnation = check_incarnation(body["incarnation"]) if body.get("incarnation") else ""
    except (BadRequest, ValueError):
        return None
    message = text_in(body, "message") or text_in(body, "error_report")
    reason = _reason_in(body, status)
    cause = cause_in(body) or (str(key.party) if reason else "")
    return Report(
        key, incarnation, status, reason, message, moment_in(body, "start_time"), moment_in(body, "end_time"),
        exit_code_in(body), cause, text_in(body, "waits")[:MOST_WAITS] if status is TaskStatus.WAITING else "",
        _failed_workers_in(body),
    )  # fmt: skip


def _task_in(body: Mapping[str, Any]) -> TaskKey:
    """Read the key of the share. Raises BadRequest."""
    job_id = check_job_id(body.get("job_id"))
    name = body.get("component_name") or check_task_id(body.get("task_id")).removeprefix(f"{job_id}_")
    party = Party(check_role(body.get("role")), check_party_id(body.get("party_id")))
    return TaskKey(job_id, check_component_name(name), check_version(body.get("task_version")), party)


def _reason_in(body: Mapping[str, Any], status: TaskStatus) -> Reason | None:
    """Read the reason; if the status does not follow from it, return the default reason of the status."""
    reason = reason_in(body)
    fits = reason is not None and (task_status_for(reason) is status or status is TaskStatus.STOPPING)
    return reason if fits else PLAIN_V1_REASONS.get(status)


def _failed_workers_in(body: Mapping[str, Any]) -> int:
    """Read the number of failed workers; 0 if it is missing or not a count."""
    value = body.get("failed_workers")
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_COUNTED else 0


def reports_data(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the data of the answer to `stop`: reports of the shares of the seat."""
    return {"tasks": reports}


def reports_in(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the bodies of reports in the answer to `stop`."""
    tasks = data.get("tasks")
    return tuple(one for one in tasks if isinstance(one, Mapping)) if isinstance(tasks, list) else ()
