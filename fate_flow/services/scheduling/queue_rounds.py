"""Which waiting jobs begin a reservation round, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from fate_flow.core.model.job import Blocker
from fate_flow.core.planning.queue import Asked, Passing, Place, Waiting
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.initiator.known_capacity import asked_by
from fate_flow.services.workers.placement import most_free_cores
from fate_flow.services.workers.places import engine_at, free_at_engines, tag_here

_FRESH_AT_ONCE = 64
_BLOCKED_AT_ONCE = 16
_ANY = 1 << 30
_PAUSES_IN_VAIN = 5
"""For how many pauses (`retry_wait`) a head may be due while this party lacks capacity; then it asks all the same."""


class QueueRounds:
    """Runs through the queue of one initiator whenever capacity may have become free."""

    def __init__(
        self, context: Context, initiator: Coordinator, advance: Callable[[UnitOfWork, str, bool], None]
    ) -> None:
        self._context = context
        self._initiator = initiator
        self._advance = advance          # takes unit, job id, and whether the job may begin a round
        self._vain_at = 0                # the steady time of the last round that was begun without capacity here

    def run(self, unit: UnitOfWork) -> None:
        """Begin rounds, first in, first out, among the jobs that can run (core/planning/queue.py)."""
        heads, asked = unit.tx.queue_heads(), asked_by(unit)
        candidates = self._candidates(unit, heads, asked)
        if not candidates:
            return
        in_round = unit.tx.jobs_in_round() if heads else ()
        free = self._initiator.known_free(unit)
        passing = Passing(heads, self._context.rules.queue_passes, in_round, free, asked)
        unit.note(Event.ROUND_STARTED, kind="waiting")
        unit.note(Event.ROUND_SIZE, count=unit.tx.count_waiting(), kind="waiting")
        for job in candidates:
            self._begin_round_of(unit, job, passing)
        unit.note(Event.ROUND_FINISHED, kind="waiting")

    def _candidates(self, unit: UnitOfWork, heads: Iterable[Waiting], asked: Asked) -> list[Waiting]:
        every = (
            *unit.tx.unblocked_waiting(_FRESH_AT_ONCE),
            *unit.tx.waiting_unschedulable(unit.steady, _BLOCKED_AT_ONCE),
        )
        found = {job.job_id: job for job in every}
        due = {head.job_id: head for head in heads if head.retry_at <= unit.steady}
        for head in heads:
            found.update((job.job_id, job) for job in self._with_capacity(unit, head, head.job_id in due))
        known = (unit.tx.waiting(job_id) for job_id in unit.pending.to_reconsider)
        found.update((job.job_id, job) for job in known if job is not None)
        if due.keys() - found.keys():
            self._add_due(unit, found, due, asked)
        return sorted(found.values(), key=lambda job: job.order)

    def _add_due(
        self, unit: UnitOfWork, found: dict[str, Waiting], due: dict[str, Waiting], asked: Asked
    ) -> None:  # fmt: skip
        """Add the heads whose time to ask again has come, and for which this party has capacity.

        Without it, a request to another party would be in vain, and each initiator would make one for each of the
        others in each pause. A head that waits like this for long asks all the same, one at a time."""
        capacity, left_out = _OwnCapacity(unit, asked), list[Waiting]()
        for job in sorted({**due, **found}.values(), key=lambda one: one.order):
            fits = capacity.takes(job)
            if job.job_id in found:
                continue
            if fits or job.blocked_by is not Blocker.CAPACITY:
                found[job.job_id] = job
            else:
                left_out.append(job)
        pause = _PAUSES_IN_VAIN * self._context.rules.retry_wait
        oldest = min(left_out, key=lambda one: one.retry_at, default=None)
        if oldest is not None and max(oldest.retry_at, self._vain_at) + pause <= unit.steady:
            self._vain_at = unit.steady
            found[oldest.job_id] = oldest

    def _with_capacity(self, unit: UnitOfWork, head: Waiting, is_due: bool) -> Iterator[Waiting]:
        """Yield as many jobs that are blocked on one place as there is capacity for."""
        place = head.place
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
        if not row.wait_reason:
            unit.touch(job.job_id)      # to release what parties have reserved with `create`


class _OwnCapacity:
    """The cores of this party that are free, or that elastic workers would give up, given out one job after the
    other."""

    def __init__(self, unit: UnitOfWork, asked: Asked) -> None:
        context = unit.context
        self._own = context.party_id
        self._asked = asked
        self._free = Counter(free_at_engines(unit))
        for worker in unit.tx.elastic_workers():
            self._free[Place(self._own, tag_here(context, worker.engine))] += worker.cores

    def takes(self, job: Waiting) -> bool:
        """Give a job what it asks for at this party; False if there is less."""
        wanted = Counter[Place]()
        for place, cores in self._asked(job.job_id).items():
            if place.party_id == self._own:
                wanted[self._known(place)] += cores
        if any(cores > self._free[place] for place, cores in wanted.items()):
            return False
        self._free.subtract(wanted)
        return True

    def _known(self, place: Place) -> Place:
        """Return the place. For a job that does not say on which engines it runs: that with the most free cores."""
        return place if place in self._free else max(self._free, key=self._free.__getitem__, default=place)
