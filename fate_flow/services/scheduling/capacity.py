"""Capacity notices: a party that has capacity again tells the initiators of jobs that it refused.

A notice is only a hint. It is sent once, after the commit, and not stored; a lost one costs a pause of the queue
(`retry_wait`). One process remembers which jobs were notified; when it ends, this is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fate_flow.core.model.job import Answer, Claim, Command, CommandKind, EngineState, Job
from fate_flow.core.planning.queue import fits, takes_from
from fate_flow.core.quotas.holding import Left, sum_of
from fate_flow.core.wire.v1.initiator_bodies import capacity_body
from fate_flow.services.context.recording import recorded_hint
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.reserving import needed_here
from fate_flow.services.workers.elastic import oldest_pending
from fate_flow.services.workers.holding import left_for
from fate_flow.services.workers.placement import asked_by_engine, asks_of, engine_for
from fate_flow.services.workers.places import places_of


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
        capacity = _Capacity(unit, engines, jobs, left)
        hints = []
        for job in jobs:
            free = capacity.free_for(unit, job)
            knows = self._is_notified(job) or job.initiator.party_id == informed_party
            if self._may_come(unit, job) and capacity.takes(unit, job) and not knows:
                hints.append(_message(unit, job, free))
        unit.pending = unit.pending.with_hints(hints)

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


@dataclass
class _Head:
    """The first of the pending jobs on an engine whose initiator may hold what it asks for."""

    job: Job
    needs: Claim
    passes_left: int


class _Capacity:
    """The free capacity of the engines minus what notices promise, given out one job after the other as `apply`
    would."""

    def __init__(
        self, unit: UnitOfWork, engines: Sequence[EngineState], jobs: Sequence[Job], left: dict[str, Left]
    ) -> None:
        """`engines`: those with free capacity; `jobs`: the pending ones, in their order; `left`: how much more the jobs
        of each initiator may hold, on all engines together."""
        self._free = {one.name: one.free for one in engines}
        self._left = left
        self._heads: dict[str, _Head] = {}
        for engine in engines:
            there = (job for job in jobs if asks_of(unit, job, engine.name) and self._may_hold(job, job.asked))
            head = next(there, None)
            needs = needed_here(unit, head).get(engine.name, Claim()) if head is not None else Claim()
            if head is not None and fits(needs, engine.in_all):
                left_over = unit.context.rules.queue_passes - head.pending.passes
                self._heads[engine.name] = _Head(head, needs, left_over)

    def free_for(self, unit: UnitOfWork, job: Job) -> int:
        """Return how many of the free cores of its engine the initiator of the job may hold."""
        free = self._free.get(engine_for(unit, job), Claim())
        return self._left[job.initiator.party_id].cores_of(free.cores)

    def takes(self, unit: UnitOfWork, job: Job) -> bool:
        """Promise a job what all its seats here need; False if there is less on one of its engines, if its initiator
        may not hold so much, or if it is kept for a head."""
        if not self._has(asked_by_engine(unit, job)) or not self._may_hold(job, job.asked):
            return False
        needed = needed_here(unit, job)
        in_all = sum_of(needed.values())
        if not self._has(needed) or not self._may_hold(job, in_all) or self._is_kept_from(job, needed):
            return False
        for engine, claim in needed.items():
            free = self._free.get(engine, Claim())
            self._free[engine] = Claim(
                free.cores - claim.cores, free.memory - claim.memory, gpus=free.gpus - claim.gpus
            )
        self._left[job.initiator.party_id] = self._left[job.initiator.party_id].after(in_all)
        return True

    def _has(self, asked: Mapping[str, Claim]) -> bool:
        return all(fits(claim, self._free.get(engine, Claim())) for engine, claim in asked.items())

    def _may_hold(self, job: Job, claim: Claim) -> bool:
        return self._left[job.initiator.party_id].admits(claim)

    def _is_kept_from(self, job: Job, needed: Mapping[str, Claim]) -> bool:
        passed = []
        for engine, claim in needed.items():
            head = self._heads.get(engine)
            if head is None or _goes_first(job, head.job):
                continue
            if head.job.job_id == job.job_id:
                del self._heads[engine]
            elif takes_from(claim, head.needs, self._free.get(engine, Claim())):
                passed.append(head)
        for head in passed:
            head.passes_left -= 1
        return any(head.passes_left < 0 for head in passed)


def _goes_first(job: Job, head: Job) -> bool:
    """Return whether both jobs have the same initiator, and its queue has `job` before `head`."""
    return job.initiator.party_id == head.initiator.party_id and job.queue_key < head.queue_key


def _message(unit: UnitOfWork, job: Job, free_cores: int) -> Command:
    body = capacity_body(job.party, free_cores, places_of(unit, job))
    return recorded_hint(unit, Command(CommandKind.CAPACITY, job.job_id, job.initiator, job.run, body=body))
