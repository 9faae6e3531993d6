"""A job that waits again at this party: in its next run, or in the present one."""

from __future__ import annotations

from fate_flow.core.model.errors import NOT_EFFECTIVE, NotEffective
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Command, Job, Task, TaskKey
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.participant.job_end import end_of_last_run, has_kept
from fate_flow.core.planning.queue import pausing
from fate_flow.core.wire.v1.job_answers import still_ends_data
from fate_flow.core.wire.v1.job_bodies import parameters_in, read_kept, read_last_run, read_new_tasks, read_parameters
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.space import check_space_for_party
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.admission import check_none_is_revoked, check_unfinished_jobs
from fate_flow.services.participant.ends import close_tasks, end_job_here, has_workers, release, with_code
from fate_flow.services.participant.parameters import take_parameters
from fate_flow.services.participant.rows import OK, new_task


def with_parameters(unit: UnitOfWork, command: Command, job: Job) -> Job:
    """Take the parameters in the command of a rerun, if there are any, and return the row. Raises FlowError if this
    party cannot take them."""
    given = parameters_in(command.body)
    if given is None:
        return job
    take_parameters(unit, job, read_parameters(given))
    return unit.tx.job(job.key) or job


def end_last_run(unit: UnitOfWork, command: Command, job: Job) -> Job:
    """End the last run at this party, which has not heard of its end; the command of the next run says how it ended."""
    last = end_of_last_run(job, read_last_run(command.body))
    end = last.end
    assert end.reason is not None, "the reader fills it in"
    end_job_here(unit, with_code(job, end.exit_code), end.reason, end.message, caused_by=end.caused_by)
    close_tasks(unit, job, last.status)
    return unit.tx.job(job.key) or job


def missing_shares(unit: UnitOfWork, command: Command, job: Job) -> list[str]:
    """Return the tasks that the initiator keeps, but of which this party has not kept its share.

    The party dropped the share's outputs if it ended the job by itself before it heard that the task had succeeded.
    Raises BadRequest."""
    spec = unit.spec(job.job_id)
    assert spec is not None, "a job row has its document"
    kept = read_kept(command.body, spec.tasks)
    rows = {name: unit.tx.task(TaskKey(job.job_id, name, version, job.party)) for name, version in kept.items()}
    return [name for name, row in rows.items() if not has_kept(row)]


def begin_again(unit: UnitOfWork, job: Job, run: int, wait_reason: str = "", *, is_loss: bool = False) -> None:
    """Move the ended row to `waiting` in a later run, with an entry in its history.

    Raises NotEffective if another process has moved the row."""
    unit.note(Event.JOB_STATUS_ASKED, job_id=job.job_id, status=JobStatus.WAITING)
    if not unit.tx.begin_again(job, run, unit.steady, wait_reason, is_loss=is_loss):
        # The initiator sends the command again, and then the row shows what the other process did.
        raise NotEffective(f"{job.key} is no longer {job.status.value} in run {job.run}", data=still_ends_data())
    unit.moves(
        HistoryLevel.JOB, job.job_id, job.status, JobStatus.WAITING, party=job.party,
        message=wait_reason if is_loss else f"run {run} begins",
        caused_by=str(job.initiator),
    )  # fmt: skip
    unit.note(Event.JOB_STATUS_WRITTEN, job_id=job.job_id)


def check_may_run_again(unit: UnitOfWork, job: Job) -> None:
    """Check that an ended job may be unfinished again; its first seat here decides.

    Raises PermissionDenied if another party of it was revoked here since; TooMany, NoSpace."""
    if all(row.is_final for row in unit.tx.jobs_here(job.job_id)):
        spec = unit.spec(job.job_id)
        assert spec is not None, "a job row has its document"
        check_none_is_revoked(unit, spec)
        check_unfinished_jobs(unit, job.initiator.party_id, adds_one=True)
        check_space_for_party(unit.context, job.initiator.party_id)


def tasks_anew(unit: UnitOfWork, command: Command, job: Job) -> list[Task]:
    """Return the new versions of tasks in the command of a rerun. Raises BadRequest."""
    spec = unit.spec(job.job_id)
    assert spec is not None, "a job row has its document"
    names = [name for name, task in spec.tasks.items() if job.party in task.parties]
    return [
        new_task(unit, spec, TaskKey(job.job_id, name, new.version, job.party), new.incarnation, new.auto_retries)
        for name, new in read_new_tasks(command.body, job.key, names).items()
    ]


def requeue_job(unit: UnitOfWork, job: Job, wait_reason: str = "", retry_at: int = 0) -> None:
    """Move the running row back to `waiting`, with an entry in its history, and release its reservation.

    Raises NotEffective if another process has moved the row."""
    unit.note(Event.JOB_STATUS_ASKED, job_id=job.job_id, status=JobStatus.WAITING)
    if not unit.tx.requeue_job(job, wait_reason, retry_at):
        raise NotEffective(f"{job.key} is no longer {job.status.value}", data=still_ends_data())
    release(unit, job)
    text = pausing(wait_reason, retry_at - unit.steady) if wait_reason else ""
    unit.moves(
        HistoryLevel.JOB, job.job_id, job.status, JobStatus.WAITING, party=job.party, message=text,
        caused_by=str(job.initiator),
    )  # fmt: skip
    unit.note(Event.JOB_STATUS_WRITTEN, job_id=job.job_id)


def rerun_of_plain_v1(unit: UnitOfWork, job: Job) -> Answer:
    """Begin the next run of an ended job for a plain v1 initiator, which knows no runs.

    It sends the status once, perhaps while workers of the last run still end here."""
    if job.status is JobStatus.STOPPING and unit.tx.rerun_after_end(job):
        return OK
    if has_workers(unit, job):
        return Answer(NOT_EFFECTIVE, f"{job.key} still ends its run {job.run}")
    check_may_run_again(unit, job)
    begin_again(unit, job, job.run + 1)
    return OK


def rerun_as_asked(unit: UnitOfWork, before: Job) -> None:
    """Begin the next run if a plain v1 initiator asked for it while the row was ending; `before`: the row as it was."""
    now = unit.tx.job(before.key)
    if before.rerun_signal and now is not None and now.is_final:
        begin_again(unit, now, now.run + 1)
