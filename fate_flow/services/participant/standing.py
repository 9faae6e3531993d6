"""The standing of a job: a participant asks the initiator whether the job still runs, if there is reason to doubt it.

A copy may be left over after this party or the initiator was restored from an older home. No command about such a job
comes any more, while the heartbeats for other jobs go on and keep its cores reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fate_flow.core.model.job import Answer, Command, CommandKind, Job
from fate_flow.core.model.reasons import Reason, job_status_for
from fate_flow.core.model.status import JOB_END, JobStatus
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.ends import close_tasks, end_job_here, forget_seat
from fate_flow.services.participant.job_commands import take_status

_ENDS = frozenset(status.value for status in JOB_END)


def ask_standing(unit: UnitOfWork, job_ids: Iterable[str]) -> None:
    """Ask the initiators of these jobs for their standing, unless the jobs are over here."""
    for job_id in job_ids:
        row = next((one for one in unit.tx.jobs_here(job_id) if _is_open_copy(one)), None)
        if row is not None:
            unit.send(Command(CommandKind.STANDING, job_id, row.initiator, row.run))


def standing_of(job: Job | None) -> Answer:
    """Return an initiator's answer about its job; None: the job is not known here."""
    if job is None:
        return Answer(data={"is_unknown": True})
    said: dict[str, Any] = {"run": job.run, "status": job.status.value}
    if job.is_final:
        said.update(reason=job.reason.value if job.reason else None, message=job.message, caused_by=job.caused_by)
        said.update({} if job.exit_code is None else {"exit_code": job.exit_code})
    return Answer(data=said)


def take_standing(unit: UnitOfWork, command: Command, answer: Answer) -> None:
    """End a copy if the initiator answers that the job is over, in a later run, or unknown."""
    data = answer.data
    if not answer.is_ok or not isinstance(data, Mapping):
        return
    for row in unit.tx.jobs_here(command.job_id):
        if _is_open_copy(row) and (row.run, row.initiator) == (command.run, command.to):
            _take(unit, row, data)
            unit.touch(row.job_id)


def _is_open_copy(row: Job) -> bool:
    return not (row.is_initiator or row.is_final or row.is_plain_v1)


def _take(unit: UnitOfWork, row: Job, data: Mapping[str, Any]) -> None:
    run, status = data.get("run"), data.get("status")
    if row.status is JobStatus.READY:
        if data.get("is_unknown") is True or status in _ENDS:
            forget_seat(unit, row)
    elif data.get("is_unknown") is True:
        _end(unit, row, Reason.INITIATOR_LOST, f"{row.initiator} does not know this job any more")
    elif isinstance(run, int) and run > row.run:
        _end(unit, row, Reason.STOPPED, f"run {row.run} is over: {row.initiator} is in run {run}")
    elif run == row.run and status in _ENDS:
        command = Command(CommandKind.STATUS, row.job_id, row.party, row.run, argument=str(status), body=data)
        take_status(unit, command, row)


def _end(unit: UnitOfWork, row: Job, reason: Reason, message: str) -> None:
    end_job_here(unit, row, reason, message, caused_by=str(row.initiator))
    close_tasks(unit, row, job_status_for(reason))
