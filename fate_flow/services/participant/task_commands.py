"""The commands of an initiator about a task."""

from __future__ import annotations

from fate_flow.core.model.errors import BadRequest, OperationFailed
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.job import NOT_EFFECTIVE, Answer, Command, Job, Task
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, TaskStatus, may_move
from fate_flow.core.planning.actions import MoveTask, Why
from fate_flow.core.planning.partial import too_few
from fate_flow.core.planning.participant.job_end import refuses_status, stays_waiting
from fate_flow.core.wire.v1.reports import report_of
from fate_flow.core.wire.v1.task_bodies import is_other_incarnation, read_task_create, read_task_stop, without_in
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.rows import (
    OK,
    federated_move,
    new_task,
    note_beginning,
    plain_v1_incarnation,
)
from fate_flow.services.workers.elastic import begin_elastic
from fate_flow.services.workers.ending import stop_party_task
from fate_flow.services.workers.launching import start_worker
from fate_flow.services.workers.moves import move_federated


def _task_of(unit: UnitOfWork, command: Command) -> Task | Answer:
    task = unit.tx.task(command.task_key)
    if task is None:
        return Answer(102, f"no found {command.task_key}")
    if is_other_incarnation(command.body, task.incarnation):
        return Answer(NOT_EFFECTIVE, f"{task.key} is another incarnation")
    return task


def task_create(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    document, spec = unit.tx.document(job.job_id), unit.spec(job.job_id)
    of_job = spec.tasks.get(command.task) if spec is not None else None
    if document is None or spec is None or of_job is None:
        return Answer(100, f"job {job.job_id} has no component {command.task}")
    if job.party not in of_job.parties:      # the admission checked nothing of this task for this seat
        return Answer(100, f"component {command.task} of job {job.job_id} does not run at {job.party}")
    is_ending = job.is_final or job.status is JobStatus.STOPPING
    if is_ending and not job.is_plain_v1:           # a rerun by plain v1 sends the tasks first, then the status
        return Answer(NOT_EFFECTIVE, f"{job.key} is {job.status.value}: no task begins there")
    given = read_task_create(command.body)
    incarnation = given.incarnation or plain_v1_incarnation(job.job_id, command.task, command.version)
    is_new = unit.tx.task(command.task_key) is None
    unit.tx.add_tasks([new_task(unit, spec, command.task_key, incarnation, given.auto_retries)], job, document)
    if is_new:
        note_beginning(unit, spec, command.task_key, Why(given.reason, given.message, given.caused_by))
    return OK


def task_start(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    task = _task_of(unit, command)
    if isinstance(task, Answer):
        return task
    if job.status is not JobStatus.RUNNING:
        return Answer(103, f"{job.key} is {job.status.value}, not running")
    if task.worker_id or task.is_over_here:
        return Answer(data=report_of(task))
    without = without_in(command.body, job.parties)
    if why := _needs_them(unit, task, without):
        raise OperationFailed(why)
    if task.status is TaskStatus.WAITING and not job.is_initiator:
        move_federated(unit, job.job_id, MoveTask(task.key.name, task.key.version, task.status, TaskStatus.RUNNING))
    answer = start_worker(unit, job, task, without)
    begin_elastic(unit, task.key)
    return answer


def _needs_them(unit: UnitOfWork, task: Task, without: tuple[str, ...]) -> str:
    """Return text that says why this party does not start without these parties; empty if it does.

    Only the accepted document says how few are enough, because with fewer parties each learns more of the others."""
    spec = unit.spec(task.key.job_id) if without else None
    if spec is None:
        return ""
    of_task = spec.tasks[task.key.name]
    return too_few(of_task, [party for party in of_task.parties if str(party) in without])


def task_status(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    task = _task_of(unit, command)
    if isinstance(task, Answer):
        return task
    try:
        new = TaskStatus(command.argument)
    except ValueError:
        raise BadRequest(f"status: {shown(command.argument)} is not a task status") from None
    if job.is_initiator:
        return OK
    if refuses_status(job, task, new):
        return Answer(NOT_EFFECTIVE, f"{task.key} is waiting and stays so")
    if task.status is not new and may_move(task.status, new):
        move_federated(unit, job.job_id, federated_move(command, job, task, new))
    return OK


def task_stop(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    task = _task_of(unit, command)
    if isinstance(task, Answer):
        return task
    if not task.is_over_here and not stays_waiting(job, task):
        asked = read_task_stop(command.body)
        reason = Reason.PARTY_MISSING if asked.is_passed_over else Reason.STOPPED
        stop_party_task(unit, task, reason, caused_by=asked.caused_by or str(job.initiator))
        is_own = job.initiator.party_id in (unit.context.party_id, "0")      # whose rows say what it has decided itself
        if asked.begins_again and not is_own:
            unit.tx.note_restart(task.key)
    found = unit.tx.task(task.key)
    return Answer(data=report_of(found) if found is not None else None)


def task_collect(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    task = unit.tx.task(command.task_key)
    return Answer(data=report_of(task, job.is_plain_v1)) if task is not None else Answer(103, "query task failed")
