"""Carries out the actions about seats and reservation rounds."""

from __future__ import annotations

from fate_flow.core.metrics.measures import ADMISSION_SECONDS, BLOCKED_BY, GIVEN_UP, RESERVED
from fate_flow.core.metrics.spans import Step, StepName
from fate_flow.core.model.errors import Conflict
from fate_flow.core.model.job import Job
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.actions import BeginRound, EndRound, MoveSeat, RenewReservation
from fate_flow.core.planning.queue import Waiting, where_it_takes
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.tracing import did
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.known_capacity import KnownCapacity, asked_by
from fate_flow.services.initiator.seats import lease_seat, note_seat, place_of


def renew_reservation(unit: UnitOfWork, _: Job, action: RenewReservation) -> None:
    lease_seat(unit, action.seat, action.seat.lease)


def move_seat(unit: UnitOfWork, job: Job, action: MoveSeat) -> None:
    seat, new, message = action.seat, action.new, action.message
    begins = (SeatStatus.STARTING, SeatStatus.STARTED)
    if new is SeatStatus.STARTING and not any(one.status in begins for one in unit.tx.seats(job.job_id)):
        unit.note(Event.RESOURCE_ANSWERED, job_id=job.job_id, operation="apply", outcome="successfully")
        unit.note(Event.START_ASKED, job_id=job.job_id, **place_of(job.party))
    if unit.tx.move_seat(seat, new, message):
        note_seat(unit, seat, new, message)


class ReservationRounds:
    """The reservation rounds of one process. `owner`: the name with which it sets the ready signal."""

    def __init__(self, owner: str, capacity: KnownCapacity) -> None:
        self._owner = owner
        self._capacity = capacity

    def begin(self, unit: UnitOfWork, job: Job, _: BeginRound) -> None:
        if not unit.tx.begin_round(job.key, self._owner, unit.now):
            raise Conflict(f"job {job.job_id}: another scheduler began its reservation round, or it no longer waits")
        unit.note(Event.RESOURCE_ASKED, job_id=job.job_id, operation="apply")
        did(unit, Step(StepName.ROUND_BEGUN, job.job_id, job.party))

    def end(self, unit: UnitOfWork, job: Job, action: EndRound) -> None:
        conflicts = job.conflicts + 1 if action.was_conflict else job.conflicts
        retry_at = action.retry_at + _jitter(unit, conflicts)
        is_reserved = not action.wait_reason and job.status is JobStatus.RUNNING
        if is_reserved:
            unit.note(Event.STARTED, job_id=job.job_id, **place_of(job.party))     # as in 1.6, before the unlock
            unit.observe(ADMISSION_SECONDS, max(0, unit.steady - job.queued) / 1000)
        if not unit.tx.end_round(
            job.key, self._owner, action.wait_reason, action.blocked_on, action.blocked_cores, retry_at, conflicts,
            action.blocked_by, action.rejoins, action.blocked_at,
        ):
            owner = job.ready_owner or "no scheduler"
            raise Conflict(f"job {job.job_id}: its reservation round belongs to {owner}, not to {self._owner}")
        why_not = BLOCKED_BY[action.blocked_by] if action.blocked_by is not None else GIVEN_UP
        step, outcome = (StepName.ROUND_RESERVED, RESERVED) if is_reserved else (StepName.ROUND_FAILED, why_not)
        did(unit, Step(step, job.job_id, job.party, reason=outcome))
        overtaken = self._capacity.take_overtaken(job.job_id)
        if action.wait_reason:
            # A party with two seats had capacity for one only: it has no more capacity now than before.
            unit.undo_free(action.blocked_on, job.job_id)
            unit.wake_at(retry_at, job.job_id)
            unit.note(Event.RESOURCE_ANSWERED, job_id=job.job_id, operation="apply", outcome="failed")
            unit.note(Event.JOB_NOTE, job_id=job.job_id, text=f"job {job.job_id} waits: {action.wait_reason}")
            if overtaken == (job.round_number, action.blocked_on):
                unit.reconsider(job.job_id)
        elif job.status is JobStatus.RUNNING:
            self._count_passes(unit, job)
        unit.note(Event.READY_SIGNAL_RESET, job_id=job.job_id, done=True)

    def _count_passes(self, unit: UnitOfWork, job: Job) -> None:
        """Count a pass for each earlier job that waits for capacity which the started job took."""
        heads = [head for head in unit.tx.queue_heads() if head.order < job.order]
        if not heads:
            return
        asked = asked_by(unit)
        started = Waiting(job.job_id, job.create_time, tuple(party.party_id for party in job.parties))
        took = asked(job.job_id)
        before = {place: cores + took.get(place, 0) for place, cores in self._capacity.with_own(unit).items()}
        for head in heads:
            if where_it_takes(started, head, before, asked):
                unit.tx.count_pass(head.job_id, job.job_id)


def _jitter(unit: UnitOfWork, conflicts: int) -> int:
    """Return a random delay (ms), so that two initiators do not meet again after a conflict.

    Its limit grows by one second with each conflict, up to eight."""
    if not conflicts:
        return 0
    return int(unit.context.fresh_id()[:6], 16) % (1000 * min(conflicts, 8))
