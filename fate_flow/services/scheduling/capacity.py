"""Capacity notices: a party that has capacity again tells the initiators of jobs that it refused.

A notice is only a hint. It is sent once, after the commit, and not stored; a lost one costs a pause of the queue
(`retry_wait`). One process remembers which jobs were notified; when it ends, this is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fate_flow.core.model.job import Answer, Claim, Command, CommandKind, EngineState, Job
from fate_flow.core.planning.queue import fits, takes_from
from fate_flow.core.quotas.holding import Left
from fate_flow.core.wire.v1.initiator_bodies import capacity_body
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.reserving import needed_here
from fate_flow.services.workers.elastic import oldest_pending
from fate_flow.services.workers.holding import left_for
from fate_flow.services.workers.placement import engine_for


class CapacityNotifier:
    """Notifies as many jobs as there is capacity for, in the order of their refusals, each once until it asks again.

    For one pause, capacity offered to one job is not offered to another, unless the first job declines."""

    def __init__(self) -> None:
        self._notified: dict[str, int] = {}    # by job id: the steady time of the notice
        self._declined: set[str] = set()       # notified jobs that declined
        self._silent: dict[str, int] = {}      # by id of a party that did not answer: the steady time

    def notify(self, unit: UnitOfWork, informed_party: str) -> None:
        """Put the notices about free capacity into `unit.pending.hints`; `informed_party` needs none."""
        states = filter(None, map(unit.tx.engine, unit.context.engines))
        engines = [one for one in states if one.free != Claim()]
        jobs = _first_seats(unit.tx.pending_requests(oldest_pending(unit))) if engines else []
        if not jobs or unit.tx.intake_hold() is not None:
            return
        left = {one: left_for(unit, one) for one in {job.initiator.party_id for job in jobs}}
        hints: list[Command] = []
        for engine in engines:
            there = [job for job in jobs if engine_for(unit, job) == engine.name]
            hints += self._hints(unit, there, _Capacity(unit, engine, there, left), informed_party)
        unit.pending = unit.pending.with_hints(hints)

    def _hints(
        self, unit: UnitOfWork, jobs: Sequence[Job], capacity: _Capacity, informed_party: str
    ) -> Iterator[Command]:
        """Yield the notices about one engine."""
        for job in jobs:
            free, knows = capacity.free_for(job), self._is_notified(job) or job.initiator.party_id == informed_party
            if self._may_come(unit, job) and capacity.takes(unit, job) and not knows:
                yield _message(job, free)

    def sent(self, unit: UnitOfWork) -> None:
        """Note that the notices in `unit.pending.hints` are sent."""
        old = oldest_pending(unit)    # older requests have expired
        self._notified = {job_id: at for job_id, at in self._notified.items() if at > old}
        self._silent = {party_id: at for party_id, at in self._silent.items() if at > old}
        self._notified.update((hint.job_id, unit.steady) for hint in unit.pending.hints)
        self._declined &= self._notified.keys()
        self._declined.difference_update(hint.job_id for hint in unit.pending.hints)

    def declined(self, unit: UnitOfWork, hint: Command, answer: Answer) -> None:
        """Note that the job declined, so that its capacity can be offered to others."""
        self._declined.add(hint.job_id)
        if answer.is_silence:
            self._silent[hint.to.party_id] = unit.steady

    def _may_come(self, unit: UnitOfWork, job: Job) -> bool:
        """Return whether the job can be notified, or was notified lately and did not decline."""
        pause, initiator = unit.context.rules.retry_wait, job.initiator.party_id
        # jobs of this party are no concern here: its own queue has run already
        if job.is_plain_v1 or initiator in (unit.context.party_id, "0"):
            return False
        if self._is_notified(job):
            return job.job_id not in self._declined and unit.steady - self._notified[job.job_id] < pause
        return initiator not in self._silent or unit.steady - self._silent[initiator] >= pause

    def _is_notified(self, job: Job) -> bool:
        """Return whether the job was notified and has not asked since."""
        return job.pending.asked < self._notified.get(job.job_id, 0)


def _first_seats(seats: Iterable[Job]) -> list[Job]:
    """Return one seat of each job, in order, with the time of the last request for any of its seats."""
    found: dict[str, Job] = {}
    for seat in seats:
        first = found.setdefault(seat.job_id, seat)
        asked = max(first.pending.asked, seat.pending.asked)
        found[seat.job_id] = replace(first, pending=replace(first.pending, asked=asked))
    return list(found.values())


class _Capacity:
    """The free capacity of an engine minus what notices promise, given out one job after the other as `apply` would."""

    def __init__(
        self, unit: UnitOfWork, engine: EngineState, jobs: Sequence[Job], left: dict[str, Left]
    ) -> None:
        """`jobs`: the pending ones on this engine, in their order; `left`: how much more the jobs of each initiator
        may hold, on any engine."""
        self.free = engine.free
        self._left = left
        self._head = next((job for job in jobs if self._may_hold(job, job.asked)), None)
        if self._head is None:
            return
        self._head_needs = needed_here(unit, self._head)
        self._passes_left = unit.context.rules.queue_passes - self._head.pending.passes
        if not fits(self._head_needs, engine.in_all):
            self._head = None

    def free_for(self, job: Job) -> int:
        """Return how many of the free cores the initiator of the job may hold."""
        return self._left[job.initiator.party_id].cores_of(self.free.cores)

    def takes(self, unit: UnitOfWork, job: Job) -> bool:
        """Promise a job what all its seats here need; False if there is less, if its initiator may not hold so much, or
        if it is kept for the head."""
        if not fits(job.asked, self.free) or not self._may_hold(job, job.asked):
            return False
        needed = needed_here(unit, job)
        if not fits(needed, self.free) or not self._may_hold(job, needed) or self._is_kept_from(job, needed):
            return False
        self.free = Claim(
            self.free.cores - needed.cores, self.free.memory - needed.memory, gpus=self.free.gpus - needed.gpus
        )
        self._left[job.initiator.party_id] = self._left[job.initiator.party_id].after(needed)
        return True

    def _may_hold(self, job: Job, claim: Claim) -> bool:
        return self._left[job.initiator.party_id].admits(claim)

    def _is_kept_from(self, job: Job, needed: Claim) -> bool:
        if self._head is None or _goes_first(job, self._head):
            return False
        if job.job_id == self._head.job_id:
            self._head = None
        elif takes_from(needed, self._head_needs, self.free):
            self._passes_left -= 1
            return self._passes_left < 0
        return False


def _goes_first(job: Job, head: Job) -> bool:
    """Return whether both jobs have the same initiator, and its queue has `job` before `head`."""
    return job.initiator.party_id == head.initiator.party_id and job.queue_key < head.queue_key


def _message(job: Job, free_cores: int) -> Command:
    body = capacity_body(job.party, free_cores)
    return Command(CommandKind.CAPACITY, job.job_id, job.initiator, job.run, body=body)
