"""What follows from a unit of work once it is stored, as one immutable value.

Each method returns a new value and does not change the old one. So a part of a unit that fails is undone by going back
to the value before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.metrics.measures import Measure
from fate_flow.core.metrics.spans import Step
from fate_flow.core.model.frozen import changed
from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.model.job import Command
from fate_flow.core.record.entry import NewEntry
from fate_flow.services.context.effects import Effect


@dataclass(frozen=True)
class CapacityNotice:
    """Another party's notice that it has capacity again for a job that it refused."""

    job_id: str
    party_id: str
    cores: int                                                # free there
    places: tuple[tuple[str, int], ...] = ()     # the same by the tags of its engines, if it has several


@dataclass(frozen=True)
class Pending:
    """What the use cases of one transaction leave for its end, for the scheduler and for the sender."""

    effects: tuple[Effect, ...] = ()
    outgoing: tuple[Command, ...] = ()                        # commands in the outbox, stored by this unit or read
    moved: tuple[HistoryEntry, ...] = ()                      # entries of the history, written at the end
    recorded: tuple[NewEntry, ...] = ()                       # entries of the record, written at the end
    dirty: Mapping[str, None] = field(default_factory=dict)   # jobs of this initiator to look at, in order
    freed: Mapping[str, frozenset[str]] = field(default_factory=dict)  # parties with freed cores, and their jobs
    informed_parties: frozenset[str] = frozenset()            # parties that learn by an answer how much is free here
    is_queue_longer: bool = False                             # a job has begun to wait
    to_reconsider: Mapping[str, None] = field(default_factory=dict)  # jobs that the queue must look at in any case
    capacity_notices: tuple[CapacityNotice, ...] = ()         # for the scheduler
    is_notice_declined: bool = False                          # a job has declined a capacity notice
    hints: tuple[Command, ...] = ()                           # sent once after the commit, and not stored
    alarms: tuple[tuple[int, str], ...] = ()     # steady times, and the jobs to look at then; empty: the outbox
    observed: tuple[tuple[Measure, float], ...] = ()          # values for histograms
    steps: tuple[Step, ...] = ()                              # for spans, besides the moves
    begins: tuple[tuple[int, int], ...] = ()     # of each command of a request: the moves and the steps before it
    bound: frozenset[str] = frozenset()                       # jobs that were not here before: bound by this unit
    bindings: Mapping[str, JobBinding] = field(default_factory=dict)  # by job id: the bindings in this transaction

    @property
    def informed_party(self) -> str:
        """The only initiator that knows by an answer what came free here; empty if there is none or several."""
        return next(iter(self.informed_parties)) if len(self.informed_parties) == 1 else ""

    @property
    def concerns_queue(self) -> bool:
        """Whether the queue must run, because waiting jobs may begin a reservation round."""
        return self.is_queue_longer or bool(self.freed) or bool(self.to_reconsider)

    def with_effect(self, effect: Effect) -> Pending:
        return changed(self, effects=(*self.effects, effect))

    def with_outgoing(self, commands: Iterable[Command]) -> Pending:
        return changed(self, outgoing=(*self.outgoing, *commands))

    def with_entry(self, entry: HistoryEntry) -> Pending:
        return changed(self, moved=(*self.moved, entry))

    def with_observed(self, measure: Measure, value: float) -> Pending:
        return changed(self, observed=(*self.observed, (measure, value)))

    def with_step(self, step: Step) -> Pending:
        return changed(self, steps=(*self.steps, step))

    def with_next_command(self) -> Pending:
        return changed(self, begins=(*self.begins, (len(self.moved), len(self.steps))))

    def with_recorded(self, entry: NewEntry) -> Pending:
        return changed(self, recorded=(*self.recorded, entry))

    def with_alarm(self, steady: int, job_id: str) -> Pending:
        return changed(self, alarms=(*self.alarms, (steady, job_id)))

    def with_hints(self, commands: Iterable[Command]) -> Pending:
        return changed(self, hints=(*self.hints, *commands))

    def with_notice(self, notice: CapacityNotice) -> Pending:
        return changed(self, capacity_notices=(*self.capacity_notices, notice))

    def with_declined_notice(self) -> Pending:
        return changed(self, is_notice_declined=True)

    def with_longer_queue(self) -> Pending:
        return changed(self, is_queue_longer=True)

    def with_informed(self, party_id: str) -> Pending:
        return changed(self, informed_parties=self.informed_parties | {party_id})

    def with_reconsidered(self, job_id: str) -> Pending:
        return changed(self, to_reconsider={**self.to_reconsider, job_id: None})

    def with_dirty(self, job_ids: Iterable[str]) -> Pending:
        """Add jobs; one that is there already keeps its place."""
        new = {job_id: None for job_id in job_ids if job_id not in self.dirty}
        return changed(self, dirty={**self.dirty, **new}) if new else self

    def without_dirty(self, job_ids: Iterable[str]) -> Pending:
        gone = self.dirty.keys() & set(job_ids)
        return changed(self, dirty={one: None for one in self.dirty if one not in gone}) if gone else self

    def with_freed(self, party_id: str, job_id: str) -> Pending:
        jobs = self.freed.get(party_id, frozenset())
        return changed(self, freed={**self.freed, party_id: jobs | {job_id}})

    def without_freed(self, party_id: str, job_id: str) -> Pending:
        """Remove the job from a party's jobs, and the party if it has no other job."""
        if job_id not in self.freed.get(party_id, ()):
            return self
        left = self.freed[party_id] - {job_id}
        others = {one: jobs for one, jobs in self.freed.items() if one != party_id}
        return changed(self, freed={**others, party_id: left} if left else others)

    def with_binding(self, binding: JobBinding) -> Pending:
        return changed(self, bindings={**self.bindings, binding.job_id: binding})

    def with_bound(self, binding: JobBinding) -> Pending:
        """Add the binding of a job that had none."""
        return changed(self.with_binding(binding), bound=self.bound | {binding.job_id})

    def without_binding(self, job_id: str) -> Pending:
        return changed(self, bindings={one: found for one, found in self.bindings.items() if one != job_id})
