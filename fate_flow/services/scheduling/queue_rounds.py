"""Which waiting jobs begin a reservation round, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fate_flow.core.model.job import Blocker
from fate_flow.core.planning.queue import Passing, Place, Waiting
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.initiator.known_capacity import asked_by
from fate_flow.services.workers.placement import most_free_cores
from fate_flow.services.workers.places import engine_at, free_at_engines

_FRESH_AT_ONCE = 64
_BLOCKED_AT_ONCE = 16
_ANY = 1 << 30


class QueueRounds:
    """Runs through the queue of one initiator whenever capacity may have become free."""

    def __init__(
        self, context: Context, initiator: Coordinator, advance: Callable[[UnitOfWork, str, bool], None]
    ) -> None:
        self._context = context
        self._initiator = initiator
        self._advance = advance          # takes unit, job id, and whether the job may begin a round

    def run(self, unit: UnitOfWork) -> None:
        """Begin rounds, first in, first out, among the jobs that can run (core/planning/queue.py)."""
        heads = unit.tx.queue_heads()
        candidates = self._candidates(unit, heads)
        if not candidates:
            return
        in_round = unit.tx.jobs_in_round() if heads else ()
        free = self._initiator.known_free(unit)
        passing = Passing(heads, self._context.rules.queue_passes, in_round, free, asked_by(unit))
        unit.note(Event.ROUND_STARTED, kind="waiting")
        unit.note(Event.ROUND_SIZE, count=unit.tx.count_waiting(), kind="waiting")
        for job in candidates:
            self._begin_round_of(unit, job, passing)
        unit.note(Event.ROUND_FINISHED, kind="waiting")

    def _candidates(self, unit: UnitOfWork, heads: Iterable[Waiting]) -> list[Waiting]:
        every = (
            *unit.tx.unblocked_waiting(_FRESH_AT_ONCE),
            *unit.tx.waiting_unschedulable(unit.steady, _BLOCKED_AT_ONCE),
        )
        found = {job.job_id: job for job in every}
        for head in heads:
            found.update((job.job_id, job) for job in self._reconsidered(unit, head))
        known = (unit.tx.waiting(job_id) for job_id in unit.pending.to_reconsider)
        found.update((job.job_id, job) for job in known if job is not None)
        return sorted(found.values(), key=lambda job: job.order)

    def _reconsidered(self, unit: UnitOfWork, head: Waiting) -> Iterator[Waiting]:
        """Yield jobs that are blocked on one place: the head when it is due, and as many as there is capacity for."""
        place, is_due = head.place, head.retry_at <= unit.steady
        if is_due:
            yield head
        capacity = self._capacity_at(unit, place) if is_due or place.party_id in unit.pending.freed else 0
        if capacity > 0:
            for job in unit.tx.blocked_waiting(place.party_id, capacity, _BLOCKED_AT_ONCE, place.tag):
                if job.blocked_cores <= capacity:
                    capacity -= job.blocked_cores
                    yield job

    def _capacity_at(self, unit: UnitOfWork, place: Place) -> int:
        """Return the free cores there, as far as they are known; if a party freed an unknown number: any number."""
        if place.party_id == self._context.party_id:
            own = free_at_engines(unit)
            return own[place] if place in own else most_free_cores(unit)
        return self._initiator.free.get(place, _ANY if place.party_id in unit.pending.freed else 0)

    def _begin_round_of(self, unit: UnitOfWork, job: Waiting, passing: Passing) -> None:
        behind = passing.admit(job)
        if behind is None:
            unit.note(Event.ROUND_JOB, kind="waiting", job_id=job.job_id)
            self._advance(unit, job.job_id, True)
            return
        row = unit.tx.job_here(job.job_id)
        if row is None:
            return
        retry_at = unit.steady + self._context.rules.retry_wait
        if job.blocked_by is Blocker.SIZE:  # it still waits for that, not for the head
            unit.tx.postpone(
                row.key, row.wait_reason, row.blocked_on, job.blocked_cores, retry_at, row.blocked_at
            )  # fmt: skip
        else:
            why, (party_id, tag) = behind.text(engine_at(self._context, behind.place)), behind.place
            unit.tx.postpone(row.key, why, party_id, job.blocked_cores, retry_at, tag)
