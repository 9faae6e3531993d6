"""The commands of an initiator about a job: status, start, parameters, stop."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.errors import NOT_EFFECTIVE, OperationFailed
from fate_flow.core.model.job import Answer, Command, CommandKind, Job, Task
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.actions import MoveJob, Why
from fate_flow.core.planning.participant.job_end import ends_as
from fate_flow.core.planning.participant.start_and_requeue import why_not_requeued, why_not_started
from fate_flow.core.planning.participant.status_command import (
    FinalStep,
    WaitStep,
    plan_final_status,
    plan_waiting,
)
from fate_flow.core.wire.v1.endings import JobEnd, job_end_in
from fate_flow.core.wire.v1.job_answers import ended_data, missing_data, still_ends_data
from fate_flow.core.wire.v1.job_bodies import adds_tasks, progress_in, read_end, read_parameters, read_round, read_stop
from fate_flow.core.wire.v1.reports import report_of, reports_data
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.comparison import ask_other_participants
from fate_flow.services.participant.ends import (
    close_tasks,
    end_job_here,
    forget_seat,
    has_workers,
    stop_tasks_here,
    with_code,
)
from fate_flow.services.participant.next_run import (
    begin_again,
    check_may_run_again,
    end_last_run,
    missing_shares,
    requeue_job,
    rerun_of_plain_v1,
    tasks_anew,
    with_parameters,
)
from fate_flow.services.participant.parameters import take_parameters
from fate_flow.services.participant.plain_v1 import OTHER_STATUSES, answer_align, unchanged
from fate_flow.services.participant.reserving import what_is_left
from fate_flow.services.participant.rows import OK, move_job, note_beginning, place_of
from fate_flow.store.values import Document


def in_later_run(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    """Handle a command of a later run than the row is in. Its first command is a status: `waiting` or a final one."""
    if command.kind is not CommandKind.STATUS:
        return Answer(NOT_EFFECTIVE, f"job {job.job_id} is in run {job.run}, not {command.run}")
    # The old run is over for every seat here, because new parameters must reach all of them together.
    for row in _in_earlier_run(unit, command):
        if not row.is_final:
            end_last_run(unit, command, row)
    rows = _in_earlier_run(unit, command)
    if any(not row.is_final or has_workers(unit, row) for row in rows):
        return Answer(NOT_EFFECTIVE, f"{job.key} still ends its run {job.run}", still_ends_data())
    if missing := missing_shares(unit, command, job):
        return Answer(103, f"{job.key} has not kept its share of {', '.join(missing)}", missing_data(missing))
    check_may_run_again(unit, job)
    job = with_parameters(unit, command, unit.tx.job(job.key) or job)
    document, spec = unit.tx.document(job.job_id), unit.spec(job.job_id)
    assert document is not None, "a job row has its document"
    assert spec is not None, "the document of a job can be parsed"
    tasks = tasks_anew(unit, command, job)
    begin_again(unit, job, command.run)
    _add_tasks(unit, job, command.run, document, spec, tasks)
    return take_status(unit, command, unit.tx.job(job.key) or job)


def _add_tasks(
    unit: UnitOfWork, job: Job, run: int, document: Document, spec: JobSpec, tasks: list[Task]
) -> None:
    unit.tx.add_tasks(tasks, job, document)
    for task in tasks:
        note_beginning(unit, spec, task.key, Why(message=f"run {run} begins"))


def _add_missing_tasks(unit: UnitOfWork, command: Command, job: Job) -> None:
    """Add tasks that were added to the run that begins, because another party has not kept its shares of them."""
    document, spec = unit.tx.document(job.job_id), unit.spec(job.job_id)
    if document is not None and spec is not None:
        new = [task for task in tasks_anew(unit, command, job) if unit.tx.task(task.key) is None]
        _add_tasks(unit, job, command.run, document, spec, new)


def _in_earlier_run(unit: UnitOfWork, command: Command) -> list[Job]:
    return [row for row in unit.tx.jobs_here(command.job_id) if row.run < command.run]


def take_status(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    if command.argument == JobStatus.WAITING.value:
        return _wait(unit, command, job)
    if command.argument in OTHER_STATUSES:
        return unchanged(job)
    new = job_end_in(command.argument, "status")
    said = read_end(command.body, new, job.parties)
    step = plan_final_status(job, new, is_submit_failed=said.is_submit_failed)
    if isinstance(step, Answer):
        return step
    if step is FinalStep.FORGET:
        return forget_seat(unit, job)
    if step is FinalStep.END:
        _end(unit, job, said.end)
    close_tasks(unit, job, new)
    if said.missing:
        unit.tx.name_missing(job.key, said.missing)
    return _with_end(unit, job, what_is_left(unit, job))


def _with_end(unit: UnitOfWork, job: Job, answer: Answer) -> Answer:
    end = ends_as(unit.tx.job(job.key) or job)
    return answer if end is None else replace(answer, data=ended_data(answer.data, end.value))


def _end(unit: UnitOfWork, job: Job, end: JobEnd, deadline_seconds: float | None = None) -> None:
    assert end.reason is not None, "the reader fills it in"
    end_job_here(unit, with_code(job, end.exit_code), end.reason, end.message, deadline_seconds, end.caused_by)


def _wait(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    round_number = read_round(command.body).round_number
    match plan_waiting(job, round_number, adds_tasks=adds_tasks(command.body)):
        case WaitStep.NEXT_RUN:
            return rerun_of_plain_v1(unit, job)
        case WaitStep.ACCEPTED:
            move_job(unit, job, MoveJob(JobStatus.WAITING))
        case WaitStep.REQUEUE:
            return _requeue_here(unit, job, round_number)
        case WaitStep.ADD_TASKS:
            _add_missing_tasks(unit, command, job)
    return OK


def _requeue_here(unit: UnitOfWork, job: Job, round_number: int | None) -> Answer:
    answer = why_not_requeued(job, round_number, has_workers=has_workers(unit, job))
    if answer is not None:
        return answer
    requeue_job(unit, job)
    return what_is_left(unit, job)


def start(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    asked = read_round(command.body)
    answer = why_not_started(job, asked.round_number, asked.revision)
    if answer is not None:
        return answer
    unit.note(Event.PARTY_START_ASKED, job_id=job.job_id, **place_of(job))
    move_job(unit, job, MoveJob(JobStatus.RUNNING))
    now = unit.tx.job(job.key)
    if now is None or not now.holds:
        # On MySQL, another process may have released the reservation since the row was read; the move locks the row.
        raise OperationFailed(f"{job.key} holds nothing any more")
    unit.note(Event.PARTY_STARTED, job_id=job.job_id, **place_of(job))
    ask_other_participants(unit, now)
    return OK


def align(unit: UnitOfWork, job: Job, caller: str) -> Answer:
    """Answer `align`, the heartbeat that each plain v1 server sends to all others of a job. Only that of the initiator
    matters here.

    FATE also uses it for tables that are taken over from another job; this feature does not exist here."""
    if job.is_plain_v1 and caller == job.initiator.party_id:
        unit.tx.record_heartbeat(caller)
    return answer_align(job)


def update(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    """Update the columns that an initiator may write: only the progress."""
    progress = progress_in(command.body)
    if progress is not None and not job.is_final:
        unit.tx.set_progress(job.key, progress)
    return OK


def stop(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    """Stop the tasks here; the row ends with the last of them. The initiator ends its own row itself."""
    said = read_stop(command.body, job_end_in(command.argument, "stop_status"))
    end = said.end
    assert end.reason is not None, "the reader fills it in"
    unit.note(Event.STOP_COMMAND_ASKED, job_id=job.job_id)
    if job.is_initiator or job.status is JobStatus.READY:
        stop_tasks_here(unit, job, end.reason, said.deadline_seconds, end.caused_by)
    elif not job.is_final:
        _end(unit, job, end, said.deadline_seconds)
    mine = [task for task in unit.tx.tasks(job.job_id) if task.key.party == job.party]
    return Answer(data=reports_data([report_of(task) for task in mine]))


def change_parameters(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    return take_parameters(unit, job, read_parameters(command.body))
