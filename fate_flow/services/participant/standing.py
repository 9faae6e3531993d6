"""The standing of a job: a participant asks the initiator whether the job still runs, if there is reason to doubt it.

A copy may be left over after this party or the initiator was restored from an older home. No command about such a job
comes any more, while the heartbeats for other jobs go on and keep its cores reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fate_flow.core.model.job import Answer, Command, CommandKind, Job
from fate_flow.core.model.reasons import job_status_for
from fate_flow.core.planning.participant.status_command import (
    EndAsStated,
    EndCopy,
    ForgetCopy,
    is_open_copy,
    plan_standing,
)
from fate_flow.core.wire.v1.endings import JobEnd
from fate_flow.core.wire.v1.initiator_bodies import Standing, is_unknown, read_standing, unknown_data
from fate_flow.core.wire.v1.job_bodies import End
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.ends import close_tasks, end_job_here, forget_seat
from fate_flow.services.participant.job_commands import take_status


def ask_standing(unit: UnitOfWork, job_ids: Iterable[str]) -> None:
    """Ask the initiators of these jobs for their standing, unless the jobs are over here."""
    for job_id in job_ids:
        row = next((one for one in unit.tx.jobs_here(job_id) if is_open_copy(one)), None)
        if row is not None:
            unit.send(Command(CommandKind.STANDING, job_id, row.initiator, row.run))


def standing_of(job: Job | None) -> Answer:
    """Return an initiator's answer about its job; None: the job is not known here."""
    if job is None:
        return Answer(data=unknown_data())
    end = JobEnd(job.reason, job.message, job.caused_by, job.exit_code) if job.is_final else None
    return Answer(data=Standing(job.run, job.status, end).as_data())


def take_standing(unit: UnitOfWork, command: Command, answer: Answer) -> None:
    """End a copy if the initiator answers that the job is over, in a later run, or unknown."""
    data = answer.data
    if not answer.is_ok or not isinstance(data, Mapping):
        return
    for row in unit.tx.jobs_here(command.job_id):
        if is_open_copy(row) and (row.run, row.initiator) == (command.run, command.to):
            _take(unit, row, data)
            unit.touch(row.job_id)


def _take(unit: UnitOfWork, row: Job, data: Mapping[str, Any]) -> None:
    match plan_standing(row, read_standing(data), is_lost=is_unknown(data)):
        case ForgetCopy():
            forget_seat(unit, row)
        case EndCopy(reason, message):
            end_job_here(unit, row, reason, message, caused_by=str(row.initiator))
            close_tasks(unit, row, job_status_for(reason))
        case EndAsStated(status, end):
            body, how = End(end).as_body(), status.value
            take_status(unit, Command(CommandKind.STATUS, row.job_id, row.party, row.run, argument=how, body=body), row)
