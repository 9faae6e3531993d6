"""Carries out the actions about the tasks of a job."""

from __future__ import annotations

from fate_flow.core.model.job import Job, Task, TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.planning.actions import LoseShares, MoveTask, NewVersion
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.ending import finish_party_task
from fate_flow.services.workers.moves import note_task, note_version
from fate_flow.services.workers.outputs import settle_outputs


def move_task(unit: UnitOfWork, job: Job, move: MoveTask) -> None:
    task_id = f"{job.job_id}_{move.name}"
    unit.note(
        Event.TASK_STATUS_SYNC, job_id=job.job_id, task_id=task_id, task_version=move.version, status=move.new
    )
    if unit.tx.move_task(job.job_id, move, unit.now):
        note_task(unit, job.job_id, move)
        settle_outputs(unit, job.job_id, move)


def new_version(unit: UnitOfWork, job: Job, action: NewVersion) -> None:
    document, spec = unit.tx.document(job.job_id), unit.spec(job.job_id)
    assert document is not None, "a running job has its document"
    assert spec is not None, "the document of a job can be parsed"
    task = spec.tasks[action.name]
    here = (unit.context.party_id, "0")
    rows = [
        Task(
            key=TaskKey(job.job_id, action.name, action.version, party),
            status=TaskStatus.WAITING,
            party_status=TaskStatus.WAITING,
            runs_here=party.party_id in here,
            incarnation=action.incarnation,
            module=task.module if party.party_id in here else "",
            auto_retries=action.auto_retries,
            tries=action.tries,
            retry_at=action.retry_at,
            create_time=unit.now,
        )
        for party in task.parties
    ]
    unit.tx.add_tasks(rows, job, document)
    unit.wake_at(action.retry_at, job.job_id)
    note_version(unit, rows[0].key, action.why.caused_by or str(job.party), action.why.reason, action.why.message)
    task_id = rows[0].key.task_id
    unit.note(Event.TASK_VERSION_CREATED, job_id=job.job_id, task_id=task_id, task_version=action.version)


def lose_shares(unit: UnitOfWork, job: Job, action: LoseShares) -> None:
    text = f"job {job.job_id} goes on without {action.party}: {action.message}"
    unit.note(Event.JOB_WARNING, job_id=job.job_id, text=text)
    for task in unit.tx.tasks(job.job_id):
        if task.key.party == action.party:
            finish_party_task(unit, task, Reason.PARTY_UNREACHABLE, action.message)
