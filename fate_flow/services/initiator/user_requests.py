"""Requests of users, and of exceeded limits, about a job: stop, hold, priority, rerun."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.errors import Conflict, JobNotFound
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Hold, Job
from fate_flow.core.model.reasons import Reason, job_status_for
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.actions import NewVersion, Plan
from fate_flow.core.planning.queue import queue_key
from fate_flow.core.planning.rerun import plan_rerun, why_nothing
from fate_flow.core.planning.view import JobView
from fate_flow.core.wire.v1.initiator_bodies import RerunRequest
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.space import check_space_for_client
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.job_view import view_of
from fate_flow.services.initiator.plan_actions import PlanActions
from fate_flow.services.initiator.seats import place_of
from fate_flow.services.participant.admission import check_none_is_revoked
from fate_flow.services.participant.ends import has_workers
from fate_flow.store.contract.changes import SUBMIT_FAILED


def request_stop(unit: UnitOfWork, job_id: str, reason: Reason, message: str, by_user: bool, caused_by: str) -> bool:
    """Request the end of the job; False if it has ended already. Raises JobNotFound."""
    job = unit.tx.job_here(job_id)
    if job is None:
        raise JobNotFound(f"can not found job {job_id} as its initiator")
    unit.note(Event.STOP_REQUESTED, job_id=job_id, status=job_status_for(reason))
    unit.touch(job_id)
    if unit.tx.request_stop(job.key, reason, message, unit.now, by_user, caused_by):
        return True
    if by_user:
        unit.tx.forgo_return(job.key)
    return False


def request_force_stop(unit: UnitOfWork, job_id: str) -> None:
    """Request that draining workers of this job are killed. Call it after the stop was requested."""
    job = unit.tx.job_here(job_id)
    if job is not None and not job.is_final:
        unit.tx.request_force_stop(job.key)
        unit.touch(job_id)


def set_priority(unit: UnitOfWork, job_id: str, priority: int) -> None:
    """Set the priority of a waiting job. Raises JobNotFound; Conflict if the job does not wait."""
    job = _queued(unit, job_id)
    place = queue_key(job.enqueued, priority, unit.context.rules.queue_ageing)
    if not unit.tx.set_priority(job.key, priority, place):
        raise Conflict(f"job {job_id} is {job.status.value}: only a job that waits has a place in the queue")
    _note_word(unit, job, f"its priority is {priority}, was {job.priority}")
    unit.lengthen_queue()


def hold_job(unit: UnitOfWork, job_id: str, hold: Hold) -> None:
    """Put a waiting job on hold: no reservation round until it is released. Raises JobNotFound; Conflict if the job
    does not wait."""
    job = _queued(unit, job_id)
    if job.hold is not None:
        hold = replace(hold, since=job.hold.since)      # only the message of the hold changes
    begins = (SeatStatus.STARTING, SeatStatus.STARTED)
    if any(seat.status in begins for seat in unit.tx.seats(job_id)) or not unit.tx.hold_job(job.key, hold):
        status = "being started" if job.status is JobStatus.WAITING else job.status.value
        raise Conflict(f"job {job_id} is {status}: only a job that waits can be held; flow job stop ends it")
    _note_word(unit, job, hold.text)
    unit.touch(job_id)
    unit.lengthen_queue()


def let_go(unit: UnitOfWork, job_id: str, by: str) -> None:
    """Release a job from its hold. Raises JobNotFound; Conflict if the job is not on hold."""
    job = _queued(unit, job_id)
    if not unit.tx.release_job(job.key, unit.steady):
        raise Conflict(f"job {job_id} is {job.status.value} and not on hold")
    _note_word(unit, job, f"released by {by}")
    unit.lengthen_queue()


def ask_again(unit: UnitOfWork, party_id: str, job_id: str = "") -> None:
    """Let the queue ask a party again that may be ready now: for the head that waits for it, and for this job."""
    job = unit.tx.job_here(job_id)
    due = {job_id} if job is not None and job.blocked_on == party_id else set()
    for one in sorted(due | {head.job_id for head in unit.tx.queue_heads() if head.blocked_on == party_id}):
        unit.tx.ask_again(one)
    unit.lengthen_queue()


def begin_rerun(
    unit: UnitOfWork, actions: PlanActions, job_id: str, request: RerunRequest, only: JobStatus | None
) -> None:
    """Run an ended job again; `only`: only if it has ended with this status.

    Raises JobNotFound; BadRequest for an unknown component; Conflict if the job cannot run again or need not;
    PermissionDenied if a party of it was revoked here since; NoSpace if this party takes nothing new."""
    job = _to_rerun(unit, job_id, only)
    check_space_for_client(unit.context)
    spec = unit.spec(job_id)
    assert spec is not None, "it was parsed when it was taken"
    check_none_is_revoked(unit, spec)
    unit.note(Event.RERUN_ASKED, job_id=job_id, **place_of(job.party))
    view = view_of(unit, job, spec, unit.tx.tasks(job_id))
    plan = plan_rerun(view, request, {name: unit.context.fresh_id() for name in spec.tasks})
    if not plan:
        unit.note(Event.RERUN_NOTHING, job_id=job_id)
        raise Conflict(f"job {job_id}: no task to rerun, {why_nothing(job, spec)}")
    _note_kept(unit, view, plan)
    for action in plan:
        actions.carry_out(unit, job, action)


def _to_rerun(unit: UnitOfWork, job_id: str, only: JobStatus | None) -> Job:
    """Return the job if it can be rerun. Raises JobNotFound, Conflict."""
    job = that_may_begin_again(unit, job_id, "rerun")
    if only is not None and job.status is not only:
        raise Conflict(f"job {job_id} is {job.status.value}: only a job that is {only.value} can be resumed")
    return job


def that_may_begin_again(unit: UnitOfWork, job_id: str, what: str) -> Job:
    """Return the job if this party is its initiator, and no worker of its last run is left.

    Raises JobNotFound, Conflict."""
    rows, job = unit.tx.jobs_here(job_id), unit.tx.job_here(job_id)
    if not rows:
        raise JobNotFound("can not found job")
    if job is None:
        first, own = rows[0].initiator, unit.context.party_id
        raise Conflict(f"this server is party {own}; {what} job {job_id} at party {first.party_id}, its initiator")
    document = unit.tx.document(job_id)
    if document is not None and document.tag == SUBMIT_FAILED:
        raise Conflict(f"job {job_id} was never accepted by every party: submit it again")
    if job.is_final and any(not row.is_final or has_workers(unit, row) for row in rows):
        raise Conflict(f"job {job_id} is {job.status.value}, and its last workers still end; {what} it in a moment")
    return job


def _note_kept(unit: UnitOfWork, view: JobView, plan: Plan) -> None:
    anew = {action.name for action in plan if isinstance(action, NewVersion)}
    for task in view.tasks:
        key = task.key
        if key.name not in anew:
            unit.note(
                Event.RERUN_TASK_PASSED, job_id=key.job_id, task_id=key.task_id, task_version=key.version,
                status=task.status, **place_of(key.party),
            )  # fmt: skip


def _queued(unit: UnitOfWork, job_id: str) -> Job:
    """Return the job of this initiator. Raises JobNotFound."""
    job = unit.tx.job_here(job_id)
    if job is None:
        raise JobNotFound(f"can not found job {job_id} as its initiator, whose queue it stands in")
    return job


def _note_word(unit: UnitOfWork, job: Job, why: str) -> None:
    """Note a user's change of a waiting job in its log and its history."""
    unit.note(Event.JOB_NOTE, job_id=job.job_id, text=f"job {job.job_id}: {why}")
    party = job.party
    unit.moves(HistoryLevel.JOB, job.job_id, job.status, job.status, party=party, message=why, caused_by=str(party))
