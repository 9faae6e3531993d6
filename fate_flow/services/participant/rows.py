"""Rows of jobs and tasks at this party that several modules of this folder make and move, and notes on them."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Command, Job, Task, TaskKey
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import TASK_END, JobStatus, TaskStatus
from fate_flow.core.planning.actions import NO_WHY, MoveJob, MoveTask, Why
from fate_flow.core.wire.v1.endings import read_task_end
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.models.storing import carry_over
from fate_flow.services.workers.moves import exit_text, note_version

OK = Answer()


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


def place_of(job: Job) -> dict[str, str]:
    return {"role": job.party.role, "party_id": job.party.party_id}


def note_beginning(unit: UnitOfWork, spec: JobSpec, key: TaskKey, why: Why = NO_WHY) -> None:
    """Note a new version of a task in the history, once at each party, for any number of seats.

    At the initiator the history already has it from the decision."""
    own = unit.context.party_id
    first = next((one for one in spec.tasks[key.name].parties if one.party_id == own), None)
    if key.party != first or spec.initiator.party_id in (own, "0"):
        return
    note_version(unit, key, why.caused_by or str(spec.initiator), why.reason, why.message)


def federated_move(command: Command, job: Job, task: Task, new: TaskStatus) -> MoveTask:
    """Return the move to the federated status that the initiator sends; without a fitting reason, the default one."""
    move = MoveTask(task.key.name, task.key.version, task.status, new)
    if new not in TASK_END:
        return move
    end = read_task_end(command.body, new)
    return replace(
        move, reason=end.reason, message=end.message, exit_code=end.exit_code,
        caused_by=end.caused_by or str(job.initiator),
    )  # fmt: skip


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
        if move.new is JobStatus.SUCCESS:
            carry_over(unit, job)
    unit.note(Event.JOB_STATUS_WRITTEN if done else Event.JOB_STATUS_UNCHANGED, job_id=job.job_id)
    return done
