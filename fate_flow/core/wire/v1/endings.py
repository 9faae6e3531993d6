"""How a job or a task ended, as an initiator states it in commands and answers.

Plain v1 gives no reason: each final status has a default one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.reasons import Author, Reason, job_status_for, may_say, task_status_for
from fate_flow.core.model.status import JOB_END, JobStatus, TaskStatus
from fate_flow.core.wire.v1.fields import cause_in, exit_code_in, reason_in, text_in

PLAIN_V1_REASONS = {
    TaskStatus.SUCCESS: Reason.DONE,
    TaskStatus.PASS: Reason.NOT_NEEDED,
    TaskStatus.FAILED: Reason.WORKER_ERROR,
    TaskStatus.CANCELED: Reason.STOPPED,
    TaskStatus.TIMEOUT: Reason.TASK_TIMEOUT,
}
"""The default reason of a task that ended, by status."""

_PLAIN_V1_REASONS_OF_JOBS = {
    JobStatus.SUCCESS: Reason.DONE,
    JobStatus.FAILED: Reason.TASK_FAILED,
    JobStatus.CANCELED: Reason.STOPPED,
    JobStatus.TIMEOUT: Reason.JOB_TIMEOUT,
}


def job_end_in(text: str, key: str) -> JobStatus:
    """Read a final status of a job. Raises BadRequest."""
    known = {status.value: status for status in JOB_END}
    if text not in known:
        raise BadRequest(f"{key}: {shown(text)} is not one of {', '.join(sorted(known))}")
    return known[text]


@dataclass(frozen=True)
class JobEnd:
    """Why a job ended or ends."""

    reason: Reason | None                # None: only in a row from an old home
    message: str = ""
    caused_by: str = ""                  # the party that is the cause; empty: the sender
    exit_code: int | None = None         # of the worker that is the cause

    def as_body(self) -> dict[str, Any]:
        """Return the fields that describe the end of a job."""
        return {**self.why(), "caused_by": self.caused_by, **self._code()}

    def why(self) -> dict[str, Any]:
        return {"reason": self.reason.value if self.reason else None, "message": self.message}

    def cause(self) -> dict[str, Any]:
        """Return the fields with the cause, without empty ones."""
        return {**({"caused_by": self.caused_by} if self.caused_by else {}), **self._code()}

    def _code(self) -> dict[str, Any]:
        return {} if self.exit_code is None else {"exit_code": self.exit_code}


def read_job_end(body: Mapping[str, Any], status: JobStatus) -> JobEnd:
    """Read why a job ended with this status. A missing reason, or one that does not fit, is replaced by the default."""
    reason = fitting(reason_in(body), status)
    return JobEnd(reason, text_in(body, "message"), cause_in(body), exit_code_in(body))


def fitting(reason: Reason | None, status: JobStatus) -> Reason:
    """Return the reason if an initiator may give it for this status, else the default one."""
    if reason is None or reason is Reason.NOT_NEEDED:        # the latter ends tasks only
        return _PLAIN_V1_REASONS_OF_JOBS[status]
    if job_status_for(reason) is not status or not may_say(Author.INITIATOR, reason):
        return _PLAIN_V1_REASONS_OF_JOBS[status]
    return reason


@dataclass(frozen=True)
class TaskEnd:
    """Why a task ended, for all its parties."""

    reason: Reason
    message: str = ""
    caused_by: str = ""                  # the party that is the cause; empty: the initiator
    exit_code: int | None = None         # of the worker that is the cause

    def as_body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"reason": self.reason.value, "message": self.message, "caused_by": self.caused_by}
        return body if self.exit_code is None else {**body, "exit_code": self.exit_code}

    def as_plain_v1(self) -> dict[str, Any]:
        """Return the fields for a plain v1 party: it gets the status alone."""
        return {}


def read_task_end(body: Mapping[str, Any], status: TaskStatus) -> TaskEnd:
    """Read why a task ended with this status. If the reason is missing or does not fit, all fields have defaults."""
    reason = reason_in(body)
    if reason is None or task_status_for(reason) is not status:
        return TaskEnd(PLAIN_V1_REASONS[status])
    return TaskEnd(reason, text_in(body, "message"), cause_in(body), exit_code_in(body))
