"""What a participant does at the commands about a task: whether it begins, starts, changes its status, or stops.

`services/participant/task_commands.py` carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from fate_flow.core.model.errors import NOT_EFFECTIVE
from fate_flow.core.model.job import Answer, Job, Task
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec, TaskSpec
from fate_flow.core.model.status import JobStatus, TaskStatus, may_move
from fate_flow.core.planning.partial import too_few
from fate_flow.core.planning.participant.job_end import refuses_status, stays_waiting
from fate_flow.core.wire.v1.reports import report_of
from fate_flow.core.wire.v1.task_bodies import TaskStop


def why_not_created(job: Job, spec: JobSpec | None, name: str) -> Answer | None:
    """Return the refusal of a `create`; None if the task can begin. `spec`: what the job's document says."""
    of_job = spec.tasks.get(name) if spec is not None else None
    if of_job is None:
        return Answer(100, f"job {job.job_id} has no component {name}")
    if job.party not in of_job.parties:      # the admission checked nothing of this task for this seat
        return Answer(100, f"component {name} of job {job.job_id} does not run at {job.party}")
    is_ending = job.is_final or job.status is JobStatus.STOPPING
    if is_ending and not job.is_plain_v1:           # a rerun by plain v1 sends the tasks first, then the status
        return Answer(NOT_EFFECTIVE, f"{job.key} is {job.status.value}: no task begins there")
    return None


def why_share_not_started(job: Job, task: Task) -> Answer | None:
    """Return the answer to a `start` that starts nothing; None if the share is to be started."""
    if job.status is not JobStatus.RUNNING:
        return Answer(103, f"{job.key} is {job.status.value}, not running")
    return Answer(data=report_of(task)) if task.worker_id or task.is_over_here else None


def why_needed(of_task: TaskSpec, without: tuple[str, ...]) -> str:
    """Return text that says why this party does not start without these parties; empty if it does.

    Only the accepted document says how few are enough, because with fewer parties each learns more of the others."""
    return too_few(of_task, [party for party in of_task.parties if str(party) in without])


def answer_to_status(job: Job, task: Task, new: TaskStatus) -> Answer | None:
    """Return the answer to a federated status that changes nothing here; None if the task takes the status.

    The initiator's own rows say what it has decided itself."""
    if job.is_initiator:
        return Answer()
    if refuses_status(job, task, new):
        return Answer(NOT_EFFECTIVE, f"{task.key} is waiting and stays so")
    return None if task.status is not new and may_move(task.status, new) else Answer()


@dataclass(frozen=True)
class StopShare:
    """Stop this party's share; `notes_restart`: note that the initiator stops the task to start it again."""

    reason: Reason
    caused_by: str
    notes_restart: bool = False


def plan_task_stop(job: Job, task: Task, asked: TaskStop, own_party_id: str) -> StopShare | None:
    """Decide about a `stop`; None: the share is over, or stays waiting. `own_party_id`: the id of this party."""
    if task.is_over_here or stays_waiting(job, task):
        return None
    reason = Reason.PARTY_MISSING if asked.is_passed_over else Reason.STOPPED
    is_own = job.initiator.party_id in (own_party_id, "0")      # whose rows say what it has decided itself
    return StopShare(reason, asked.caused_by or str(job.initiator), asked.begins_again and not is_own)
