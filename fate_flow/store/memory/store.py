"""The store in memory, for unit tests and the simulation: what `sql/` does, without a database.

Rows are frozen values in dictionaries, so a transaction needs no copy of them: a journal keeps what each write
replaced, and undoing is writing that back. Transactions of several threads run one after the other, as on SQLite.
Uniqueness and the CHECKs of `sql/migrations` hold here too, and bodies and documents go through JSON, so that what a
database would refuse is refused here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, TypeVar

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.access.permission import Thing
from fate_flow.core.access.site import SiteKey
from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.model.job import (
    UNSCHEDULABLE,
    Blocker,
    Claim,
    Command,
    CommandKind,
    EngineState,
    Hold,
    Job,
    JobKey,
    PendingRequest,
    Report,
    Seat,
    Task,
    TaskKey,
    Worker,
    WorkerEnd,
)
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import (
    JOB_END,
    TASK_END,
    JobStatus,
    SeatStatus,
    TaskStatus,
    WorkerStatus,
    check_move,
    may_move,
)
from fate_flow.core.planning.actions import MoveJob, MoveTask
from fate_flow.core.planning.queue import Waiting, fits
from fate_flow.store.contract.changes import (
    BUSY_JOBS,
    LIVE_SEATS,
    MOST_PENDING,
    OPEN_JOBS,
    SEATED,
    SUBMIT_FAILED,
    UNFINISHED_WORKERS,
    begun_again,
    federated_moved,
    is_about,
    is_moving,
    job_moved,
    message_with,
    new_job,
    new_seat,
    new_task,
    new_worker,
    newest_tasks,
    newest_version,
    ordered_to_stop,
    rejoined,
    requeue_job,
    seat_rejoins,
    stop_requested,
    tag_of_end,
    task_moved,
    task_reported,
    worker_moved,
)
from fate_flow.store.database.rows import from_json, to_json
from fate_flow.store.memory.bindings import MemoryBindings
from fate_flow.store.values import READ, Connector, Document, Metric, OutputTable, Scope, Submission, TableMeta

SCHEDULER = "dag"
INTAKE = "intake"

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class MemoryStore:
    """The rows of one party; they end with the process."""

    def __init__(self) -> None:
        self._rows = _Rows()
        self._lock = threading.RLock()

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        with self._lock, self._rows.journal.undone_on_error():
            yield MemoryTransaction(self._rows)

    @contextmanager
    def reading(self) -> Iterator[MemoryTransaction]:
        with self._lock:
            yield MemoryTransaction(self._rows)


class MemoryTransaction(MemoryBindings):
    """One unit of work; what each method promises stands in `contract.Transaction`."""

    def __init__(self, rows: _Rows) -> None:
        super().__init__(rows)
        self._rows = rows
        self._jobs = rows.jobs
        self._tasks = rows.tasks

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        with self._rows.journal.undone_on_error():
            yield

    # ------------------------------------------------------------------ jobs

    def add_job(self, job: Job, document: Document) -> bool:
        if job.key in self._jobs.rows:
            return False
        kept = Document(
            _json(document.dsl), _json(document.runtime_conf), _json(document.on_party), document.name,
            document.description, document.tag,
        )  # fmt: skip
        self._put(_JobRow(new_job(job), kept))
        return True

    def job(self, key: JobKey) -> Job | None:
        row = self._jobs.rows.get(key)
        return row.job if row else None

    def job_here(self, job_id: str) -> Job | None:
        return next((row.job for row in self._of_job(job_id) if row.job.is_initiator), None)

    def jobs_here(self, job_id: str) -> tuple[Job, ...]:
        return _by_age(self._of_job(job_id))

    def document(self, job_id: str, party: Party | None = None) -> Document | None:
        found = [row for row in self._of_job(job_id) if party is None or row.job.key.party == party]
        rows = sorted(found, key=_initiator_first)
        return rows[0].document if rows else None

    def revise(self, job: Job, new: Job, document: Document) -> bool:
        row = self._as_seen(job)
        if row is None or row.job.revision != job.revision:
            return False
        revised = _changed(
            row.job, asked=Claim(new.asked.cores, new.asked.memory), timeout_seconds=new.timeout_seconds,
            ttl_seconds=new.ttl_seconds, revision=new.revision, changed=new.changed,
            consent=row.job.consent or new.consent,
        )  # fmt: skip
        conf, on_party = _json(document.runtime_conf), _json(document.on_party)
        self._put(_changed(row, job=revised, document=_changed(row.document, runtime_conf=conf, on_party=on_party)))
        return True

    def _as_seen(self, job: Job) -> _JobRow | None:
        """The row, as long as nobody has moved it since."""
        row = self._jobs.rows.get(job.key)
        return row if row is not None and (row.job.status, row.job.run) == (job.status, job.run) else None

    def move_job(self, job: Job, move: MoveJob, at: int, caused_by: str = "") -> bool:
        check_move(job.status, move.new)
        row = self._as_seen(job)
        if row is None:
            return False
        row = _changed(row, job=_changed(row.job, **job_moved(move, at, caused_by)))
        if move.new in JOB_END:
            row = _changed(row, document=_changed(row.document, tag=tag_of_end(job)), has_ended=True)
        self._put(row)
        return True

    def begin_again(self, job: Job, run: int, since: int, wait_reason: str, *, is_loss: bool = False) -> bool:
        check_move(job.status, JobStatus.WAITING)
        change = begun_again(job, run, since, wait_reason, is_loss=is_loss)
        row = self._as_seen(job)
        if row is None:
            return False
        self._put(_changed(row, job=_changed(row.job, **change), blocked_cores=0, has_ended=False))
        if not is_loss:
            self._rows.failed_workers.drop_group(_BY_JOB, job.job_id)
        return True

    def requeue_job(self, job: Job, wait_reason: str, retry_at: int) -> bool:
        change = requeue_job(job, wait_reason, retry_at)
        row = self._as_seen(job)
        if row is None:
            return False
        self._change(row, **change)
        return True

    def rerun_after_end(self, job: Job) -> bool:
        row = self._jobs.rows.get(job.key)
        if row is None or row.job.status is not JobStatus.STOPPING or row.job.run != job.run:
            return False
        self._change(row, rerun_signal=True)
        return True

    def forgo_return(self, key: JobKey) -> bool:
        row = self._jobs.rows.get(key)
        is_ending = row is not None and row.job.status is JobStatus.STOPPING
        return is_ending and self._change_job(key, cancel_requested=True)

    def all_rejoined(self, key: JobKey, queued: int = 0) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or not row.job.rerun_signal:
            return False
        self._change(row, **rejoined(queued))
        return True

    def request_stop(
        self, key: JobKey, reason: Reason, message: str, at: int, by_user: bool, caused_by: str  # noqa: ARG002
    ) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.job.status in JOB_END or row.job.reason is not None:
            return False
        self._change(row, **stop_requested(reason, message, by_user, caused_by))
        return True

    def request_force_stop(self, key: JobKey) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.job.status in JOB_END:
            return False
        self._change(row, is_force_stop=True)
        return True

    def force_stop_sent(self, key: JobKey, stop_by: int) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or not row.job.is_force_stop:
            return False
        self._change(row, is_force_stop=False, stop_by=stop_by)
        return True

    def name_missing(self, key: JobKey, parties: tuple[str, ...]) -> bool:
        return self._change_job(key, missing=parties)

    def set_timers(self, key: JobKey, timers: Mapping[str, int]) -> bool:
        return self._change_job(key, timers=dict(timers))

    def restart_job(self, key: JobKey) -> bool:
        row = self._jobs.rows.get(key)
        return row is not None and self._change_job(key, is_restarting=True, restarts=row.job.restarts + 1)

    def restarted(self, key: JobKey) -> bool:
        return self._change_job(key, is_restarting=False)

    def describe(self, key: JobKey, text: str) -> bool:
        row = self._jobs.rows.get(key)
        if row is not None:
            self._put(_changed(row, document=_changed(row.document, description=text)))
        return row is not None

    def job_ids(self, first: str, last: str, limit: int) -> tuple[str, ...]:
        return tuple(sorted({key.job_id for key in self._jobs.rows if first <= key.job_id <= last}))[:limit]

    def add_message(self, key: JobKey, text: str) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or text in row.job.message:
            return False
        self._change(row, message=message_with(row.job, text))
        return True

    def set_progress(self, key: JobKey, percent: int) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.job.progress >= percent:
            return False
        self._change(row, progress=percent)
        return True

    def name_unconfirmed(self, key: JobKey, party: Party) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or str(party) in row.job.unconfirmed:
            return False
        self._change(row, unconfirmed=tuple(sorted((*row.job.unconfirmed, str(party)))))
        return True

    def begin_round(self, key: JobKey, owner: str, at: int) -> bool:  # noqa: ARG002
        row = self._jobs.rows.get(key)
        if row is None or row.has_signal or row.job.status is not JobStatus.WAITING:
            return False
        begun = _changed(row.job, ready_owner=owner, round_number=row.job.round_number + 1)
        self._put(_changed(row, job=begun, has_signal=True))
        for seat in self._rows.seats.of(_BY_JOB, key.job_id):
            blocked_by = Blocker.APPROVAL if seat.blocked_by is Blocker.APPROVAL else None
            self._rows.seats.put(_seat_key(seat), _changed(seat, message="", free_cores=-1, blocked_by=blocked_by))
        return True

    def end_round(
        self, key: JobKey, owner: str, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int,
        conflicts: int, blocked_by: Blocker | None, rejoins: bool = False,
    ) -> bool:  # fmt: skip
        row = self._jobs.rows.get(key)
        if row is None or not row.has_signal or row.job.ready_owner != owner:
            return False
        ended = _changed(
            row.job, ready_owner="", wait_reason=wait_reason, blocked_on=blocked_on, retry_at=retry_at,
            conflicts=conflicts, blocked_by=blocked_by, rerun_signal=rejoins,
        )  # fmt: skip
        self._put(_changed(row, job=ended, has_signal=False, blocked_cores=blocked_cores))
        return True

    def postpone(self, key: JobKey, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.has_signal or row.job.status is not JobStatus.WAITING:
            return False
        later = _changed(row.job, wait_reason=wait_reason, blocked_on=blocked_on, retry_at=retry_at)
        self._put(_changed(row, job=later, blocked_cores=blocked_cores))
        return True

    def take_over(self, owner: str) -> tuple[str, ...]:
        every = self._jobs.rows.values()
        signalled = [row for row in every if row.has_signal and row.job.ready_owner != owner]
        for row in signalled:
            self._change(row, ready_owner=owner)
        return _ids(signalled)

    def jobs_in_round(self) -> tuple[Waiting, ...]:
        waiting = self._waiting()
        return _queued((row for row in waiting if row.has_signal), len(waiting))

    def add_entries(self, entries: Sequence[HistoryEntry]) -> None:
        for one in entries:
            number = next(self._rows.entry_numbers)
            self._rows.history.put(number, _changed(one, number=number))

    def history(self, job_id: str) -> tuple[HistoryEntry, ...]:
        return tuple(sorted(self._rows.history.of(_BY_JOB, job_id), key=lambda one: one.number))

    def forget_job(self, job_id: str) -> None:
        self._forget_rows(job_id)
        self._rows.bindings.drop(job_id)

    def _forget_rows(self, job_id: str) -> None:
        rows = self._rows
        for table in (self._jobs, rows.seats, self._tasks, rows.workers, rows.history, rows.failed_workers):
            table.drop_group(_BY_JOB, job_id)

    def forget_seat(self, key: JobKey) -> None:
        self._jobs.drop(key)
        for task in self._tasks.of(_BY_JOB, key.job_id):
            if task.key.party == key.party:
                self._tasks.drop(task.key)
                self._rows.failed_workers.drop(task.key)
        for worker in self._rows.workers.of(_BY_JOB, key.job_id):
            if worker.task.party == key.party:
                self._rows.workers.drop(worker.worker_id)
        gone = (key.party,) if self.jobs_here(key.job_id) else (key.party, None)
        if None in gone:
            self._rows.bindings.drop(key.job_id)
        for entry in self._rows.history.of(_BY_JOB, key.job_id):
            if entry.party in gone:
                self._rows.history.drop(entry.number)

    def open_seats(self) -> tuple[JobKey, ...]:
        return tuple(job.key for job in _by_age(self._in(OPEN_JOBS)))

    def is_open(self, job_id: str) -> bool:
        rows = (row.job.status in OPEN_JOBS or row.job.holds for row in self._of_job(job_id))
        workers = (one.status in UNFINISHED_WORKERS for one in self._rows.workers.of(_BY_JOB, job_id))
        commands = (one.job_id == job_id for one in self._rows.outbox.rows.values())
        return any(rows) or any(workers) or any(commands)

    def ended_jobs(self, before: int, after: tuple[int, str], limit: int) -> tuple[tuple[int, str], ...]:
        ended = sorted((row.job.end_time, row.job.job_id) for row in self._in(JOB_END))
        return tuple(one for one in ended if after < one and one[0] < before)[:limit]

    def jobs_past_ttl(self, now: int, least: int, after: str, limit: int) -> tuple[str, ...]:
        found = {
            row.job.job_id for row in self._in(JOB_END)
            if row.job.ttl_seconds is not None and row.job.end_time + max(row.job.ttl_seconds, least) * 1_000 < now
        }  # fmt: skip
        return tuple(sorted(job_id for job_id in found if job_id > after)[:limit])

    def end_of_newest(self, count: int) -> int:
        ends = sorted((row.job.end_time for row in self._in(JOB_END)), reverse=True)
        return ends[count - 1] if len(ends) >= count else 0

    def forget_ended(self, job_id: str) -> bool:
        if self.is_open(job_id):
            return False
        self._forget_rows(job_id)
        rows = self._rows
        for table in (rows.outputs, rows.metrics, rows.summaries, rows.submissions):
            table.drop_group(_BY_JOB, job_id)
        return True

    def unfinished_jobs(self) -> tuple[Job, ...]:
        busy = [row for status in BUSY_JOBS for row in self._jobs.of(_BY_STATUS, status)]
        waiting = self._jobs.of(_BY_STATUS, JobStatus.WAITING)
        signalled = (row for row in waiting if row.job.holds or row.has_signal or row.job.rerun_signal)
        return _by_age(busy) + _by_age(signalled)

    def copies_that_run(self, initiator_id: str) -> tuple[tuple[str, int], ...]:
        running = (row.job for row in self._jobs.of(_BY_STATUS, JobStatus.RUNNING) if not row.job.is_initiator)
        return tuple(sorted((job.job_id, job.run) for job in running if job.initiator.party_id == initiator_id))

    def copies_that_wait(self, after: str, limit: int) -> tuple[str, ...]:
        waiting = (row.job for row in self._jobs.of(_BY_STATUS, JobStatus.WAITING))
        copies = {job.job_id for job in waiting if not (job.is_initiator or job.is_plain_v1) and job.job_id > after}
        return tuple(sorted(copies)[:limit])

    def jobs_to_forget(self) -> tuple[str, ...]:
        failed = self._jobs.of(_BY_STATUS, JobStatus.FAILED)
        return _ids(row for row in failed if row.job.is_initiator and row.document.tag == SUBMIT_FAILED)

    def last_create_time(self) -> int:
        return max((row.job.create_time for row in self._jobs.rows.values()), default=0)

    # ------------------------------------------------------------------ the queue

    def unblocked_waiting(self, limit: int) -> tuple[Waiting, ...]:
        rows = (row for row in self._with_rounds() if not row.job.blocked_on and not row.job.rerun_signal)
        return _queued((row for row in rows if not row.has_signal), limit)

    def queue_heads(self) -> tuple[Waiting, ...]:
        parties = sorted({row.job.blocked_on for row in self._with_rounds()} - {""})
        return tuple(head for party_id in parties for head in self._head(party_id))

    def waiting_unschedulable(self, until: int, limit: int) -> tuple[Waiting, ...]:
        unschedulable = (
            row
            for row in self._waiting()
            if row.job.blocked_by in UNSCHEDULABLE and not (row.has_signal or row.job.hold)
        )
        due = (row for row in unschedulable if row.job.retry_at <= until)
        first = sorted(due, key=lambda row: (row.job.retry_at, row.job.order))[:limit]
        return tuple(_waiting_of(row) for row in first)

    def blocked_waiting(self, party_id: str, at_most_cores: int, limit: int) -> tuple[Waiting, ...]:
        blocked = (row for row in self._with_rounds() if row.job.blocked_on == party_id and not row.has_signal)
        return _queued((row for row in blocked if row.blocked_cores <= at_most_cores), limit)

    def waiting(self, job_id: str) -> Waiting | None:
        rows = (row for row in self._with_rounds() if row.job.job_id == job_id and not row.job.rerun_signal)
        return next(iter(_queued((row for row in rows if not row.has_signal), 1)), None)

    def count_pass(self, job_id: str) -> None:
        for row in self._of_job(job_id):
            if row.job.is_initiator and row.job.status is JobStatus.WAITING:
                self._change(row, passes=row.job.passes + 1)

    def place_in_queue(self, job: Job) -> int:
        return 1 + sum(row.job.order < job.order for row in self._waiting())

    def waiting_jobs(self) -> tuple[Job, ...]:
        return tuple(row.job for row in sorted(self._waiting(), key=_order))

    def overdue_waiting(self, steady: int) -> tuple[Job, ...]:
        free = (job for job in self.waiting_jobs() if job.hold is None and job.reason is None)
        return tuple(job for job in free if 0 < job.timeout_seconds * 1000 < steady - job.since)

    def hold_job(self, key: JobKey, hold: Hold) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.job.status is not JobStatus.WAITING:
            return False
        self._change(row, hold=hold)
        return True

    def release_job(self, key: JobKey, steady: int) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.job.hold is None:
            return False
        lasted = steady - row.job.hold.since
        self._change(row, hold=None, since=row.job.since + lasted, queued=row.job.queued + lasted)
        return True

    def decide_consent(self, key: JobKey, consent: Consent) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.job.consent is None or row.job.status is JobStatus.STOPPING:
            return False
        is_anew = consent.is_given and row.job.consent.approval is Approval.PENDING
        if (row.job.holds or row.job.status is JobStatus.RUNNING) and not is_anew:
            return False
        self._change(row, consent=consent)
        return True

    def unapproved_jobs(self, limit: int) -> tuple[Job, ...]:
        jobs = _by_age(self._in(OPEN_JOBS))
        return tuple(job for job in jobs if job.consent and job.consent.approval is Approval.PENDING)[:limit]

    def ask_again(self, job_id: str) -> bool:
        waiting = (row for row in self._waiting() if row.job.job_id == job_id)
        rows = [row for row in waiting if not row.has_signal and not row.job.rerun_signal]
        for row in rows:
            self._change(row, retry_at=0)
        return bool(rows)

    def others_waiting(self) -> tuple[Job, ...]:
        theirs = [row for row in self._jobs.of(_BY_STATUS, JobStatus.WAITING) if not row.job.is_initiator]
        first: dict[str, str] = {}
        for row in theirs:
            initiator, job_id = row.job.initiator.party_id, row.job.job_id
            first[initiator] = min(job_id, first.get(initiator, job_id))
        return _by_age(row for row in theirs if row.job.job_id in first.values())

    def intake_hold(self) -> Hold | None:
        return self._rows.intake.rows.get(INTAKE)

    def hold_intake(self, hold: Hold) -> None:
        self._rows.intake.put(INTAKE, hold)

    def release_intake(self) -> bool:
        return self._rows.intake.drop(INTAKE)

    def grant(self, party_id: str, things: Iterable[Thing]) -> None:
        for thing in things:
            self._rows.permissions.put((party_id, thing), thing)

    def revoke(self, party_id: str, things: Iterable[Thing]) -> None:
        for thing in things:
            self._rows.permissions.drop((party_id, thing))

    def granted(self, party_id: str) -> frozenset[Thing]:
        return frozenset(thing for owner, thing in self._rows.permissions.rows if owner == party_id)

    def site_key(self, party_id: str) -> SiteKey | None:
        return self._rows.site_keys.rows.get(party_id)

    def add_site_key(self, key: SiteKey, at: int) -> bool:  # noqa: ARG002
        if key.party_id in self._rows.site_keys.rows:
            return False
        self._rows.site_keys.put(key.party_id, key)
        return True

    def replace_site_key(self, key: SiteKey, old_key_id: str, at: int) -> bool:  # noqa: ARG002
        old = self._rows.site_keys.rows.get(key.party_id)
        if old is None or old.key_id != old_key_id:
            return False
        self._rows.site_keys.put(key.party_id, key)
        return True

    def drop_site_key(self, party_id: str) -> bool:
        return self._rows.site_keys.drop(party_id)

    def set_priority(self, key: JobKey, priority: int, queue_key: int) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.job.status is not JobStatus.WAITING:
            return False
        self._change(row, priority=priority, queue_key=queue_key)
        return True

    def count_waiting(self) -> int:
        return len(self._waiting())

    def cancelled_waiting(self) -> tuple[str, ...]:
        return _ids(row for row in self._waiting() if row.job.reason is not None)

    # ------------------------------------------------------------------ resources

    def engine(self) -> EngineState | None:
        return next(iter(self._rows.engines.rows.values()), None)

    def register_engine(self, state: EngineState, config: Mapping[str, Any], at: int) -> EngineState:  # noqa: ARG002
        _json(config)
        old = self.engine()
        if old is None:
            new = _changed(state, remaining_cores=state.cores, remaining_memory=state.memory)
        else:
            new = EngineState(
                old.name, state.cores, state.memory, old.remaining_cores + state.cores - old.cores,
                old.remaining_memory + state.memory - old.memory, state.nodes,
            )  # fmt: skip
        self._rows.engines.put(new.name, new)
        return new

    def reserve(self, key: JobKey, cores: int, memory: int, token: str, round_number: int, at: int) -> bool:
        engine, row = self.engine(), self._jobs.rows.get(key)
        if engine is None or row is None or row.job.holds:
            return False
        _refuse("ck_job_holds", not token)
        _refuse("ck_job_final", row.job.status in JOB_END)
        if not _has_capacity(engine, cores, memory):
            return False
        claim = _changed(
            row.job.claim, cores=cores, memory=memory, token=token, round_number=round_number, taken_time=at
        )
        self._change(row, claim=claim)
        self._take(engine, cores, memory)
        return True

    def renew_claim(self, key: JobKey, round_number: int) -> None:
        row = self._jobs.rows.get(key)
        if row is not None and row.job.holds and row.job.claim.round_number <= round_number:
            renewed = _changed(row.job.claim, round_number=round_number, renewals=row.job.claim.renewals + 1)
            self._change(row, claim=renewed)

    def give_back(self, key: JobKey, at_most_round: int | None, at: int) -> bool:  # noqa: ARG002
        row = self._jobs.rows.get(key)
        if row is None or not row.job.holds:
            return False
        claim = row.job.claim
        if at_most_round is not None and claim.round_number > at_most_round:
            return False
        self._change(row, claim=_changed(claim, token=""))
        engine = self.engine()
        if engine is not None:
            self._take(engine, -claim.cores, -claim.memory)
        return True

    def _take(self, engine: EngineState, cores: int, memory: int) -> None:
        left_cores, left_memory = engine.remaining_cores - cores, engine.remaining_memory - memory
        _refuse("ck_engine_remaining", left_cores > engine.cores or left_memory > engine.memory)
        left = _changed(engine, remaining_cores=left_cores, remaining_memory=left_memory)
        self._rows.engines.put(engine.name, left)

    # ------------------------------------------------------------------ requests

    def pending(self, key: JobKey, asked: int, order: int | None = None) -> None:
        row = self._jobs.rows.get(key)
        if row is not None:
            pending, queue_key = row.job.pending, row.job.queue_key if order is None else order
            self._change(row, pending=_changed(pending, since=pending.since or asked, asked=asked), queue_key=queue_key)

    def first_pending(self, asked_after: int) -> Job | None:
        return next(iter(self.pending_requests(asked_after)), None)

    def pending_requests(self, asked_after: int) -> tuple[Job, ...]:
        waiting = (row.job for row in self._jobs.of(_BY_STATUS, JobStatus.WAITING))
        found = (job for job in waiting if job.pending.asked > asked_after and not job.holds)
        return tuple(sorted(found, key=lambda job: (job.pending.since, job.job_id, job.party.role))[:MOST_PENDING])

    def count_bypass(self, key: JobKey) -> None:
        row = self._jobs.rows.get(key)
        if row is not None:
            self._change(row, pending=_changed(row.job.pending, passes=row.job.pending.passes + 1))

    def forget_pending(self, key: JobKey) -> None:
        row = self._jobs.rows.get(key)
        if row is not None:
            self._change(row, pending=PendingRequest())

    # ------------------------------------------------------------------ seats

    def add_seats(self, seats: Iterable[Seat]) -> None:
        table, every = self._rows.seats, [new_seat(seat) for seat in seats]
        new = {_seat_key(seat): seat for seat in every}
        _refuse("PRIMARY KEY of t_seat", len(new) != len(every) or any(key in table.rows for key in new))
        for key, seat in new.items():
            table.put(key, seat)

    def seats(self, job_id: str) -> tuple[Seat, ...]:
        return tuple(sorted(self._rows.seats.of(_BY_JOB, job_id), key=_seat_key))

    def move_seat(
        self, seat: Seat, new: SeatStatus, message: str, free_cores: int = -1, blocked_by: Blocker | None = None
    ) -> bool:
        check_move(seat.status, new)
        key = _seat_key(seat)
        row = self._rows.seats.rows.get(key)
        if row is None or row.status is not seat.status or row.run != seat.run:
            return False
        self._rows.seats.put(
            key, _changed(row, status=new, message=message, free_cores=free_cores, blocked_by=blocked_by)
        )
        return True

    def ask_for(self, seat: Seat, cores: int) -> bool:
        return self._change_seat(seat, asked_cores=cores)

    def rejoin(self, seat: Seat) -> bool:
        check_move(seat.status, SeatStatus.JOINING)
        return self._change_seat(seat, **seat_rejoins(seat))

    def lease_seat(self, seat: Seat, lease: int, renew_at: int) -> bool:
        return self._change_seat(seat, lease=lease, renew_at=renew_at)

    def fall_silent(self, seat: Seat, since: int, message: str) -> bool:
        row = self._rows.seats.rows.get(_seat_key(seat))
        is_new = row is not None and not row.silent_since
        return is_new and self._change_seat(seat, silent_since=since, message=message)

    def answers_again(self, seat: Seat) -> bool:
        return self._change_seat(seat, silent_since=0, message="")

    def silent_seats(self) -> tuple[Seat, ...]:
        started = self._rows.seats.of(_BY_STATUS, SeatStatus.STARTED)
        return tuple(sorted((seat for seat in started if seat.silent_since), key=_seat_key))

    def note_approval(self, seat: Seat, text: str) -> bool:
        return self._change_seat(seat, approval=text)

    def mark_plain_v1(self, seat: Seat) -> bool:
        return self._change_seat(seat, is_plain_v1=True)

    def _change_seat(self, seat: Seat, **values: Any) -> bool:
        row = self._rows.seats.rows.get(_seat_key(seat))
        if row is None or row.run != seat.run:
            return False
        self._rows.seats.put(_seat_key(seat), _changed(row, **values))
        return True

    def seats_at(self, party_id: str) -> tuple[Seat, ...]:
        return tuple(sorted((seat for seat in self._live_seats() if seat.party.party_id == party_id), key=_seat_key))

    def says_who(self, party_id: str) -> bool:
        seats = (seat for status in SEATED for seat in self._rows.seats.of(_BY_STATUS, status))
        return any(seat.party.party_id == party_id and not seat.is_plain_v1 for seat in seats)

    def plain_v1_seats(self) -> tuple[Seat, ...]:
        return tuple(sorted((seat for seat in self._live_seats() if seat.is_plain_v1), key=_seat_key))

    def unconfirmed_seats(self) -> tuple[Seat, ...]:
        return tuple(sorted(self._rows.seats.of(_BY_STATUS, SeatStatus.UNCONFIRMED), key=_seat_key))

    def parties_with_seats(self) -> tuple[str, ...]:
        return tuple(sorted({seat.party.party_id for seat in self._live_seats()}))

    def _live_seats(self) -> list[Seat]:
        return [seat for status in LIVE_SEATS for seat in self._rows.seats.of(_BY_STATUS, status)]

    # ------------------------------------------------------------------ tasks

    def add_tasks(self, tasks: Iterable[Task], job: Job, document: Document) -> None:  # noqa: ARG002
        for task in tasks:
            if task.key not in self._tasks.rows:
                _refuse("ck_task_ended", task.party_status in TASK_END)
                _refuse("ck_task_federated_ended", task.is_final)
                self._tasks.put(task.key, new_task(task))

    def task(self, key: TaskKey) -> Task | None:
        return self._tasks.rows.get(key)

    def tasks(self, job_id: str) -> tuple[Task, ...]:
        newest = newest_tasks(self._tasks.of(_BY_JOB, job_id))
        return tuple(sorted(newest, key=lambda task: (task.create_time, task.key)))

    def stopping_tasks(self) -> tuple[Task, ...]:
        stopping = self._tasks.of(_BY_STATUS, TaskStatus.STOPPING)
        return tuple(sorted(stopping, key=lambda task: (task.create_time, task.key)))

    def jobs_with_moving_tasks(self, job_ids: Collection[str]) -> frozenset[str]:
        return frozenset(one for one in job_ids if any(map(is_moving, self._tasks.of(_BY_JOB, one))))

    def move_task(self, job_id: str, move: MoveTask, at: int) -> bool:
        check_move(move.old, move.new)
        change = federated_moved(move, at)
        rows = [
            task
            for task in self._tasks.of(_BY_JOB, job_id)
            if task.key.name == move.name and task.key.version == move.version and task.status is move.old
        ]
        for task in rows:
            new = _changed(task, **change)
            _refuse("ck_task_federated_reason", new.is_final and new.federated_reason is None)
            self._tasks.put(task.key, new)
        return bool(rows)

    def move_party_task(
        self, task: Task, new: TaskStatus, at: int, reason: Reason | None = None, message: str = "",
        target: TaskStatus | None = None, exit_code: int | None = None, caused_by: str = "",
    ) -> bool:  # fmt: skip
        check_move(task.party_status, new)
        return self._change_task(task, task_moved(new, at, reason, message, target, exit_code, caused_by))

    def take_report(self, task: Task, report: Report) -> bool:
        if not is_about(report, task) or not may_move(task.party_status, report.status):
            return False
        return self._change_task(task, task_reported(report))

    def _change_task(self, task: Task, change: Mapping[str, Any]) -> bool:
        row = self._tasks.rows.get(task.key)
        if row is None or row.party_status is not task.party_status or row.incarnation != task.incarnation:
            return False
        self._tasks.put(task.key, _changed(row, **change))
        return True

    def count_failed_workers(self, key: TaskKey, count: int) -> None:
        failed = self._rows.failed_workers
        if key in self._tasks.rows and failed.rows.get(key, (key, 0))[1] < count:
            failed.put(key, (key, count))

    def failed_workers(self, job_id: str) -> int:
        return sum(count for _, count in self._rows.failed_workers.of(_BY_JOB, job_id))

    def set_worker(self, key: TaskKey, worker_id: str, without: tuple[str, ...] = ()) -> bool:
        row = self._tasks.rows.get(key)
        if row is None or row.worker_id:
            return False
        self._tasks.put(key, _changed(row, worker_id=worker_id, without=without))
        return True

    # ------------------------------------------------------------------ workers

    def add_worker(self, worker: Worker) -> None:
        _refuse("PRIMARY KEY of t_worker", worker.worker_id in self._rows.workers.rows)
        self._rows.workers.put(worker.worker_id, new_worker(worker))

    def add_elastic_worker(self, worker: Worker) -> bool:
        engine = self.engine()
        if engine is None or not _has_capacity(engine, worker.cores, worker.memory):
            return False
        self._take(engine, worker.cores, worker.memory)
        self.add_worker(worker)
        return True

    def worker(self, worker_id: str) -> Worker | None:
        return self._rows.workers.rows.get(worker_id)

    def unfinished_workers(self) -> tuple[Worker, ...]:
        workers = self._rows.workers
        return _in_order(worker for status in UNFINISHED_WORKERS for worker in workers.of(_BY_STATUS, status))

    def elastic_workers(self) -> tuple[Worker, ...]:
        return tuple(worker for worker in self.unfinished_workers() if worker.is_elastic)

    def workers_of(self, job_id: str) -> tuple[Worker, ...]:
        return _in_order(self._rows.workers.of(_BY_JOB, job_id))

    def workers_of_task(self, key: TaskKey) -> tuple[Worker, ...]:
        return _in_order(worker for worker in self._rows.workers.of(_BY_JOB, key.job_id) if worker.task == key)

    def move_worker(
        self, worker: Worker, new: WorkerStatus, at: int, pid: int = 0, pid_started: int = 0,
        end: WorkerEnd | None = None,
    ) -> bool:  # fmt: skip
        check_move(worker.status, new)
        change = worker_moved(new, at, pid, pid_started, end)
        row = self._rows.workers.rows.get(worker.worker_id)
        if row is None or row.status is not worker.status:
            return False
        moved = _changed(row, **change)
        _refuse("ck_worker_reason", new is WorkerStatus.EXITED and not moved.caused_by)
        self._rows.workers.put(row.worker_id, moved)
        engine = self.engine()
        if new is WorkerStatus.EXITED and engine is not None and (row.cores or row.memory):
            self._take(engine, -row.cores, -row.memory)
        return True

    def mark_stopping(self, worker_id: str, why: WorkerEnd) -> None:
        row = self._rows.workers.rows.get(worker_id)
        if row is not None and row.status in UNFINISHED_WORKERS and not row.is_stopping:
            self._rows.workers.put(worker_id, _changed(row, **ordered_to_stop(why)))

    # ------------------------------------------------------------------ outbox

    def put_command(self, command: Command, at: int, since: int = 0) -> int:  # noqa: ARG002
        number = next(self._rows.command_ids)
        self._rows.outbox.put(number, _changed(command, body=_json(command.body), id=number, attempts=0, since=since))
        return number

    def commands_after(self, command_id: int) -> tuple[Command, ...]:
        outbox = self._rows.outbox.rows
        return tuple(outbox[number] for number in sorted(number for number in outbox if number > command_id))

    def commands_before(self, since: int) -> tuple[Command, ...]:
        return tuple(one for one in self.commands_after(0) if one.since < since)

    def reports_to(self, party_id: str, limit: int) -> tuple[Command, ...]:
        found = (one for one in self.commands_after(0) if one.to.party_id == party_id)
        return tuple(one for one in found if one.kind is CommandKind.REPORT)[-limit:]

    def take_command(self, command_id: int) -> bool:
        return self._rows.outbox.drop(command_id)

    # ------------------------------------------------------------------ peers and schedulers

    def record_heartbeat(self, party_id: str) -> None:
        self._rows.peers.put(party_id, self._rows.peers.rows.get(party_id, 0) + 1)

    def heartbeats(self) -> Mapping[str, int]:
        return dict(self._rows.peers.rows)

    def note_trouble(self, trouble: PeerTrouble) -> None:
        if trouble.is_over:
            self._rows.troubles.drop(trouble.party_id)
        else:
            self._rows.troubles.put(trouble.party_id, trouble)

    def peer_troubles(self) -> Mapping[str, PeerTrouble]:
        return dict(self._rows.troubles.rows)

    def forget_troubles(self) -> None:
        for party_id in tuple(self._rows.troubles.rows):
            self._rows.troubles.drop(party_id)

    def scheduler(self) -> tuple[str, int]:
        if SCHEDULER not in self._rows.schedulers.rows:
            self._rows.schedulers.put(SCHEDULER, ("", 0, 0))
        owner, counter, _ = self._rows.schedulers.rows[SCHEDULER]
        return owner, counter

    def take_scheduler_lease(self, owner: str, counter: int, new_owner: str) -> bool:
        found = self._rows.schedulers.rows.get(SCHEDULER)
        if found is None or found[:2] != (owner, counter):
            return False
        self._rows.schedulers.put(SCHEDULER, (new_owner, counter + 1, found[2]))
        return True

    def renew_scheduler_lease(self, owner: str, steady: int) -> bool:
        found = self._rows.schedulers.rows.get(SCHEDULER)
        if found is None or found[0] != owner:
            return False
        self._rows.schedulers.put(SCHEDULER, (owner, found[1] + 1, steady))
        return True

    def steady(self) -> int:
        found = self._rows.schedulers.rows.get(SCHEDULER)
        return found[2] if found else 0

    # ------------------------------------------------------------------ submissions

    def begin_submission(self, submission: Submission, at: int) -> Submission | None:  # noqa: ARG002
        table = self._rows.submissions
        known = table.rows.get(submission.request_id)
        if known is not None and not known.retcode:
            return known
        table.put(submission.request_id, Submission(submission.request_id, submission.job_id, submission.digest))
        return None

    def decide_submission(self, job_id: str, retcode: int, retmsg: str) -> None:
        table = self._rows.submissions
        for one in table.of(_BY_JOB, job_id):
            if one.retcode is None:
                table.put(one.request_id, _changed(one, retcode=retcode, retmsg=retmsg))

    def forget_submission(self, job_id: str) -> None:
        table = self._rows.submissions
        for one in table.of(_BY_JOB, job_id):
            if one.retcode != 0:
                table.drop(one.request_id)

    def forget_refused_submissions(self) -> None:
        table = self._rows.submissions
        for one in tuple(table.rows.values()):
            if one.retcode:
                table.drop(one.request_id)

    def submission_of(self, job_id: str) -> Submission | None:
        return next(iter(self._rows.submissions.of(_BY_JOB, job_id)), None)

    # ------------------------------------------------------------------ results

    def save_table(self, table: TableMeta, at: int) -> None:
        kept = _changed(
            table, schema=_json(table.schema), partitions=table.partitions or 1,
            id_delimiter=table.id_delimiter or ",", create_time=at,
        )  # fmt: skip
        self._rows.tables.put((table.namespace, table.name), kept)

    def table(self, namespace: str, name: str) -> TableMeta | None:
        return self._rows.tables.rows.get((namespace, name))

    def drop_table(self, namespace: str, name: str) -> bool:
        return self._rows.tables.drop((namespace, name))

    def save_connector(self, connector: Connector, at: int) -> None:  # noqa: ARG002  # when, SQL alone tells
        self._rows.connectors.put(connector.name, _changed(connector, info=_json(connector.info)))

    def connector(self, name: str) -> Connector | None:
        return self._rows.connectors.rows.get(name)

    def output_tables(self, before: int, after: tuple[int, str, str], limit: int) -> tuple[TableMeta, ...]:
        made = [one for one in self._rows.tables.rows.values() if one.origin == "output"]
        aged = sorted((one for one in made if after < _table_age(one) and one.create_time < before), key=_table_age)
        return tuple(aged)[:limit]

    def save_outputs(self, outputs: Iterable[OutputTable], at: int) -> None:  # noqa: ARG002
        for one in outputs:
            self._rows.outputs.put((one.task, one.data_name), one)

    def outputs(self, job_id: str, task: str, party: Party) -> tuple[OutputTable, ...]:
        rows = [row for row in self._rows.outputs.of(_BY_MAKER, (job_id, task, party)) if row.data_name != READ]
        newest = newest_version(row.task for row in rows)
        return tuple(sorted((row for row in rows if row.task.version == newest), key=lambda row: row.data_name))

    def save_metrics(self, metrics: Iterable[Metric], at: int) -> None:  # noqa: ARG002
        for one in metrics:
            pairs = from_json(to_json({"data": [list(pair) for pair in one.data]}))["data"]
            kept = _changed(one, data=tuple((pair[0], pair[1]) for pair in pairs), meta=_json(one.meta))
            number = next(self._rows.metric_ids)
            self._rows.metrics.put(number, (number, kept))

    def metrics(self, job_id: str, task: str, party: Party) -> tuple[Metric, ...]:
        rows = [row for _, row in sorted(self._rows.metrics.of(_BY_MAKER, (job_id, task, party)), key=_number)]
        newest = newest_version(row.task for row in rows)
        return tuple(row for row in rows if row.task.version == newest)

    def results_of(self, job_id: str) -> tuple[OutputTable, ...]:
        made = self._rows.outputs.of(_BY_JOB, job_id)
        return tuple(sorted(made, key=lambda one: (one.task.name, one.data_name, one.task.version, one.task.party)))

    def jobs_with(self, namespace: str, name: str, limit: int) -> tuple[str, ...]:
        every = self._rows.outputs.rows.values()
        found = {one.task.job_id for one in every if (one.namespace, one.name) == (namespace, name)}
        return tuple(sorted(found, reverse=True))[:limit]

    def drop_results(self, scope: Scope) -> int:
        rows = self._rows
        outputs = [key for key, one in rows.outputs.rows.items() if scope.has(one.task)]
        summaries = [key for key in rows.summaries.rows if scope.has(key)]
        return sum([rows.outputs.drop(key) for key in outputs] + [rows.summaries.drop(key) for key in summaries])

    def drop_metrics(self, scope: Scope) -> int:
        gone = [number for number, (_, one) in self._rows.metrics.rows.items() if scope.has(one.task)]
        return sum(self._rows.metrics.drop(number) for number in gone)

    def disabled_tables(self, limit: int) -> tuple[TableMeta, ...]:
        hidden = [one for one in self._rows.tables.rows.values() if one.is_disabled]
        return tuple(sorted(hidden, key=lambda one: (one.namespace, one.name)))[:limit]

    def save_summary(self, key: TaskKey, summary: Mapping[str, Any], at: int) -> None:  # noqa: ARG002
        self._rows.summaries.put(key, (key, _json(summary)))

    def summary(self, job_id: str, task: str, party: Party) -> Mapping[str, Any] | None:
        rows = self._rows.summaries.of(_BY_MAKER, (job_id, task, party))
        return max(rows, key=lambda row: row[0].version)[1] if rows else None

    # ------------------------------------------------------------------ rows of jobs

    def _put(self, row: _JobRow) -> None:
        is_final = row.job.status in JOB_END
        _refuse("ck_job_reason", is_final and row.job.reason is None)
        _refuse("ck_job_ended", is_final != row.has_ended)
        _refuse("ck_job_final", is_final and row.job.holds)
        self._jobs.put(row.job.key, row)

    def _change_job(self, key: JobKey, **change: Any) -> bool:
        row = self._jobs.rows.get(key)
        if row is not None:
            self._change(row, **change)
        return row is not None

    def _change(self, row: _JobRow, **change: Any) -> None:
        self._put(_changed(row, job=_changed(row.job, **change)))

    def _in(self, statuses: Iterable[JobStatus]) -> list[_JobRow]:
        return [row for status in statuses for row in self._jobs.of(_BY_STATUS, status)]

    def _of_job(self, job_id: str) -> Sequence[_JobRow]:
        return self._jobs.of(_BY_JOB, job_id)

    def _waiting(self) -> list[_JobRow]:
        return [row for row in self._jobs.of(_BY_STATUS, JobStatus.WAITING) if row.job.is_initiator]

    def _with_rounds(self) -> list[_JobRow]:
        return [row for row in self._waiting() if not row.job.is_unschedulable]

    def _head(self, party_id: str) -> tuple[Waiting, ...]:
        return _queued((row for row in self._with_rounds() if row.job.blocked_on == party_id), 1)


@dataclass(frozen=True)
class _JobRow:
    """A job and the columns of its row that `Job` does not tell."""

    job: Job
    document: Document
    has_signal: bool = False
    blocked_cores: int = 0
    has_ended: bool = False       # f_end_time is not NULL


def _initiator_first(row: _JobRow) -> tuple[bool, Party]:
    return (not row.job.is_initiator, row.job.party)


class _Journal:
    """What the writes of a transaction replaced, oldest first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._depth = 0

    def append(self, undo: Callable[[], None]) -> None:
        assert self._depth, "written outside of a transaction"
        self._undo.append(undo)

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        begin = len(self._undo)
        self._depth += 1
        try:
            yield
        except BaseException:
            while len(self._undo) > begin:
                self._undo.pop()()
            raise
        finally:
            self._depth -= 1
            if not self._depth:
                self._undo.clear()


Group = Callable[[V], Hashable]


class _Table(Generic[K, V]):
    """Rows by key, and in groups by what they are asked for."""

    def __init__(self, journal: _Journal, **groups: Group[V]) -> None:
        self.rows: dict[K, V] = {}
        self._journal = journal
        self._groups: dict[str, tuple[Group[V], dict[Hashable, dict[K, V]]]] = {
            name: (group, {}) for name, group in groups.items()
        }

    def of(self, group: str, value: Hashable) -> tuple[V, ...]:
        """In no order that means anything."""
        return tuple(self._groups[group][1].get(value, {}).values())

    def put(self, key: K, row: V) -> None:
        old = self.rows.get(key)
        self._journal.append(lambda: self._set(key, old))
        self._set(key, row)

    def drop(self, key: K) -> bool:
        old = self.rows.get(key)
        if old is None:
            return False
        self._journal.append(lambda: self._set(key, old))
        self._set(key, None)
        return True

    def drop_group(self, group: str, value: Hashable) -> None:
        for key in tuple(self._groups[group][1].get(value, {})):
            self.drop(key)

    def _set(self, key: K, row: V | None) -> None:
        old = self.rows.pop(key, None) if row is None else self.rows.get(key)
        if row is not None:
            self.rows[key] = row
        for group, members in self._groups.values():
            if old is not None and (row is None or group(old) != group(row)):
                del members[group(old)][key]
            if row is not None:
                members.setdefault(group(row), {})[key] = row


_BY_JOB = "job"
_BY_STATUS = "status"
_BY_MAKER = "maker"      # job, task and party


class _Rows:
    """All tables of one party."""

    def __init__(self) -> None:
        self.journal = journal = _Journal()
        self.command_ids = count(1)     # never used twice, also not after a rollback
        self.metric_ids = count(1)
        self.entry_numbers = count(1)
        self.jobs: _Table[JobKey, _JobRow] = _Table(
            journal, job=lambda row: row.job.job_id, status=lambda row: row.job.status
        )
        self.seats: _Table[tuple[str, Party], Seat] = _Table(
            journal, job=lambda seat: seat.job_id, status=lambda seat: seat.status
        )
        self.tasks: _Table[TaskKey, Task] = _Table(
            journal, job=lambda task: task.key.job_id, status=lambda task: task.status
        )
        self.workers: _Table[str, Worker] = _Table(
            journal, job=lambda worker: worker.task.job_id, status=lambda worker: worker.status
        )
        self.engines: _Table[str, EngineState] = _Table(journal)
        self.outbox: _Table[int, Command] = _Table(journal)
        self.history: _Table[int, HistoryEntry] = _Table(journal, job=lambda entry: entry.job_id)
        self.peers: _Table[str, int] = _Table(journal)
        self.troubles: _Table[str, PeerTrouble] = _Table(journal)
        self.intake: _Table[str, Hold] = _Table(journal)
        self.permissions: _Table[tuple[str, Thing], Thing] = _Table(journal)
        self.site_keys: _Table[str, SiteKey] = _Table(journal)
        self.schedulers: _Table[str, tuple[str, int, int]] = _Table(journal)
        self.bindings: _Table[str, JobBinding] = _Table(journal)
        self.submissions: _Table[str, Submission] = _Table(journal, job=lambda one: one.job_id)
        self.tables: _Table[tuple[str, str], TableMeta] = _Table(journal)
        self.connectors: _Table[str, Connector] = _Table(journal)
        self.outputs: _Table[tuple[TaskKey, str], OutputTable] = _Table(
            journal, maker=lambda one: _maker(one.task), job=lambda one: one.task.job_id
        )
        self.metrics: _Table[int, tuple[int, Metric]] = _Table(
            journal, maker=lambda row: _maker(row[1].task), job=lambda row: row[1].task.job_id
        )
        self.failed_workers: _Table[TaskKey, tuple[TaskKey, int]] = _Table(journal, job=lambda row: row[0].job_id)
        self.summaries: _Table[TaskKey, tuple[TaskKey, Mapping[str, Any]]] = _Table(
            journal, maker=lambda row: _maker(row[0]), job=lambda row: row[0].job_id
        )


def _changed(row: V, **change: Any) -> V:
    """A row with other values in some columns: `dataclasses.replace`, which sets each of forty columns anew, in a
    tenth of the time. For rows, which have no `__post_init__`."""
    columns = row.__dict__
    unknown = change.keys() - columns.keys()
    if unknown:
        raise TypeError(f"{type(row).__name__} has no {', '.join(sorted(unknown))}")
    new: V = object.__new__(type(row))
    new.__dict__.update(columns, **change)
    return new


def _has_capacity(engine: EngineState, cores: int, memory: int) -> bool:
    """Where the configuration has shrunk what is in use, less than nothing remains: of that, nothing may be asked."""
    return fits(Claim(cores, memory), Claim(engine.remaining_cores, engine.remaining_memory))


def _refuse(constraint: str, is_violated: bool) -> None:
    if is_violated:
        raise StorageFailed(f"the database refused: constraint failed: {constraint}")


def _json(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """As it comes back out of a database."""
    return from_json(to_json(dict(value)))


def _maker(key: TaskKey) -> tuple[str, str, Party]:
    return (key.job_id, key.name, key.party)


def _table_age(table: TableMeta) -> tuple[int, str, str]:
    return (table.create_time, table.namespace, table.name)


def _number(row: tuple[int, Metric]) -> int:
    return row[0]


def _seat_key(seat: Seat) -> tuple[str, Party]:
    return (seat.job_id, seat.party)


def _age(row: _JobRow) -> tuple[int, JobKey]:
    return (row.job.create_time, row.job.key)


def _order(row: _JobRow) -> tuple[int, int, str]:
    return row.job.order


def _by_age(rows: Iterable[_JobRow]) -> tuple[Job, ...]:
    return tuple(row.job for row in sorted(rows, key=_age))


def _ids(rows: Iterable[_JobRow]) -> tuple[str, ...]:
    return tuple(row.job.job_id for row in sorted(rows, key=_age))


def _in_order(workers: Iterable[Worker]) -> tuple[Worker, ...]:
    return tuple(sorted(workers, key=lambda worker: (worker.create_time, worker.worker_id)))


def _queued(rows: Iterable[_JobRow], limit: int) -> tuple[Waiting, ...]:
    return tuple(_waiting_of(row) for row in sorted(rows, key=_order)[:limit])


def _waiting_of(row: _JobRow) -> Waiting:
    return Waiting(
        row.job.job_id, row.job.create_time, tuple(party.party_id for party in row.job.parties),
        row.job.blocked_on, row.blocked_cores, row.job.retry_at, row.job.passes, row.job.blocked_by, row.job.queue_key,
    )  # fmt: skip
