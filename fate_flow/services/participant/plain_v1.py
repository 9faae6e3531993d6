"""What a party does otherwise for an initiator that speaks plain v1, as the servers of FATE Flow 1.x do.

Such an initiator knows no runs and no incarnations, sends `align` for a heartbeat, and begins a job again with the
tasks that it left.
"""

from __future__ import annotations

from fate_flow.core.model.errors import Refused
from fate_flow.core.model.job import NOT_EFFECTIVE, Answer, Command, CommandKind, Job, Task
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import TASK_BROKEN, TaskStatus
from fate_flow.core.planning.plain_v1 import objection
from fate_flow.services.context.unit_of_work import UnitOfWork

GAVE_UP = "failed"
"""The status of the stop that a host of FATE asks for when its initiator was silent for too long."""

OTHER_STATUSES = frozenset({"ready", "running"})
"""Of a job, that FATE's servers send along and that follow from other commands: they change nothing."""

_ENDED_BY_ITSELF = frozenset({Reason.INITIATOR_LOST, Reason.RELEASED})


def speaks_plain_v1(create: Command) -> bool:
    """Whether the initiator that sends this offers none of our extensions."""
    return "extensions" not in create.body


def check_messages(unit: UnitOfWork, spec: JobSpec) -> None:
    """Raises Refused for a job that waits for messages which the servers of such an initiator do not carry."""
    text = objection(spec, spec.initiator, unit.context.modules)
    if text:
        raise Refused(f"{spec.initiator} {text}")


def unchanged(job: Job) -> Answer:
    """What FATE answers to a status that the row has, or cannot take."""
    return Answer(NOT_EFFECTIVE, f"update job status does not take effect: {job.key} is {job.status.value}")


def stays_waiting(job: Job, task: Task) -> bool:
    """Whether the end of a job leaves this share as it is: it never began, and a rerun starts it in this version."""
    return job.is_plain_v1 and task.party_status is TaskStatus.WAITING and not task.worker_id


def refuses_status(job: Job, task: Task, new: TaskStatus) -> bool:
    """A share that stays waiting has no bad end over all parties either."""
    return new in TASK_BROKEN and task.status is TaskStatus.WAITING and stays_waiting(job, task)


def answer_align(job: Job) -> Answer:
    """Whether the job goes on here: not when this party has ended it without a word of its initiator."""
    if job.is_final and job.reason in _ENDED_BY_ITSELF:
        return Answer(103, f"{job.key} has ended as {job.status.value} ({job.reason.value}): {job.message}")
    return Answer()


def tell_given_up(unit: UnitOfWork, job: Job) -> None:
    """The initiator has been silent for too long, and may come back: it asks nobody whether its job still runs."""
    if job.is_plain_v1:
        unit.send(Command(CommandKind.ASK_STOP, job.job_id, job.initiator, job.run, argument=GAVE_UP))
