"""A unit of work: a transaction, and its effects after the commit.

Effects (effects.py: launching a worker, closing a session, removing files) run only after the rows that order them are
stored. Each effect is idempotent and can be derived from the rows again, so a crash in between costs one poll.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.access.limits import Grants
from fate_flow.core.metrics.measures import WRITE, Measure
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.frozen import changed
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import Command, Job
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.counting import count_pending
from fate_flow.services.context.documents import digest_of, key_of_received, parse_document
from fate_flow.services.context.effects import Effect, carry_out
from fate_flow.services.context.notifying import notify_of_moves
from fate_flow.services.context.pending import Pending
from fate_flow.services.context.ports import Context, why_absent
from fate_flow.services.context.traces import trace_of
from fate_flow.services.context.tracing import add_spans, jobs_of
from fate_flow.services.record.entries import of_moves, of_sent
from fate_flow.store.contract.transaction import Transaction

log = logging.getLogger(__name__)

_SPECS_KEPT = 2_000
_NOTHING = Pending()        # one for all units: it is never changed, and costs as much as the rest of a unit


@dataclass
class UnitOfWork:
    """The shared state of the use cases in one transaction."""

    context: Context
    tx: Transaction
    now: int                                                  # wall clock, for people; no deadline depends on it
    pending: Pending = _NOTHING                               # what follows after the commit
    is_careful: bool = False                                  # see `isolated`
    known_steady: int | None = None                           # set by the scheduler; others read it
    read_early: Mapping[str, JobSpec] = field(default_factory=dict)     # by `key_of_received`: parsed before
    _grants: dict[str, Grants] = field(default_factory=dict)            # by party id

    @property
    def steady(self) -> int:
        """Steady time (stopwatch.py) in ms, the base of all durations. Outside the scheduler at most one poll late."""
        if self.known_steady is None:
            self.known_steady = self.tx.steady()
        return self.known_steady

    @contextmanager
    def isolated(self, what: object) -> Iterator[None]:
        """Run a block that the rest of this unit does not depend on.

        In a careful unit, a failure undoes only the block. This costs a savepoint each time, so the first try of a
        transaction does without."""
        if not self.is_careful:
            yield
            return
        try:
            with self.part():
                yield
        except Exception:
            log.exception("%s failed and is left as it was", what)

    @contextmanager
    def part(self) -> Iterator[None]:
        """Run a block that is undone as a whole if it raises: its writes and its effects."""
        before = self.pending
        try:
            with self.tx.savepoint():
                yield
        except BaseException:
            self.pending = before
            raise

    def note(self, event: Event, **fields: object) -> None:
        """Write one line into the log files that operators read."""
        self.context.record.emit(event, stacklevel=2, **fields)

    def moves(
        self, level: HistoryLevel, job_id: str, old: Enum | None, new: Enum, *, party: Party | None = None,
        task: str = "",
        version: int = 0, reason: Reason | None = None, message: str = "", caused_by: str = "", exit_status: str = "",
    ) -> None:  # fmt: skip
        """Add an entry to the job's history; it is stored in the same transaction as the move."""
        entry = HistoryEntry(
            job_id, level, str(old.value) if old else "", str(new.value), self.now, party, task, version,
            reason.value if reason else "", message, caused_by, exit_status,
        )  # fmt: skip
        self.pending = self.pending.with_entry(entry)

    def observe(self, measure: Measure, value: float) -> None:
        """Add a value to a histogram, once this unit is stored."""
        self.pending = self.pending.with_observed(measure, value)

    def after_commit(self, effect: Effect) -> None:
        self.pending = self.pending.with_effect(effect)

    def touch(self, *job_ids: str) -> None:
        """Note that these jobs have changed, so that their initiator looks at them."""
        self.pending = self.pending.with_dirty(job_ids)

    def untouch(self, *job_ids: str) -> None:
        """Note that the initiator looks at these jobs now, or has done so."""
        self.pending = self.pending.without_dirty(job_ids)

    def free(self, party_id: str, job_id: str = "") -> None:
        """Note that cores may have come free at a party, by this job if one is given."""
        self.pending = self.pending.with_freed(party_id, job_id)

    def undo_free(self, party_id: str, job_id: str) -> None:
        """Withdraw what `free` noted for this job: it only undid its own reservation."""
        self.pending = self.pending.without_freed(party_id, job_id)

    def inform(self, party_id: str) -> None:
        """Note that this party learns by an answer how much is free here."""
        self.pending = self.pending.with_informed(party_id)

    def lengthen_queue(self) -> None:
        """Note that a job has begun to wait, or may reserve now."""
        self.pending = self.pending.with_longer_queue()

    def reconsider(self, job_id: str) -> None:
        """Note that the queue must look at this job in any case."""
        self.pending = self.pending.with_reconsidered(job_id)

    def wake_at(self, steady: int, job_id: str = "") -> None:
        """Let the scheduler look at this job again at this steady time; without one, at what is in the outbox."""
        self.pending = self.pending.with_alarm(steady, job_id)

    def send(self, command: Command) -> None:
        """Put a command into the outbox of another party."""
        trace = command.trace or self.trace(command.job_id)
        salt = self.context.fresh_salt() if self.context.keeps_record else command.salt
        command = changed(command, trace=trace, salt=salt)
        if self.context.keeps_record:
            self.pending = self.pending.with_recorded(of_sent(command, self.now))
        stored = changed(command, id=self.tx.put_command(command, self.now, self.steady))
        self.pending = self.pending.with_outgoing([stored])

    def trace(self, job_id: str) -> str:
        """Return the id of the trace of a job; empty if it has none, or is not here."""
        return trace_of(self.context, self.tx, job_id)

    def why_no_engine(self, name: str) -> str:
        """Return why nothing runs on this engine, and nothing is known of its workers, because the configuration does
        not have it, and what to do; empty if it has it."""
        return "" if name in self.context.engines else why_absent(name, self.tx.engine(name))

    def spec(self, job_id: str) -> JobSpec | None:
        """Return the parsed document of the job; None if the job is unknown. A process parses each document once.

        Raises OperationFailed if the rows of the job have another document than its binding."""
        binding = self.binding(job_id)
        if binding is None:
            return None
        specs = self.context.specs
        if binding.digest not in specs:
            document = self.tx.document(job_id)
            if document is None:
                return None
            digest = digest_of(document)
            if digest != binding.digest:
                # Without a lock, another process may have revised the document between the two reads.
                self.forget_binding(job_id)
                binding = self.binding(job_id)
            if binding is None or digest != binding.digest:
                raise OperationFailed(f"job {job_id}: its rows have another document than it is bound to")
            if len(specs) >= _SPECS_KEPT:
                del specs[next(iter(specs))]
            specs[digest] = self.context.accepted.get(digest) or parse_document(self.context, document.content)
        return specs[binding.digest]

    def parsed(self, document: JobDocument, digest: str) -> JobSpec:
        """Return what a received document with this digest says, without parsing it again if this was done before this
        transaction, or when its job was accepted. Raises BadDocument with the path of the offending key."""
        known = self.read_early.get(key_of_received(document, digest)) or self.context.accepted.get(digest)
        return known or parse_document(self.context, document)

    def grants(self, party_id: str) -> Grants:
        """Return what jobs of this party may use here. They are read once: what asks for them does not change them."""
        found = self._grants.get(party_id)
        if found is None:
            found = self._grants[party_id] = self.tx.grants(party_id)
        return found

    def binding(self, job_id: str, *, has_rows: bool = True) -> JobBinding | None:
        """Return what the job id is bound to here; None if it is not bound. `has_rows`: False if no row of it is here,
        as the caller has read."""
        known = self.pending.bindings.get(job_id)
        if known is not None:
            return known
        found = self.tx.binding(job_id) or (self._binding_of_rows(job_id) if has_rows else None)
        if found is not None:
            self.pending = self.pending.with_binding(found)
        return found

    def forget_binding(self, job_id: str) -> None:
        """It may have changed, or gone: it is read again."""
        self.pending = self.pending.without_binding(job_id)

    def _binding_of_rows(self, job_id: str) -> JobBinding | None:
        """Derive the binding of a job that was created by a release without stored bindings."""
        rows = self.tx.jobs_here(job_id)
        document = self.tx.document(job_id) if rows else None
        if document is None:
            return None
        return replace(binding_of(rows[0]), digest=digest_of(document))

    def bind(self, binding: JobBinding) -> bool:
        """Bind a job id; False if another process has bound it meanwhile."""
        if not self.tx.bind(binding):
            return False
        self.pending = self.pending.with_bound(binding)
        return True

    def rebind(self, old: JobBinding, digest: str, revision: int) -> bool:
        """Bind the job to another document; False if `old` is no longer its binding."""
        new = replace(old, digest=digest, revision=revision)
        done = self.tx.rebind(old, digest, revision) or (self.tx.binding(old.job_id) is None and self.tx.bind(new))
        if done:
            self.pending = self.pending.with_binding(new)
        return done


def binding_of(job: Job) -> JobBinding:
    """Return the binding of this row's job, without the digest. A row exists only for a bound job, and initiator and
    parties never change."""
    return JobBinding(job.job_id, job.initiator, frozenset(job.parties), "", job.revision)


@contextmanager
def unit_of_work(
    context: Context, is_careful: bool = False, steady: int | None = None,
    committed: Callable[[UnitOfWork], None] | None = None,
) -> Iterator[UnitOfWork]:  # fmt: skip
    """Run the block in a transaction, commit, then run the effects. If the block raises, do neither.

    `committed` tells others of the commit. It is called before the effects, which take this process time."""
    begin, traces = time.monotonic_ns(), dict[str, str]()
    with context.timed(WRITE), context.store.transaction() as tx:
        unit = UnitOfWork(context, tx, context.clock(), is_careful=is_careful, known_steady=steady)
        yield unit
        tx.add_entries(unit.pending.moved)
        if context.keeps_record:
            moves = of_moves(unit.pending.moved, context.fresh_salt, unit.trace)
            tx.add_to_record((*unit.pending.recorded, *moves))
        if context.subscribers.are_some:
            notify_of_moves(context, tx, unit.pending.moved, unit.now)
        if context.spans.is_on:
            traces = {job_id: unit.trace(job_id) for job_id in jobs_of(unit.pending)}
    try:
        if committed is not None:
            committed(unit)
    finally:
        context.record.flush()
        count_pending(context.measures, unit.pending, context.party_id)
        if traces:
            begun = unit.now * 1_000_000
            ended = begun + time.monotonic_ns() - begin
            add_spans(context.spans, unit.pending, traces, context.party_id, begun, ended)
        if unit.pending.effects:
            context.carry_out([partial(carry_out, context, effect) for effect in unit.pending.effects])
