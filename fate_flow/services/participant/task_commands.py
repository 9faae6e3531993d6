"""The commands of an initiator about a task."""

from __future__ import annotations

from fate_flow.core.model.errors import NOT_EFFECTIVE, BadRequest, OperationFailed
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.job import Answer, Command, Job, Task
from fate_flow.core.model.status import TaskStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveTask, Why
from fate_flow.core.planning.gang import BEGINS, GATHERED, may_begin
from fate_flow.core.planning.participant.task_command import (
    answer_to_status,
    plan_task_stop,
    why_needed,
    why_not_created,
    why_share_not_started,
)
from fate_flow.core.wire.v1.reports import report_of
from fate_flow.core.wire.v1.task_bodies import (
    is_gathered,
    is_other_incarnation,
    read_task_create,
    read_task_stop,
    without_in,
)
from fate_flow.services.context.effects import ReleaseWorker
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
    refusal = why_not_created(job, spec, command.task)
    if refusal is not None:
        return refusal
    assert document is not None, "a job row has its document"
    assert spec is not None, "otherwise it has no such component"
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
    if is_gathered(command.body):
        return _begin(unit, task)
    answer = why_share_not_started(job, task)
    if answer is not None:
        return answer
    without = without_in(command.body, job.parties)
    spec = unit.spec(task.key.job_id) if without else None
    if spec is not None and (why := why_needed(spec.tasks[task.key.name], without)):
        raise OperationFailed(why)
    if task.status is TaskStatus.WAITING and not job.is_initiator:
        move_federated(unit, job.job_id, MoveTask(task.key.name, task.key.version, task.status, TaskStatus.RUNNING))
    answer = start_worker(unit, job, task, without)
    begin_elastic(unit, task.key)
    return answer


def _begin(unit: UnitOfWork, task: Task) -> Answer:
    """Let the workers begin that have arrived, since all others of their gang are there, too."""
    if task.waits == GATHERED:
        unit.tx.note_waiting(task.key, BEGINS, unit.steady)
    found = unit.tx.task(task.key) or task
    for worker in unit.tx.workers_of_task(task.key) if may_begin(found) else ():
        if worker.status is WorkerStatus.CREATED:
            unit.after_commit(ReleaseWorker(worker))
    return Answer(data=report_of(found))


def task_status(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    task = _task_of(unit, command)
    if isinstance(task, Answer):
        return task
    try:
        new = TaskStatus(command.argument)
    except ValueError:
        raise BadRequest(f"status: {shown(command.argument)} is not a task status") from None
    answer = answer_to_status(job, task, new)
    if answer is not None:
        return answer
    move_federated(unit, job.job_id, federated_move(command, job, task, new))
    return OK


def task_stop(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    task = _task_of(unit, command)
    if isinstance(task, Answer):
        return task
    plan = plan_task_stop(job, task, read_task_stop(command.body), unit.context.party_id)
    if plan is not None:
        stop_party_task(unit, task, plan.reason, caused_by=plan.caused_by)
        if plan.notes_restart:
            unit.tx.note_restart(task.key)
    found = unit.tx.task(task.key)
    return Answer(data=report_of(found) if found is not None else None)


def task_collect(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    task = unit.tx.task(command.task_key)
    return Answer(data=report_of(task, job.is_plain_v1)) if task is not None else Answer(103, "query task failed")
