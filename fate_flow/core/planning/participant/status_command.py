"""What a participant does when the initiator sends a status of the job, or states how the job stands.

`services/participant/job_commands.py` and `services/participant/standing.py` carry it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fate_flow.core.model.errors import NOT_EFFECTIVE
from fate_flow.core.model.job import Answer, Job
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, may_move
from fate_flow.core.wire.v1.endings import JobEnd
from fate_flow.core.wire.v1.initiator_bodies import Standing

# ---------------------------------------------------------------------- `status/waiting`


class WaitStep(Enum):
    """What `status/waiting` means for the row of a job at this party."""

    NEXT_RUN = "next run"        # of a plain v1 initiator, which knows no runs: the next one begins
    ACCEPTED = "accepted"        # every party has accepted the job: the row waits
    REQUEUE = "requeue"          # the running row waits again, without its reservation
    ADD_TASKS = "add tasks"      # the run that begins has more tasks: another party has not kept its shares of them
    KNOWN = "known"              # nothing changes


def plan_waiting(job: Job, round_number: int | None, *, adds_tasks: bool) -> WaitStep:
    """Decide about `status/waiting` in the run of the row. `round_number`: the reservation round that the command
    ends, if it states one."""
    if job.is_plain_v1 and (job.is_final or job.status is JobStatus.STOPPING):
        return WaitStep.NEXT_RUN
    if job.status is JobStatus.READY:
        return WaitStep.ACCEPTED
    if round_number is not None:
        return WaitStep.REQUEUE
    return WaitStep.ADD_TASKS if adds_tasks and job.status is JobStatus.WAITING else WaitStep.KNOWN


# ---------------------------------------------------------------------- `status/<final status>`


class FinalStep(Enum):
    """What the end of a job means for its row at this party."""

    FORGET = "forget"            # the job never began, and the row goes
    END = "end"                  # the row ends as the command says, and the tasks with it
    CLOSE = "close"              # the row has ended before: only tasks may be left that have not


def plan_final_status(job: Job, new: JobStatus, *, is_submit_failed: bool) -> FinalStep | Answer:
    """Decide about a final status; an answer refuses it."""
    if is_submit_failed and job.status is JobStatus.READY:
        return FinalStep.FORGET
    if job.is_final:
        return FinalStep.CLOSE
    if not may_move(job.status, new):
        return Answer(NOT_EFFECTIVE, f"{job.key} is {job.status.value}, which does not end as {new.value}")
    return FinalStep.END


# ---------------------------------------------------------------------- the standing of a job


def is_open_copy(row: Job) -> bool:
    """Return whether the initiator, at another seat, can be asked how the job stands."""
    return not (row.is_initiator or row.is_final or row.is_plain_v1)


@dataclass(frozen=True)
class ForgetCopy:
    """The job ended, or was lost, before it began: the row goes."""


@dataclass(frozen=True)
class EndCopy:
    """The row ends for a reason of this party's own."""

    reason: Reason
    message: str


@dataclass(frozen=True)
class EndAsStated:
    """The row ends as the initiator states, like by a command of it."""

    status: JobStatus
    end: JobEnd


def plan_standing(row: Job, said: Standing | None, *, is_lost: bool) -> ForgetCopy | EndCopy | EndAsStated | None:
    """Decide about an open copy after the initiator's answer; None: the job goes on.

    `said`: the statement; None: the answer has none. `is_lost`: the initiator does not know the job."""
    if row.status is JobStatus.READY:
        return ForgetCopy() if is_lost or (said is not None and said.end is not None) else None
    if is_lost:
        return EndCopy(Reason.INITIATOR_LOST, f"{row.initiator} does not know this job any more")
    if said is None or said.run < row.run:
        return None
    if said.run > row.run:
        return EndCopy(Reason.STOPPED, f"run {row.run} is over: {row.initiator} is in run {said.run}")
    return EndAsStated(said.status, said.end) if said.status is not None and said.end is not None else None
