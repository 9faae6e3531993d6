"""What a party does differently for an initiator that speaks plain v1, as the servers of FATE Flow 1.x do.

Such an initiator knows no runs and no incarnations, sends `align` as heartbeat, and reruns a job with the task
versions that it left.
"""

from __future__ import annotations

from fate_flow.core.model.errors import NOT_EFFECTIVE, Refused
from fate_flow.core.model.job import Answer, Command, CommandKind, Job
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.planning.plain_v1 import objection
from fate_flow.services.context.unit_of_work import UnitOfWork

GAVE_UP = "failed"
"""The status with which a host of FATE requests the stop of a job whose initiator was silent for too long."""

OTHER_STATUSES = frozenset({"ready", "running"})
"""Statuses of a job that FATE's servers send, but that follow from other commands; they change nothing."""

_ENDED_BY_ITSELF = frozenset({Reason.INITIATOR_LOST, Reason.RELEASED})


def check_messages(unit: UnitOfWork, spec: JobSpec) -> None:
    """Check that the job needs no messages, which the servers of such an initiator do not carry. Raises Refused."""
    text = objection(spec, spec.initiator, unit.context.modules)
    if text:
        raise Refused(f"{spec.initiator} {text}")


def unchanged(job: Job) -> Answer:
    """Return FATE's answer to a status that the row has already, or cannot take."""
    return Answer(NOT_EFFECTIVE, f"update job status does not take effect: {job.key} is {job.status.value}")


def answer_align(job: Job) -> Answer:
    """Return the answer to `align`: an error if this party has ended the job by itself."""
    if job.is_final and job.reason in _ENDED_BY_ITSELF:
        return Answer(103, f"{job.key} has ended as {job.status.value} ({job.reason.value}): {job.message}")
    return Answer()


def tell_given_up(unit: UnitOfWork, job: Job) -> None:
    """Ask a plain v1 initiator that was silent for too long to stop the job, because it does not ask itself whether the
    job still runs here."""
    if job.is_plain_v1:
        unit.send(Command(CommandKind.ASK_STOP, job.job_id, job.initiator, job.run, argument=GAVE_UP))
