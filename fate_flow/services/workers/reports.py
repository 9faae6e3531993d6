"""Reports: a party's statement about its share, how it is sent to the initiator, and how it is read.

A report contains version and incarnation. A received report may be malformed, or may state more than a party may; both
are checked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
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
from fate_flow.core.model.job import Command, CommandKind, Report, Task, TaskKey
from fate_flow.core.model.reasons import RULES, Author, Reason, may_say, task_status_for
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TASK_BROKEN, TaskStatus
from fate_flow.core.text.phrases import sanitized
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.failed_workers import count_in, said_in_report

_LONGEST_MESSAGE = 4_000         # characters
_HIGHEST_EXIT_CODE = 255

PLAIN_V1_REASONS = {
    TaskStatus.SUCCESS: Reason.DONE,
    TaskStatus.PASS: Reason.NOT_NEEDED,
    TaskStatus.FAILED: Reason.WORKER_ERROR,
    TaskStatus.CANCELED: Reason.STOPPED,
    TaskStatus.TIMEOUT: Reason.TASK_TIMEOUT,
}
"""The reason of a report from a plain v1 peer, which gives none, by status."""


def tell_initiator(unit: UnitOfWork, task: Task) -> None:
    """Report this party's share to the initiator; if that is this party, only note that the job has changed."""
    job_id = task.key.job_id
    if unit.tx.job_here(job_id) is not None:
        unit.touch(job_id)
        return
    own = next((job for job in unit.tx.jobs_here(job_id) if job.party == task.key.party), None)
    if own is None:
        return
    unit.touch(job_id)      # a row that is draining may end now
    key, body = task.key, {**report_of(task, own.is_plain_v1), **said_in_report(unit, task)}
    unit.send(
        Command(
            CommandKind.REPORT, job_id, own.initiator, own.run, key.name, key.version, body["party_status"], body
        )
    )


def report_of(task: Task, is_plain_v1: bool = False) -> dict[str, Any]:
    """Return the body of a report (party-api-v1, section 4); `reason`, `message` and `incarnation` are our extensions.

    `is_plain_v1`: for a plain v1 initiator, which has no `stopping`; it gets `running` instead."""
    key = task.key
    text = {TaskStatus.STOPPING: TaskStatus.RUNNING} if is_plain_v1 else {}
    status, party_status = text.get(task.status, task.status), text.get(task.party_status, task.party_status)
    return {
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


def read_report(body: Mapping[str, Any]) -> Report | None:
    """Read the report in a body; None if it is malformed."""
    try:
        key = _task_in(body)
        status = TaskStatus(body.get("party_status"))
        incarnation = check_incarnation(body["incarnation"]) if body.get("incarnation") else ""
    except (BadRequest, ValueError):
        return None
    message = sanitized(body.get("message"), _LONGEST_MESSAGE) or sanitized(body.get("error_report"), _LONGEST_MESSAGE)
    start, end = _moment(body.get("start_time")), _moment(body.get("end_time"))
    reason = _reason_in(body, status)
    cause = cause_in(body) or (str(key.party) if reason else "")
    return Report(key, incarnation, status, reason, message, start, end, exit_code_in(body), cause, count_in(body))


def within_its_say(report: Report, parties: Collection[Party]) -> Report:
    """Return the report without what a party may not state: a reason of the initiator, and another party as cause.

    Another party of the job may be named as cause only if the share was stopped, because then the initiator may have
    named it."""
    reason = report.reason
    if reason is not None and not may_say(Author.PARTY, reason):
        reason = PLAIN_V1_REASONS.get(report.status)
    own, named = report.task.party, {str(party): party for party in parties}.get(report.caused_by)
    cause = named if named is not None and reason is not None and _may_name_cause(reason) else own
    return replace(report, reason=reason, caused_by=str(cause) if reason else "")


def _may_name_cause(reason: Reason) -> bool:
    """Return whether a share with this reason was ended from outside, not by its own workers."""
    rule = RULES[reason]
    return may_say(Author.INITIATOR, reason) and rule.retry_event is None and TaskStatus(rule.status) in TASK_BROKEN


def cause_in(body: Mapping[str, Any]) -> str:
    """Read the party that a body names as the cause (`host 10000`); empty if it names none."""
    value = body.get("caused_by")
    role, _, party_id = value.partition(" ") if isinstance(value, str) else ("", "", "")
    try:
        return str(Party(check_role(role), check_party_id(party_id)))
    except BadRequest:
        return ""


def _task_in(body: Mapping[str, Any]) -> TaskKey:
    """Read the key of the share. Raises BadRequest."""
    job_id = check_job_id(body.get("job_id"))
    name = body.get("component_name") or check_task_id(body.get("task_id")).removeprefix(f"{job_id}_")
    party = Party(check_role(body.get("role")), check_party_id(body.get("party_id")))
    return TaskKey(job_id, check_component_name(name), check_version(body.get("task_version")), party)


def _reason_in(body: Mapping[str, Any], status: TaskStatus) -> Reason | None:
    """Read the reason; if the status does not follow from it, return the default reason of the status."""
    try:
        reason = Reason(body.get("reason"))
    except ValueError:
        return PLAIN_V1_REASONS.get(status)
    fits = task_status_for(reason) is status or status is TaskStatus.STOPPING
    return reason if fits else PLAIN_V1_REASONS.get(status)


def exit_code_in(body: Mapping[str, Any]) -> int | None:
    """Read the exit code of the worker; None if there is none."""
    code = body.get("exit_code")
    return code if isinstance(code, int) and not isinstance(code, bool) and 0 <= code <= _HIGHEST_EXIT_CODE else None


def _moment(value: object) -> int:
    """Read a time in milliseconds since the epoch; 0 if it does not fit a column."""
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 <= value < 2**62 else 0
