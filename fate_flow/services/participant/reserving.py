"""Reservations at this party: the check before, `apply` and `return`."""

from __future__ import annotations

from fate_flow.core.access.authority import party_id_of
from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.job import NO_CAPACITY, NOT_EFFECTIVE, NOT_READY, Answer, Claim, Command, EngineState, Job
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.queue import fits, takes_from
from fate_flow.core.text.phrases import counted
from fate_flow.core.wire.v1.job_answers import (
    approved_data,
    awaits_data,
    granted_data,
    left_data,
    no_capacity_data,
    rejected_data,
)
from fate_flow.core.wire.v1.job_bodies import read_return, read_round
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Rules
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.ends import note_resource, release
from fate_flow.services.participant.rows import OK, place_of
from fate_flow.services.workers.elastic import oldest_pending, reclaim_capacity


def check(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    """Answer the dependence check: whether the job could reserve here now. There are no dependencies to install."""
    if job.is_final:
        return Answer(103, f"{job.key} is {job.status.value}")
    revision = read_round(command.body).revision
    if revision > job.revision:
        return Answer(NOT_READY, f"it has parameters of revision {job.revision}, and not yet those of {revision}")
    return _not_ready(unit, job) or _ready(job)


def _ready(job: Job) -> Answer:
    consent = None if job.is_plain_v1 else job.consent
    return Answer(data=approved_data(consent.text)) if consent is not None and consent.is_given else OK


def _not_ready(unit: UnitOfWork, job: Job) -> Answer | None:
    """Return why this party reserves nothing for the job now, such as a missing approval or a hold; None if it does."""
    if job.holds:
        return None
    if job.consent is not None and not job.consent.is_given:
        return not_approved(job, job.consent)
    hold = unit.tx.intake_hold()
    return None if hold is None else Answer(NOT_READY, hold.text)


def not_approved(job: Job, consent: Consent) -> Answer:
    if consent.approval is Approval.REJECTED:
        return Answer(103, consent.text, rejected_data())
    data = awaits_data(awaits_approval=is_awaited(job))
    return Answer(NOT_READY, f"nobody at {job.party} has approved job {job.job_id} yet", data)


def is_awaited(job: Job) -> bool:
    """Return whether this party has not decided about the job yet."""
    return job.consent is not None and job.consent.approval is Approval.PENDING


def apply(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    asked = read_round(command.body)
    round_number = job.claim.round_number if asked.round_number is None else asked.round_number
    if job.holds and job.status in (JobStatus.WAITING, JobStatus.RUNNING):
        unit.tx.renew_claim(job.key, round_number)
        return _granted(unit, job)
    if job.status is not JobStatus.WAITING:
        return Answer(103, f"{job.key} is {job.status.value}, not waiting")
    not_ready, order = _not_ready(unit, job), asked.order
    if not_ready is not None:
        return not_ready
    head = _who_would_be_blocked(unit, job, order)
    if head is not None and head.pending.passes >= unit.context.rules.queue_passes:
        return _behind(unit, job, head, order)
    if head is not None:
        unit.tx.count_bypass(head.key)   # before the engine's row is written: rows of jobs first, as in `reserve`
    token = unit.context.fresh_id()
    if unit.tx.reserve(job.key, job.asked.cores, job.asked.memory, token, round_number, unit.now):
        return _granted(unit, job)
    return _short(unit, job, order)


def _who_would_be_blocked(unit: UnitOfWork, job: Job, order: int | None) -> Job | None:
    """Return the seat at the head of the pending requests here, if this job takes capacity from it.

    Returns None if there is no such seat, if this job waits for longer or does not fit, if the head could not be
    served even by an idle engine, or if both have the same initiator and its queue has this job first."""
    engine = unit.tx.engine()
    head = unit.tx.first_pending(oldest_pending(unit))
    if engine is None or head is None or head.job_id == job.job_id:
        return None
    if job.pending.since and (job.pending.since, job.job_id) < (head.pending.since, head.job_id):
        return None
    if order is not None and order < head.queue_key and job.initiator.party_id == head.initiator.party_id:
        return None
    free, needed = Claim(engine.free_cores, engine.free_memory), needed_here(unit, head)
    is_possible = fits(job.asked, free) and fits(needed, Claim(engine.cores, engine.memory))
    return head if is_possible and takes_from(job.asked, needed, free) else None


def needed_here(unit: UnitOfWork, job: Job) -> Claim:
    """Return what all seats of the job here still have to reserve."""
    seats = [seat.asked for seat in unit.tx.jobs_here(job.job_id) if not seat.holds and not seat.is_final]
    return Claim(sum(one.cores for one in seats), sum(one.memory for one in seats))


def _behind(unit: UnitOfWork, job: Job, head: Job, order: int | None) -> Answer:
    """Refuse a job because the capacity is kept for a job that was passed as often as allowed."""
    unit.tx.pending(job.key, unit.steady, order)
    _note_refusal(unit, job)
    # The text does not name the older job, because it may belong to a third party.
    why = f"keeps its capacity for an older job, which has been passed there {counted(head.pending.passes, 'time')}"
    return _no_capacity(job, why, 0)


def _granted(unit: UnitOfWork, job: Job) -> Answer:
    engine = unit.tx.engine()
    assert engine is not None, "a reservation needs an engine"
    note_resource(unit, job, "apply", job.asked, engine)
    lease_seconds = hold_of(unit.context.rules, job) / 1000
    return Answer(data=granted_data(job.asked.cores, job.asked.memory, engine.free_cores, lease_seconds))


def hold_of(rules: Rules, job: Job) -> int:
    """Return for how many milliseconds this party keeps the reservation of a job that does not start."""
    return rules.plain_hold if job.is_plain_v1 else rules.hold


def _short(unit: UnitOfWork, job: Job, order: int | None) -> Answer:
    engine = unit.tx.engine()
    if engine is None:
        return Answer(103, "no computing engine is registered", no_capacity_data("has no computing engine"))
    _note_refusal(unit, job)
    why = _shortage(unit, job, engine)
    if not fits(_asked_here(unit, job), Claim(engine.cores, engine.memory)):
        unit.tx.forget_pending(job.key)
        too_much = f"{why}: the job asks for more than it has in all"
        return _no_capacity(job, too_much, engine.free_cores, never=True)
    unit.tx.pending(job.key, unit.steady, order)
    is_coming = reclaim_capacity(unit, needed_here(unit, job))
    return _no_capacity(job, f"{why}; elastic workers are giving theirs back" if is_coming else why, engine.free_cores)


def _shortage(unit: UnitOfWork, job: Job, engine: EngineState) -> str:
    """Return text that says what the engine has too little of for the job.

    Other parties may learn the number of cores, because initiators plan their queues by it. They do not plan by memory,
    so only this party's own users learn its size."""
    if engine.free_cores < job.asked.cores:
        return f"has {engine.free_cores} of {engine.cores} cores free, {job.asked.cores} asked"
    if party_id_of(job.initiator, unit.context.party_id) == unit.context.party_id:
        return f"has {engine.free_memory} of {engine.memory} MB of memory free, {job.asked.memory} asked"
    return f"has too little memory free, {job.asked.memory} MB asked"


def _asked_here(unit: UnitOfWork, job: Job) -> Claim:
    """Return what all seats of the job here reserve together."""
    seats = [seat.asked for seat in unit.tx.jobs_here(job.job_id)]
    return Claim(sum(one.cores for one in seats), sum(one.memory for one in seats))


def _note_refusal(unit: UnitOfWork, job: Job) -> None:
    engine = unit.tx.engine()
    assert engine is not None, "without an engine the caller refuses earlier"
    unit.note(
        Event.RESOURCE_ENGINE_FAILED, job_id=job.job_id, operation="apply", engine=engine.name, **place_of(job)
    )
    unit.note(
        Event.RESOURCE_FAILED, job_id=job.job_id, operation="apply", cores=job.asked.cores, memory=job.asked.memory,
        **place_of(job),
    )  # fmt: skip


def _no_capacity(job: Job, why: str, free_cores: int, *, never: bool = False) -> Answer:
    data = no_capacity_data(why, free_cores, never=never)
    return Answer(NO_CAPACITY, f"apply for job {job.job_id} resource failed", data)


def give_back(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    """Release a reservation that was not started. A running job releases its reservation when it ends."""
    if job.status is JobStatus.RUNNING:
        return Answer(NOT_EFFECTIVE, f"{job.key} is running: its end returns what it holds")
    asked = read_return(command.body)
    is_back = release(unit, job, asked.round_number)
    if is_back and job.pending.since:
        _stays_pending(unit, job, asked.still_wants)
    return what_is_left(unit, job)


def _stays_pending(unit: UnitOfWork, job: Job, still_wants: bool | None) -> None:
    """Keep the request pending if the job still waits for capacity at another party; forget it if it waits for
    something else."""
    if still_wants is True:
        unit.tx.pending(job.key, unit.steady)
    elif still_wants is False:
        unit.tx.forget_pending(job.key)


def what_is_left(unit: UnitOfWork, job: Job) -> Answer:
    """Answer after a release with the number of free cores, so that the initiator asks for no more than these."""
    engine = unit.tx.engine()
    unit.inform(job.initiator.party_id)
    return OK if engine is None else Answer(data=left_data(engine.free_cores))
