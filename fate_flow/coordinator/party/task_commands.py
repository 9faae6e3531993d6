"""What an initiator asks of a task."""

from __future__ import annotations

from fate_flow.coordinator.elastic import begin_elastic
from fate_flow.coordinator.party.words import (
    OK,
    new_task,
    note_beginning,
    parties_in,
    plain_incarnation,
    told_move,
    whole_in,
)
from fate_flow.coordinator.unit import Unit
from fate_flow.coordinator.workers import cause_in, move_federated, report_of, start_worker, stop_party_task
from fate_flow.core.actions import MoveTask
from fate_flow.core.errors import BadRequest
from fate_flow.core.grammar import check_incarnation, shown
from fate_flow.core.job import NOT_EFFECTIVE, Answer, Command, Job, Task
from fate_flow.core.reasons import Reason
from fate_flow.core.status import JobStatus, TaskStatus, may_move


def _task_of(unit: Unit, command: Command) -> Task | Answer:
    task = unit.tx.task(command.task_key)
    if task is None:
        return Answer(102, f"no found {command.task_key}")
    if command.body.get("incarnation") not in (None, task.incarnation):
        return Answer(NOT_EFFECTIVE, f"{task.key} is another incarnation")
    return task


def task_create(unit: Unit, command: Command, job: Job) -> Answer:
    document, spec = unit.tx.document(job.job_id), unit.spec(job.job_id)
    if document is None or spec is None or command.task not in spec.tasks:
        return Answer(100, f"job {job.job_id} has no component {command.task}")
    is_over = job.is_final and not job.legacy       # a rerun of plain v1 begins with the tasks
    if is_over or job.status is JobStatus.STOPPING:
        return Answer(NOT_EFFECTIVE, f"{job.key} is {job.status.value}: no task begins there")
    given = command.body.get("incarnation")
    incarnation = check_incarnation(given) if given else plain_incarnation(job.job_id, command.task, command.version)
    left = whole_in(command, "auto_retries", 0)
    is_new = unit.tx.task(command.task_key) is None
    unit.tx.add_tasks([new_task(unit, spec, command.task_key, incarnation, left)], job, document)
    if is_new:
        note_beginning(unit, spec, command.task_key, command.body)
    return OK


def task_start(unit: Unit, command: Command, job: Job) -> Answer:
    task = _task_of(unit, command)
    if isinstance(task, Answer):
        return task
    if job.status is not JobStatus.RUNNING:
        return Answer(103, f"{job.key} is {job.status.value}, not running")
    if task.worker_id or task.is_over_here:
        return Answer(data=report_of(task))
    if task.status is TaskStatus.WAITING and not job.is_initiator:
        move_federated(unit, job.job_id, MoveTask(task.key.name, task.key.version, task.status, TaskStatus.RUNNING))
    answer = start_worker(unit, job, task, parties_in(command.body.get("without"), job))
    begin_elastic(unit, task.key)
    return answer


def task_status(unit: Unit, command: Command, job: Job) -> Answer:
    task = _task_of(unit, command)
    if isinstance(task, Answer):
        return task
    try:
        new = TaskStatus(command.argument)
    except ValueError:
        raise BadRequest(f"status: {shown(command.argument)} is not a task status") from None
    if job.is_initiator:
        return OK
    if task.status is not new and may_move(task.status, new):
        move_federated(unit, job.job_id, told_move(command, job, task, new))
    return OK


def task_stop(unit: Unit, command: Command, job: Job) -> Answer:
    task = _task_of(unit, command)
    if isinstance(task, Answer):
        return task
    if not task.is_over_here:
        is_passed_over = command.body.get("reason") == Reason.PARTY_MISSING.value
        cause = cause_in(command.body) or str(job.initiator)
        stop_party_task(unit, task, Reason.PARTY_MISSING if is_passed_over else Reason.STOPPED, caused_by=cause)
    found = unit.tx.task(task.key)
    return Answer(data=report_of(found) if found is not None else None)


def task_collect(unit: Unit, command: Command, job: Job) -> Answer:
    task = unit.tx.task(command.task_key)
    return Answer(data=report_of(task, job.legacy)) if task is not None else Answer(103, "query task failed")
