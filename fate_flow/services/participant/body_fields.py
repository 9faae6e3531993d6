"""Readers of body fields, and writes and notes that several modules of this folder share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_version, shown
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Command, Job, Task, TaskKey
from fate_flow.core.model.reasons import Author, Reason, job_status_for, may_say, task_status_for
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import JOB_END, TASK_END, JobStatus, TaskStatus
from fate_flow.core.planning.actions import MoveJob, MoveTask
from fate_flow.core.text.phrases import sanitized
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.moves import exit_text, note_version
from fate_flow.services.workers.reports import PLAIN_V1_REASONS, cause_in, exit_code_in

OK = Answer()
LONGEST_TEXT = 4_000


def plain_v1_incarnation(job_id: str, name: str, version: int) -> str:
    """Return the incarnation of an attempt, the same at every party of ours: a plain v1 initiator gives none."""
    return hashlib.sha256(f"{job_id} {name} {version}".encode()).hexdigest()[:32]


def new_task(unit: UnitOfWork, spec: JobSpec, key: TaskKey, incarnation: str, auto_retries: int) -> Task:
    return Task(
        key=key,
        status=TaskStatus.WAITING,
        party_status=TaskStatus.WAITING,
        runs_here=True,
        incarnation=incarnation,
        module=spec.tasks[key.name].module,
        auto_retries=auto_retries,
        create_time=unit.now,
    )


def job_end_in(text: str, key: str) -> JobStatus:
    """Read a final status of a job. Raises BadRequest."""
    known = {status.value: status for status in JOB_END}
    if text not in known:
        raise BadRequest(f"{key}: {shown(text)} is not one of {', '.join(sorted(known))}")
    return known[text]


def place_of(job: Job) -> dict[str, str]:
    return {"role": job.party.role, "party_id": job.party.party_id}


def note_beginning(
    unit: UnitOfWork, spec: JobSpec, key: TaskKey, why: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Note a new version of a task in the history, once at each party, for any number of seats.

    At the initiator the history already has it from the decision."""
    own = unit.context.party_id
    first = next((one for one in spec.tasks[key.name].parties if one.party_id == own), None)
    if key.party != first or spec.initiator.party_id in (own, "0"):
        return
    cause, message = cause_in(why) or str(spec.initiator), sanitized(why.get("message"), LONGEST_TEXT)
    note_version(unit, key, cause, reason_given(why.get("reason")), message)


def reason_given(text: object) -> Reason | None:
    try:
        return Reason(text)
    except ValueError:
        return None


def parties_in(value: object, job: Job) -> tuple[str, ...]:
    """Return the parties of the job that a list names."""
    named = value if isinstance(value, list) else []
    return tuple(str(party) for party in sorted(job.parties) if str(party) in named)


def federated_move(command: Command, job: Job, task: Task, new: TaskStatus) -> MoveTask:
    """Return the move to the federated status that the initiator sends; without a fitting reason, the default one."""
    move = MoveTask(task.key.name, task.key.version, task.status, new)
    if new not in TASK_END:
        return move
    body, reason = command.body, reason_given(command.body.get("reason"))
    if reason is None or task_status_for(reason) is not new:
        return replace(move, reason=PLAIN_V1_REASONS[new], caused_by=str(job.initiator))
    return replace(
        move, reason=reason, message=sanitized(body.get("message"), LONGEST_TEXT), exit_code=exit_code_in(body),
        caused_by=cause_in(body) or str(job.initiator),
    )


def move_job(unit: UnitOfWork, job: Job, move: MoveJob, caused_by: str = "") -> bool:
    """Write the status of a job, with the log lines for operators. Returns False if the row has moved on."""
    unit.note(Event.JOB_STATUS_ASKED, job_id=job.job_id, status=move.new)
    done = unit.tx.move_job(job, move, unit.now, caused_by)
    if done:
        unit.moves(
            HistoryLevel.JOB, job.job_id, job.status, move.new, party=job.party, reason=move.reason,
            message=move.message,
            caused_by=caused_by, exit_status=exit_text(move.exit_code),
        )  # fmt: skip
    unit.note(Event.JOB_STATUS_WRITTEN if done else Event.JOB_STATUS_UNCHANGED, job_id=job.job_id)
    return done


def reason_in(text: object, status: JobStatus) -> Reason:
    """Read the initiator's reason for a status; return the default reason of the status if there is none, as from a
    plain v1 peer, or if it does not fit."""
    try:
        reason = Reason(text)
        if job_status_for(reason) is status and may_say(Author.INITIATOR, reason):
            return reason
    except ValueError:
        pass
    return _PLAIN_V1[status]


_PLAIN_V1 = {
    JobStatus.SUCCESS: Reason.DONE,
    JobStatus.FAILED: Reason.TASK_FAILED,
    JobStatus.CANCELED: Reason.STOPPED,
    JobStatus.TIMEOUT: Reason.JOB_TIMEOUT,
}


def seconds_in(value: object, key: str) -> float | None:
    """Read a duration in seconds from a body; None if it is missing. Raises BadRequest."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _LONGEST_SECONDS:
        raise BadRequest(f"{key}: {shown(value)} is not a number of seconds from 0 to {_LONGEST_SECONDS:g}")
    return float(value)


_LONGEST_SECONDS = 1e9


def order_in(command: Command) -> int | None:
    """Read the job's place in the queue of its initiator; None if it is missing, as in plain v1. Raises BadRequest."""
    value = command.body.get("order")
    if value is None:
        return None
    if type(value) is not int or abs(value) > _MOST_ORDER:
        raise BadRequest(f"order: {shown(value)} is not a whole number from -{_MOST_ORDER} to {_MOST_ORDER}")
    return value


_MOST_ORDER = 2**62


def whole_in(command: Command, key: str, default: int) -> int:
    """Read a counter from a body; `default` if it is missing. Raises BadRequest if it does not fit a column."""
    value = command.body.get(key)
    return default if value is None else check_version(value, key)
