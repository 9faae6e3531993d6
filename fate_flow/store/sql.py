"""The store on SQLite and MySQL, through peewee.

Guards stand in the `WHERE`: a compare-and-set that matches no row answers False. Only this file (and its twin
`memory.py`) writes a status, and every status write passes `check_move` first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import peewee
from peewee import Case, Database, Value, fn

from fate_flow.core.actions import MoveJob, MoveTask
from fate_flow.core.approval import Approval, Consent
from fate_flow.core.errors import CommitUnknown, StorageFailed, StorageUnavailable
from fate_flow.core.history import Entry
from fate_flow.core.job import (
    APART,
    Command,
    EngineState,
    Hold,
    Job,
    JobKey,
    Lack,
    Report,
    Seat,
    Task,
    TaskKey,
    Worker,
    WorkerEnd,
)
from fate_flow.core.permission import Kind, Thing
from fate_flow.core.queue import Waiting
from fate_flow.core.reasons import Reason
from fate_flow.core.site import SiteKey
from fate_flow.core.spec import Party
from fate_flow.core.status import (
    JOB_END,
    JobStatus,
    SeatStatus,
    TaskStatus,
    WorkerStatus,
    check_move,
    may_move,
)
from fate_flow.store.changes import (
    BUSY_JOBS,
    LIVE_SEATS,
    MOST_WISHES,
    OPEN_JOBS,
    SEATED,
    SUBMIT_FAILED,
    UNFINISHED_WORKERS,
    Change,
    begun_again,
    federated_moved,
    is_about,
    job_moved,
    message_with,
    newest_tasks,
    put_off,
    seat_rejoins,
    stop_requested,
    tag_of_end,
    task_moved,
    task_reported,
    told_to_stop,
    worker_moved,
)
from fate_flow.store.contract import Connector, Document, Metric, Output, Scope, Submission, TableMeta
from fate_flow.store.database import is_disk_full, is_lost, is_passing
from fate_flow.store.models import (
    MODELS,
    ConnectorRow,
    EngineRow,
    HistoryRow,
    IntakeRow,
    JobRow,
    MetricRow,
    OutboxRow,
    OutputRow,
    PeerRow,
    PermissionRow,
    SchedulerRow,
    SeatRow,
    SiteKeyRow,
    StorageTableRow,
    SubmissionRow,
    SummaryRow,
    TaskRow,
    WorkerRow,
)
from fate_flow.store.prepared import Prepared, insert, words_of
from fate_flow.store.rows import (
    COMMAND_COLUMNS,
    ENTRY_COLUMNS,
    JOB_COLUMNS,
    SEAT_COLUMNS,
    TASK_COLUMNS,
    WORKER_COLUMNS,
    columns_of,
    command_of,
    date,
    entry_of,
    from_json,
    hold_columns,
    job_of,
    lack_of,
    roles_of,
    seat_of,
    task_of,
    to_json,
    with_dates,
    worker_of,
)

COMPUTING = "computing"
SCHEDULER = "dag"
INTAKE = "intake"

LogStatusWrite = Callable[[str, str, Sequence[Any]], None]
"""Called with job id, statement and parameters just before a status or field of a job or task is written."""


class SqlStore:
    """The database of one party."""

    def __init__(self, database: Database, log_write: LogStatusWrite | None = None) -> None:
        self.database = database
        self._log_write = log_write
        database.bind(MODELS)

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        """Commits at the end, rolls back on an exception. Raises StorageFailed when the database refuses."""
        self._check_is_bound()
        unit = SqlTransaction(self.database, self._log_write)
        before = sys.exception()
        failed: BaseException | None = None
        commits = False
        try:
            with self._atomic():
                try:
                    yield unit
                    unit.check_is_whole()
                except BaseException as error:
                    failed = error
                    raise
                commits = True
        except _REFUSALS as error:
            _drop_if_lost(self.database, error)
            if failed is not None and not isinstance(failed, _REFUSALS):
                raise failed from None      # the connection is gone, and with it whatever there was to roll back
            raise _refused(failed or _first(error, before), commits) from error

    @contextmanager
    def reading(self) -> Iterator[SqlTransaction]:
        """For reads that need no lock: each sees what is committed at its moment. Raises StorageFailed."""
        self._check_is_bound()
        with reading_refused(self.database):
            self.database.connect(reuse_if_open=True)
            yield SqlTransaction(self.database, self._log_write)

    def _check_is_bound(self) -> None:
        assert JobRow._meta.database is self.database, "a process has one database: the models are bound to it"

    def _atomic(self) -> Any:
        # IMMEDIATE takes SQLite's write lock at the start: a transaction that reads first and writes later would
        # otherwise fail with "locked" after it has already decided.
        self.database.connect(reuse_if_open=True)
        return self.database.atomic("IMMEDIATE") if self.database.is_sqlite else self.database.atomic()

    def close(self) -> None:
        """Let go of this thread's connection."""
        if not self.database.is_closed():
            self.database.close()


class SqlTransaction:
    """One unit of work; what each method promises stands in `contract.Transaction`."""

    def __init__(self, database: Database, log_write: LogStatusWrite | None) -> None:
        self._database = database
        self._log_write = log_write
        self._is_broken = False

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        point = self._database.savepoint()
        try:
            point.__enter__()
            yield
            point.commit(begin=False)
        except BaseException as error:
            self._undo(point)
            if isinstance(error, _REFUSALS):
                raise _refused(error) from error
            raise

    def _undo(self, point: Any) -> None:
        try:
            point.rollback(begin=False)
        except _REFUSALS:
            # The savepoint is gone, and with it the transaction: so ends a deadlock, a full disk, a lost connection.
            # What was written before is lost. What comes after must not be committed without it, and would be,
            # statement by statement, were there no transaction to be rolled back at the end.
            self._is_broken = True
            with suppress(*_REFUSALS):
                self._database.begin()

    def check_is_whole(self) -> None:
        """Raises StorageFailed when the database dropped the transaction and its error stopped at a savepoint."""
        if self._is_broken:
            raise StorageUnavailable("the database dropped the transaction")

    # ------------------------------------------------------------------ jobs

    def add_job(self, job: Job, document: Document) -> bool:
        return _insert_new(self._database, JobRow, _job_values(job, document), _at(job.key))

    def job(self, key: JobKey) -> Job | None:
        row = _JOB.row(self._database, key.job_id, key.party.role, key.party.party_id)
        return job_of(row) if row else None

    def job_here(self, job_id: str) -> Job | None:
        return next((job for job in self.jobs_here(job_id) if job.is_initiator), None)

    def jobs_here(self, job_id: str) -> tuple[Job, ...]:
        return tuple(job_of(row) for row in _JOBS_HERE.rows(self._database, job_id))

    def document(self, job_id: str, party: Party | None = None) -> Document | None:
        is_it = JobRow.f_job_id == job_id if party is None else _at(JobKey(job_id, party))
        row = (
            JobRow.select(
                JobRow.f_dsl, JobRow.f_runtime_conf, JobRow.f_runtime_conf_on_party, JobRow.f_name,
                JobRow.f_description, JobRow.f_tag,
            )
            .where(is_it)
            .order_by(JobRow.f_revision.desc(), JobRow.f_is_initiator.desc(), JobRow.f_role, JobRow.f_party_id)
            .tuples()
            .first()
        )  # fmt: skip
        if row is None:
            return None
        dsl, conf, on_party, name, description, tag = row
        return Document(from_json(dsl), from_json(conf), from_json(on_party), name or "", description or "", tag or "")

    def move_job(self, job: Job, move: MoveJob, at: int, caused_by: str = "") -> bool:
        check_move(job.status, move.new)
        values = with_dates(columns_of(job_moved(move, at, caused_by)))
        if move.new in JOB_END:
            values.update(f_tag=tag_of_end(job), f_elapsed=max(0, at - job.start_time) if job.start_time else None)
        return self._write(job.job_id, JobRow.update(**values).where(_as_seen(job)))

    def begin_again(self, job: Job, run: int, since: int, wait_reason: str) -> bool:
        check_move(job.status, JobStatus.WAITING)
        _count_anew()
        values = {**columns_of(begun_again(job, run, since, wait_reason)), **_NOT_BEGUN}
        return self._write(job.job_id, JobRow.update(**values).where(_as_seen(job)))

    def put_off(self, job: Job, wait_reason: str, retry_at: int) -> bool:
        values = columns_of(put_off(job, wait_reason, retry_at))
        return self._write(job.job_id, JobRow.update(**values).where(_as_seen(job)))

    def revise(self, job: Job, new: Job, document: Document) -> bool:
        values = {
            "f_runtime_conf": to_json(document.runtime_conf), "f_runtime_conf_on_party": to_json(document.on_party),
            "f_asked_cores": new.asked.cores, "f_asked_memory": new.asked.memory,
            "f_timeout_seconds": new.timeout_seconds,
            **columns_of({"revision": new.revision, "changed": new.changed}),
        }  # fmt: skip
        where = _as_seen(job) & (JobRow.f_revision == job.revision)
        return self._write(job.job_id, JobRow.update(**values).where(where))

    def revision(self, job_id: str) -> int:
        row = _REVISION.row(self._database, job_id)
        return int(row[0] or 0) if row else 0

    def all_rejoined(self, key: JobKey) -> bool:
        where = _at(key) & (JobRow.f_rerun_signal == True)  # noqa: E712
        return self._write(key.job_id, JobRow.update(f_rerun_signal=False, f_wait_reason="").where(where))

    def request_stop(
        self, key: JobKey, reason: Reason, message: str, at: int, by_user: bool, caused_by: str
    ) -> bool:
        values = columns_of(stop_requested(reason, message, by_user, caused_by))
        if by_user:
            values["f_cancel_time"] = at
        open_ = JobRow.f_status.not_in([status.value for status in JOB_END]) & JobRow.f_reason.is_null()
        return self._write(key.job_id, JobRow.update(**values).where(_at(key) & open_))

    def hurry(self, key: JobKey) -> bool:
        open_ = JobRow.f_status.not_in([status.value for status in JOB_END])
        return self._write(key.job_id, JobRow.update({JobRow.f_stop_now: True}).where(_at(key) & open_))

    def hurried(self, key: JobKey, stop_by: int) -> bool:
        values = {JobRow.f_stop_now: False, JobRow.f_stop_by: stop_by}
        return self._write(key.job_id, JobRow.update(values).where(_at(key) & (JobRow.f_stop_now == True)))  # noqa: E712

    def name_missing(self, key: JobKey, parties: tuple[str, ...]) -> bool:
        values = {**columns_of({"missing": parties}), "f_partial": bool(parties)}
        return self._write(key.job_id, JobRow.update(**values).where(_at(key)))

    def set_timers(self, key: JobKey, timers: Mapping[str, int]) -> bool:
        values = columns_of({"timers": timers})
        return self._write(key.job_id, JobRow.update(**values).where(_at(key)))

    def restart_job(self, key: JobKey) -> bool:
        values = {JobRow.f_restarting: True, JobRow.f_restarts: JobRow.f_restarts + 1}
        return self._write(key.job_id, JobRow.update(values).where(_at(key)))

    def restarted(self, key: JobKey) -> bool:
        return self._write(key.job_id, JobRow.update(f_restarting=False).where(_at(key)))

    def describe(self, key: JobKey, text: str) -> bool:
        _count_anew()        # the row of the scheduler first, as its own transactions do
        return self._write(key.job_id, JobRow.update(f_description=text).where(_at(key)))

    def job_ids(self, first: str, last: str, limit: int) -> tuple[str, ...]:
        between = (JobRow.f_job_id >= first) & (JobRow.f_job_id <= last)
        query = JobRow.select(JobRow.f_job_id).where(between).distinct().order_by(JobRow.f_job_id).limit(limit)
        return tuple(row[0] for row in query.tuples())

    def add_message(self, key: JobKey, text: str) -> bool:
        job = self.job(key)
        if job is None or text in job.message:
            return False
        message = message_with(job, text)
        return self._write(key.job_id, JobRow.update({JobRow.f_message: message}).where(_at(key)))

    def set_progress(self, key: JobKey, percent: int) -> bool:
        where = _at(key) & (JobRow.f_progress < percent)
        return self._write(key.job_id, JobRow.update({JobRow.f_progress: percent}).where(where))

    def name_unconfirmed(self, key: JobKey, party: Party) -> bool:
        job = self.job(key)
        if job is None or str(party) in job.unconfirmed:
            return False
        values = columns_of({"unconfirmed": tuple(sorted((*job.unconfirmed, str(party))))})
        return self._write(key.job_id, JobRow.update(**values).where(_at(key)))

    def begin_turn(self, key: JobKey, owner: str, at: int) -> bool:
        values = {
            JobRow.f_ready_signal: True, JobRow.f_ready_time: at, JobRow.f_ready_owner: owner,
            JobRow.f_turn: JobRow.f_turn + 1,
        }  # fmt: skip
        where = (
            _at(key) & (JobRow.f_ready_signal == False) & (JobRow.f_status == JobStatus.WAITING.value)  # noqa: E712
        )
        if not _hit(JobRow.update(values).where(where)):
            return False
        lacks = Case(SeatRow.f_lacks, [(Lack.APPROVAL.value, Lack.APPROVAL.value)], "")
        _hit(SeatRow.update(f_message="", f_free_cores=-1, f_lacks=lacks).where(SeatRow.f_job_id == key.job_id))
        return True

    def end_turn(
        self, key: JobKey, owner: str, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int,
        conflicts: int, lacks: Lack | None, rejoins: bool = False,
    ) -> bool:  # fmt: skip
        values = {
            JobRow.f_ready_signal: False, JobRow.f_ready_time: None, JobRow.f_ready_owner: "",
            JobRow.f_wait_reason: wait_reason, JobRow.f_blocked_on: blocked_on, JobRow.f_blocked_cores: blocked_cores,
            JobRow.f_retry_at: retry_at, JobRow.f_conflicts: conflicts, JobRow.f_lacks: lacks.value if lacks else "",
            JobRow.f_apart: True if lacks in APART else JobRow.f_held, JobRow.f_rerun_signal: rejoins,
        }  # fmt: skip
        where = _at(key) & (JobRow.f_ready_signal == True) & (JobRow.f_ready_owner == owner)  # noqa: E712
        return _hit(JobRow.update(values).where(where))

    def postpone(self, key: JobKey, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int) -> bool:
        values = {
            JobRow.f_wait_reason: wait_reason, JobRow.f_blocked_on: blocked_on, JobRow.f_blocked_cores: blocked_cores,
            JobRow.f_retry_at: retry_at,
        }  # fmt: skip
        where = _at(key) & (JobRow.f_ready_signal == False) & (JobRow.f_status == JobStatus.WAITING.value)  # noqa: E712
        return _hit(JobRow.update(values).where(where))

    def take_over(self, owner: str) -> tuple[str, ...]:
        signalled = (JobRow.f_ready_signal == True) & (JobRow.f_ready_owner != owner)  # noqa: E712
        ids = _job_ids(signalled)
        if ids:
            JobRow.update(f_ready_owner=owner).where(signalled).execute()
        return ids

    def jobs_in_turn(self) -> tuple[Waiting, ...]:
        return tuple(_queued_of(row) for row in _IN_TURN.rows(self._database))

    def add_entries(self, entries: Sequence[Entry]) -> None:
        for first in range(0, len(entries), _ENTRIES_AT_ONCE):
            some = entries[first : first + _ENTRIES_AT_ONCE]
            _PUT_ENTRY.insert_all(self._database, [_entry_values(one) for one in some])

    def history(self, job_id: str) -> tuple[Entry, ...]:
        return tuple(entry_of(row) for row in _HISTORY.rows(self._database, job_id))

    def forget_job(self, job_id: str) -> None:
        for model in (JobRow, SeatRow, TaskRow, WorkerRow, HistoryRow):
            model.delete().where(model.f_job_id == job_id).execute()

    def forget_seat(self, key: JobKey) -> None:
        for model in (JobRow, TaskRow, WorkerRow, HistoryRow):
            is_here = (
                (model.f_job_id == key.job_id)
                & (model.f_role == key.party.role)
                & (model.f_party_id == key.party.party_id)
            )
            model.delete().where(is_here).execute()
        if not self.jobs_here(key.job_id):
            of_no_seat = (HistoryRow.f_job_id == key.job_id) & (HistoryRow.f_role == "")
            HistoryRow.delete().where(of_no_seat).execute()

    def open_seats(self) -> tuple[JobKey, ...]:
        return tuple(JobKey(row[0], Party(row[1], row[2])) for row in _OPEN_SEATS.rows(self._database))

    def is_open(self, job_id: str) -> bool:
        is_open = _is_unfinished() | (JobRow.f_claim != "")
        rows = JobRow.select(JobRow.f_job_id).where((JobRow.f_job_id == job_id) & is_open)
        workers = WorkerRow.select(WorkerRow.f_job_id).where((WorkerRow.f_job_id == job_id) & _is_going_on())
        commands = OutboxRow.select(OutboxRow.f_job_id).where(OutboxRow.f_job_id == job_id)
        return any(query.tuples().first() for query in (rows, workers, commands))

    def ended_jobs(self, before: int, after: tuple[int, str], limit: int) -> tuple[tuple[int, str], ...]:
        at, job_id = after
        behind = (JobRow.f_end_time > at) | (JobRow.f_job_id > job_id)
        query = JobRow.select(JobRow.f_end_time, JobRow.f_job_id).where(
            (JobRow.f_end_time >= at) & (JobRow.f_end_time < before) & behind
        )
        return tuple(query.order_by(JobRow.f_end_time, JobRow.f_job_id).limit(limit).tuples())

    def end_of_newest(self, count: int) -> int:
        query = JobRow.select(JobRow.f_end_time).where(JobRow.f_end_time > 0)
        return int(query.order_by(JobRow.f_end_time.desc()).limit(1).offset(count - 1).scalar() or 0)

    def forget_ended(self, job_id: str) -> bool:
        if self.is_open(job_id):
            return False
        is_its, ends = JobRow.f_job_id == job_id, [status.value for status in JOB_END]
        with self._database.savepoint() as everything:
            _hit(JobRow.delete().where(is_its & JobRow.f_status.in_(ends) & (JobRow.f_claim == "")))
            if JobRow.select(JobRow.f_job_id).where(is_its).tuples().first():
                everything.rollback()       # begun again since it was looked at (MySQL only)
                return False
            for model in (SeatRow, TaskRow, WorkerRow, HistoryRow, OutputRow, MetricRow, SummaryRow, SubmissionRow):
                model.delete().where(model.f_job_id == job_id).execute()
            _count_anew()
        return True

    def unfinished_jobs(self) -> tuple[Job, ...]:
        rows = _BUSY_JOBS.rows(self._database) + _HOLDING_JOBS.rows(self._database)
        return tuple(job_of(row) for row in rows)

    def jobs_to_forget(self) -> tuple[str, ...]:
        return tuple(row[0] for row in _REFUSED_SUBMITS.rows(self._database))

    def last_create_time(self) -> int:
        return int(JobRow.select(fn.MAX(JobRow.f_create_time)).scalar() or 0)

    # ------------------------------------------------------------------ the queue

    def unblocked_waiting(self, limit: int) -> tuple[Waiting, ...]:
        return tuple(_queued_of(row) for row in _UNBLOCKED.rows(self._database)[:limit])

    def queue_heads(self) -> tuple[Waiting, ...]:
        heads = (_HEAD.row(self._database, row[0]) for row in _BLOCKING_PARTIES.rows(self._database))
        return tuple(_queued_of(row) for row in heads if row)

    def waiting_apart(self, until: int, limit: int) -> tuple[Waiting, ...]:
        waits = (JobRow.f_held == False) & (JobRow.f_ready_signal == False)  # noqa: E712
        is_due = JobRow.f_lacks.in_([lack.value for lack in APART]) & (JobRow.f_retry_at <= until)
        query = _queued_rows().where(waiting_here() & waits & is_due).order_by(JobRow.f_retry_at, *IN_QUEUE)
        return tuple(_queued_of(row) for row in query.limit(limit).tuples())

    def blocked_waiting(self, party_id: str, at_most_cores: int, limit: int) -> tuple[Waiting, ...]:
        fits = (JobRow.f_blocked_on == party_id) & (JobRow.f_blocked_cores <= at_most_cores)
        return _queued(fits & (JobRow.f_ready_signal == False), limit)  # noqa: E712

    def waiting(self, job_id: str) -> Waiting | None:
        is_idle = (JobRow.f_ready_signal == False) & (JobRow.f_rerun_signal == False)  # noqa: E712
        return next(iter(_queued((JobRow.f_job_id == job_id) & is_idle, 1)), None)

    def count_pass(self, job_id: str) -> None:
        waits = waiting_here() & (JobRow.f_job_id == job_id)
        _hit(JobRow.update(f_passes=JobRow.f_passes + 1).where(waits))

    def place_in_queue(self, job: Job) -> int:
        key, created, job_id = job.order
        earlier = (JobRow.f_create_time < created) | ((JobRow.f_create_time == created) & (JobRow.f_job_id < job_id))
        # The first half is for the index.
        before = (JobRow.f_queue_key <= key) & ((JobRow.f_queue_key < key) | earlier)
        return int(JobRow.select().where(waiting_here() & before).count()) + 1

    def waiting_jobs(self) -> tuple[Job, ...]:
        return tuple(sorted(_jobs(waiting_here()), key=lambda job: job.order))

    def overdue_waiting(self, steady: int) -> tuple[Job, ...]:
        lasted = steady - JobRow.f_since
        is_over = (JobRow.f_timeout_seconds > 0) & (JobRow.f_timeout_seconds * 1000 < lasted)
        is_free = (JobRow.f_held == False) & JobRow.f_reason.is_null()  # noqa: E712
        return tuple(sorted(_jobs(waiting_here() & is_over & is_free), key=lambda job: job.order))

    def hold_job(self, key: JobKey, hold: Hold) -> bool:
        waits = _at(key) & (JobRow.f_status == JobStatus.WAITING.value)
        return _hit(JobRow.update(**hold_columns(hold)).where(waits))

    def release_job(self, key: JobKey, steady: int) -> bool:
        held = _at(key) & (JobRow.f_held == True)  # noqa: E712
        lasted = steady - JobRow.f_hold_since
        values = {
            **hold_columns(None), "f_since": JobRow.f_since + lasted, "f_queued": JobRow.f_queued + lasted,
            "f_apart": Case(None, [(JobRow.f_lacks.in_([lack.value for lack in APART]), True)], False),
        }  # fmt: skip
        return _hit(JobRow.update(**values).where(held))

    def decide_consent(self, key: JobKey, consent: Consent) -> bool:
        values = {
            "f_approval": consent.approval.value, "f_approval_by": consent.by, "f_approval_message": consent.message,
            "f_approval_time": consent.time,
        }  # fmt: skip
        is_asked = _at(key) & (JobRow.f_approval != "") & (JobRow.f_claim == "")
        runs = JobRow.f_status.in_([JobStatus.RUNNING.value, JobStatus.STOPPING.value])
        return _hit(JobRow.update(**values).where(is_asked & ~runs))

    def unapproved_jobs(self, limit: int) -> tuple[Job, ...]:
        return tuple(job_of(row) for row in _UNAPPROVED.rows(self._database)[:limit])

    def ask_again(self, job_id: str) -> bool:
        is_free = (JobRow.f_ready_signal == False) & (JobRow.f_rerun_signal == False)  # noqa: E712
        return _hit(JobRow.update(f_retry_at=0).where(waiting_here() & (JobRow.f_job_id == job_id) & is_free))

    def others_waiting(self) -> tuple[Job, ...]:
        theirs = (
            (JobRow.f_is_initiator == False) & (JobRow.f_status == JobStatus.WAITING.value)  # noqa: E712
        )
        first = JobRow.select(fn.MIN(JobRow.f_job_id)).where(theirs).group_by(JobRow.f_initiator_party_id)
        return _jobs(theirs & JobRow.f_job_id.in_([row[0] for row in first.tuples()]))

    def intake_hold(self) -> Hold | None:
        row = _INTAKE.row(self._database, INTAKE)
        return Hold(row[0] or "", *row[1:]) if row else None

    def hold_intake(self, hold: Hold) -> None:
        self.release_intake()
        IntakeRow.insert(
            f_name=INTAKE, f_message=hold.message, f_by=hold.by, f_time=hold.time, f_since=hold.since
        ).execute()

    def release_intake(self) -> bool:
        return _hit(IntakeRow.delete().where(IntakeRow.f_name == INTAKE))

    def grant(self, party_id: str, things: Iterable[Thing]) -> None:
        for thing in things:
            values = {
                "f_party_id": party_id, "f_kind": thing.kind.value, "f_namespace": thing.namespace,
                "f_name": thing.name,
            }  # fmt: skip
            _insert_new(self._database, PermissionRow, values, _permission_is(party_id, thing))

    def revoke(self, party_id: str, things: Iterable[Thing]) -> None:
        for thing in things:
            _hit(PermissionRow.delete().where(_permission_is(party_id, thing)))

    def granted(self, party_id: str) -> frozenset[Thing]:
        row = PermissionRow
        found = row.select(row.f_kind, row.f_name, row.f_namespace).where(row.f_party_id == party_id).tuples()
        return frozenset(Thing(Kind(kind), name, namespace) for kind, name, namespace in found)

    def site_key(self, party_id: str) -> SiteKey | None:
        row = SiteKeyRow
        found = row.select(row.f_key_id, row.f_key).where(_key_of(party_id)).tuples().first()
        return SiteKey(party_id, *found) if found else None

    def add_site_key(self, key: SiteKey, at: int) -> bool:
        values = {"f_party_id": key.party_id, "f_key": key.pem, "f_key_id": key.key_id, "f_update_time": at}
        return _insert_new(self._database, SiteKeyRow, values, _key_of(key.party_id))

    def replace_site_key(self, key: SiteKey, old_key_id: str, at: int) -> bool:
        change = SiteKeyRow.update(f_key=key.pem, f_key_id=key.key_id, f_update_time=at)
        return _hit(change.where(_key_of(key.party_id) & (SiteKeyRow.f_key_id == old_key_id)))

    def drop_site_key(self, party_id: str) -> bool:
        return _hit(SiteKeyRow.delete().where(_key_of(party_id)))

    def set_priority(self, key: JobKey, priority: int, queue_key: int) -> bool:
        waits = _at(key) & (JobRow.f_status == JobStatus.WAITING.value)
        return _hit(JobRow.update(f_priority=priority, f_queue_key=queue_key).where(waits))

    def count_waiting(self) -> int:
        return int(JobRow.select().where(waiting_here()).count())

    def cancelled_waiting(self) -> tuple[str, ...]:
        return tuple(row[0] for row in _CANCELLED_WAITING.rows(self._database))

    # ------------------------------------------------------------------ resources

    def engine(self) -> EngineState | None:
        row = _ENGINE.row(self._database, COMPUTING)
        return EngineState(*row) if row else None

    def register_engine(self, state: EngineState, config: Mapping[str, Any], at: int) -> EngineState:
        totals = {
            "f_cores": state.cores, "f_memory": state.memory, "f_nodes": state.nodes,
            "f_engine_config": to_json(dict(config)), "f_update_time": at, "f_update_date": date(at),
        }  # fmt: skip
        while not self._set_totals(self.engine(), state, totals, at):
            pass    # another server changed the totals in between: what to add is counted from the new ones
        found = self.engine()
        assert found is not None, "just written"
        return found

    def _set_totals(
        self, old: EngineState | None, state: EngineState, totals: dict[str, Any], at: int
    ) -> bool:
        if old is None:
            row = {
                "f_engine_type": COMPUTING, "f_engine_name": state.name, "f_engine_entrance": "fate_on_standalone",
                "f_remaining_cores": state.cores, "f_remaining_memory": state.memory, "f_create_time": at,
                "f_create_date": date(at), **totals,
            }  # fmt: skip
            return _insert_new(self._database, EngineRow, row, _engine_is(state.name))
        as_read = (EngineRow.f_cores == old.cores) & (EngineRow.f_memory == old.memory)
        return _hit(
            EngineRow.update(
                f_remaining_cores=EngineRow.f_remaining_cores + (state.cores - old.cores),
                f_remaining_memory=EngineRow.f_remaining_memory + (state.memory - old.memory),
                **totals,
            ).where(_engine_is(old.name) & as_read)
        )

    def reserve(self, key: JobKey, cores: int, memory: int, token: str, turn: int, at: int) -> bool:
        engine = self.engine()
        if engine is None:
            return False
        claim = {
            JobRow.f_engine_name: engine.name, JobRow.f_engine_type: COMPUTING, JobRow.f_cores: cores,
            JobRow.f_memory: memory, JobRow.f_remaining_cores: cores, JobRow.f_remaining_memory: memory,
            JobRow.f_resource_in_use: True, JobRow.f_apply_resource_time: at, JobRow.f_claim: token,
            JobRow.f_claim_turn: turn,
        }  # fmt: skip
        free = _at(key) & (JobRow.f_resource_in_use == False)  # noqa: E712
        taken = _taking(engine.name, cores, memory)
        # The row of the job first, as in `give_back`: the other way round two of them could wait for each other.
        with self._database.savepoint() as both:
            if not _hit(JobRow.update(claim).where(free)):
                return False
            if (cores or memory) and not _hit(taken):
                both.rollback()
                return False
        return True

    def renew_claim(self, key: JobKey, turn: int) -> None:
        held = _at(key) & (JobRow.f_resource_in_use == True)  # noqa: E712
        renewed = JobRow.update(f_claim_turn=turn, f_claim_renewals=JobRow.f_claim_renewals + 1)
        _hit(renewed.where(held & (JobRow.f_claim_turn <= turn)))

    def give_back(self, key: JobKey, at_most_turn: int | None, at: int) -> bool:
        job = self.job(key)
        if job is None or not job.holds:
            return False
        where = _at(key) & (JobRow.f_claim == job.claim.token) & (JobRow.f_resource_in_use == True)  # noqa: E712
        if at_most_turn is not None:
            where &= JobRow.f_claim_turn <= at_most_turn
        if not _hit(JobRow.update({**_NO_CLAIM, JobRow.f_return_resource_time: at}).where(where)):
            return False
        _come_back(job.claim.cores, job.claim.memory)
        return True

    # ------------------------------------------------------------------ wishes

    def wish(self, key: JobKey, asked: int, order: int | None = None) -> None:
        values = {"f_wish_since": Case(JobRow.f_wish_since, [(0, asked)], JobRow.f_wish_since), "f_wish_asked": asked}
        if order is not None:
            values["f_queue_key"] = order
        _hit(JobRow.update(**values).where(_at(key)))

    def first_wish(self, asked_after: int) -> Job | None:
        row = _FIRST_WISH.row(self._database, asked_after)
        return job_of(row) if row else None

    def wishes(self, asked_after: int) -> tuple[Job, ...]:
        return tuple(job_of(row) for row in _WISHES.rows(self._database, asked_after))

    def pass_wish(self, key: JobKey) -> None:
        _hit(JobRow.update(f_wish_passes=JobRow.f_wish_passes + 1).where(_at(key)))

    def forget_wish(self, key: JobKey) -> None:
        _hit(JobRow.update(f_wish_since=0, f_wish_asked=0, f_wish_passes=0).where(_at(key)))

    # ------------------------------------------------------------------ seats

    def add_seats(self, seats: Iterable[Seat]) -> None:
        rows = [
            {
                "f_job_id": seat.job_id, "f_role": seat.party.role, "f_party_id": seat.party.party_id,
                "f_run": seat.run, "f_status": seat.status.value, "f_message": seat.message,
                "f_asked_cores": seat.asked_cores, "f_free_cores": seat.free_cores, "f_legacy": seat.legacy,
            }
            for seat in seats
        ]  # fmt: skip
        if rows:
            SeatRow.insert_many(rows).execute()

    def seats(self, job_id: str) -> tuple[Seat, ...]:
        return tuple(seat_of(row) for row in _SEATS.rows(self._database, job_id))

    def move_seat(
        self, seat: Seat, new: SeatStatus, message: str, free_cores: int = -1, lacks: Lack | None = None
    ) -> bool:
        check_move(seat.status, new)
        where = _seat_is(seat) & (SeatRow.f_status == seat.status.value)
        values = {
            SeatRow.f_status: new.value, SeatRow.f_message: message, SeatRow.f_free_cores: free_cores,
            SeatRow.f_lacks: lacks.value if lacks else "",
        }  # fmt: skip
        return _hit(SeatRow.update(values).where(where))

    def ask_for(self, seat: Seat, cores: int) -> bool:
        return _hit(SeatRow.update(f_asked_cores=cores).where(_seat_is(seat)))

    def rejoin(self, seat: Seat) -> bool:
        check_move(seat.status, SeatStatus.JOINING)
        return _hit(SeatRow.update(**columns_of(seat_rejoins(seat))).where(_seat_is(seat)))

    def lease_seat(self, seat: Seat, lease: int, renew_at: int) -> bool:
        return _hit(SeatRow.update(f_lease=lease, f_renew_at=renew_at).where(_seat_is(seat)))

    def fall_silent(self, seat: Seat, since: int, message: str) -> bool:
        where = _seat_is(seat) & (SeatRow.f_silent_since == 0)
        return _hit(SeatRow.update(f_silent_since=since, f_message=message).where(where))

    def answers_again(self, seat: Seat) -> bool:
        return _hit(SeatRow.update(f_silent_since=0, f_message="").where(_seat_is(seat)))

    def silent_seats(self) -> tuple[Seat, ...]:
        return _seats((SeatRow.f_status == SeatStatus.STARTED.value) & (SeatRow.f_silent_since > 0))

    def note_approval(self, seat: Seat, words: str) -> bool:
        return _hit(SeatRow.update(f_approval=words).where(_seat_is(seat)))

    def mark_legacy(self, seat: Seat) -> bool:
        return _hit(SeatRow.update(f_legacy=True).where(_seat_is(seat)))

    def seats_at(self, party_id: str) -> tuple[Seat, ...]:
        return _seats((SeatRow.f_party_id == party_id) & _is_live())

    def says_who(self, party_id: str) -> bool:
        is_seated = SeatRow.f_status.in_([status.value for status in SEATED])
        of_ours = (SeatRow.f_party_id == party_id) & is_seated & (SeatRow.f_legacy == False)  # noqa: E712
        return SeatRow.select(SeatRow.f_job_id).where(of_ours).limit(1).tuples().first() is not None

    def plain_seats(self) -> tuple[Seat, ...]:
        return tuple(seat_of(row) for row in _PLAIN_SEATS.rows(self._database))

    def unconfirmed_seats(self) -> tuple[Seat, ...]:
        return tuple(seat_of(row) for row in _UNCONFIRMED.rows(self._database))

    def parties_with_seats(self) -> tuple[str, ...]:
        return tuple(row[0] for row in _PARTIES_WITH_SEATS.rows(self._database))

    # ------------------------------------------------------------------ tasks

    def add_tasks(self, tasks: Iterable[Task], job: Job, document: Document) -> None:
        for task in tasks:
            _insert_new(self._database, TaskRow, _task_values(task, job, document), _is(task.key))

    def task(self, key: TaskKey) -> Task | None:
        party = key.party
        values = (key.job_id, key.task_id, key.version, party.role, party.party_id)
        row = _TASK.row(self._database, *values)
        return task_of(row) if row else None

    def tasks(self, job_id: str) -> tuple[Task, ...]:
        return newest_tasks(task_of(row) for row in _TASKS.rows(self._database, job_id))

    def stopping_tasks(self) -> tuple[Task, ...]:
        return tuple(task_of(row) for row in _STOPPING_TASKS.rows(self._database))

    def move_task(self, job_id: str, move: MoveTask, at: int) -> bool:
        check_move(move.old, move.new)
        where = (
            (TaskRow.f_job_id == job_id)
            & (TaskRow.f_task_id == f"{job_id}_{move.name}")
            & (TaskRow.f_task_version == move.version)
            & (TaskRow.f_status == move.old.value)
        )
        return self._write(job_id, TaskRow.update(**columns_of(federated_moved(move, at))).where(where))

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

    def _change_task(self, task: Task, change: Change) -> bool:
        values = with_dates(columns_of(change))
        began = change.get("start_time") or task.start_time
        if began and "end_time" in change:
            values["f_elapsed"] = max(0, change["end_time"] - began)
        return self._write(task.key.job_id, TaskRow.update(**values).where(_as_read(task)))

    def set_worker(self, key: TaskKey, worker_id: str, without: tuple[str, ...] = ()) -> bool:
        where = _is(key) & TaskRow.f_worker_id.is_null()
        known = to_json(list(without)) if without else None
        return _hit(TaskRow.update(f_worker_id=worker_id, f_without_parties=known).where(where))

    # ------------------------------------------------------------------ workers

    def add_worker(self, worker: Worker) -> None:
        key = worker.task
        row = {
            "f_worker_id": worker.worker_id, "f_worker_name": "task_executor", "f_job_id": key.job_id,
            "f_component_name": key.name, "f_task_id": key.task_id, "f_task_version": key.version,
            "f_role": key.party.role, "f_party_id": key.party.party_id, "f_status": worker.status.value,
            "f_folder": worker.folder, "f_create_time": worker.create_time, "f_since": worker.since,
            "f_slot": worker.slot, "f_rank": worker.rank, "f_attempt": worker.attempt, "f_elastic": worker.is_elastic,
            "f_cores": worker.cores, "f_memory": worker.memory,
        }  # fmt: skip
        insert(self._database, WorkerRow, row)

    def add_elastic_worker(self, worker: Worker) -> bool:
        engine = self.engine()
        if engine is None:
            return False
        if (worker.cores or worker.memory) and not _hit(_taking(engine.name, worker.cores, worker.memory)):
            return False
        self.add_worker(worker)
        return True

    def worker(self, worker_id: str) -> Worker | None:
        row = _WORKER.row(self._database, worker_id)
        return worker_of(row) if row else None

    def unfinished_workers(self) -> tuple[Worker, ...]:
        return tuple(worker_of(row) for row in _UNFINISHED_WORKERS.rows(self._database))

    def elastic_workers(self) -> tuple[Worker, ...]:
        return tuple(worker_of(row) for row in _ELASTIC_WORKERS.rows(self._database))

    def workers_of(self, job_id: str) -> tuple[Worker, ...]:
        return _workers(WorkerRow.f_job_id == job_id)

    def workers_of_task(self, key: TaskKey) -> tuple[Worker, ...]:
        return _workers(
            (WorkerRow.f_job_id == key.job_id)
            & (WorkerRow.f_component_name == key.name)
            & (WorkerRow.f_task_version == key.version)
            & (WorkerRow.f_role == key.party.role)
            & (WorkerRow.f_party_id == key.party.party_id)
        )

    def move_worker(
        self, worker: Worker, new: WorkerStatus, at: int, pid: int = 0, pid_started: int = 0,
        end: WorkerEnd | None = None,
    ) -> bool:  # fmt: skip
        check_move(worker.status, new)
        values = columns_of(worker_moved(new, at, pid, pid_started, end))
        where = (WorkerRow.f_worker_id == worker.worker_id) & (WorkerRow.f_status == worker.status.value)
        if not _hit(WorkerRow.update(**values).where(where)):
            return False
        if pid:
            _hit(TaskRow.update(f_run_pid=pid).where(_is(worker.task)))
        if new is WorkerStatus.EXITED:
            _come_back(worker.cores, worker.memory)
        return True

    def mark_stopping(self, worker_id: str, why: WorkerEnd) -> None:
        where = (WorkerRow.f_worker_id == worker_id) & _is_going_on() & (WorkerRow.f_stopping == False)  # noqa: E712
        WorkerRow.update(**columns_of(told_to_stop(why))).where(where).execute()

    # ------------------------------------------------------------------ outbox

    def put_command(self, command: Command, at: int, since: int = 0) -> int:
        return _PUT_COMMAND.insert(
            self._database, command.kind.value, command.job_id, command.to.role, command.to.party_id, command.run,
            command.task, command.version, command.argument, to_json(dict(command.body)), at, since,
        )  # fmt: skip

    def commands_after(self, command_id: int) -> tuple[Command, ...]:
        return tuple(command_of(row) for row in _COMMANDS_AFTER.rows(self._database, command_id))

    def commands_before(self, since: int) -> tuple[Command, ...]:
        return tuple(command_of(row) for row in _COMMANDS_BEFORE.rows(self._database, since))

    def take_command(self, command_id: int) -> bool:
        return _hit(OutboxRow.delete().where(OutboxRow.f_id == command_id))

    # ------------------------------------------------------------------ peers and schedulers

    def hear(self, party_id: str) -> None:
        if not _hit(PeerRow.update(f_heard=PeerRow.f_heard + 1).where(PeerRow.f_party_id == party_id)):
            PeerRow.insert(f_party_id=party_id, f_heard=1).on_conflict_ignore().execute()

    def heard(self) -> Mapping[str, int]:
        return dict(_HEARD.rows(self._database))

    def scheduler(self) -> tuple[str, int]:
        query = SchedulerRow.select(SchedulerRow.f_owner, SchedulerRow.f_counter)
        row = query.where(SchedulerRow.f_name == SCHEDULER).tuples().first()
        if row is None:
            SchedulerRow.insert(f_name=SCHEDULER, f_owner="", f_counter=0).on_conflict_ignore().execute()
            return "", 0
        return row[0], row[1]

    def depose(self, owner: str, counter: int, new_owner: str) -> bool:
        where = (
            (SchedulerRow.f_name == SCHEDULER)
            & (SchedulerRow.f_owner == owner)
            & (SchedulerRow.f_counter == counter)
        )
        return _hit(SchedulerRow.update(f_owner=new_owner, f_counter=counter + 1).where(where))

    def still_schedules(self, owner: str, steady: int) -> bool:
        where = (SchedulerRow.f_name == SCHEDULER) & (SchedulerRow.f_owner == owner)
        return _hit(SchedulerRow.update(f_counter=SchedulerRow.f_counter + 1, f_steady=steady).where(where))

    def steady(self) -> int:
        row = _STEADY.row(self._database, SCHEDULER)
        return int(row[0]) if row else 0

    def forgotten(self) -> int:
        """How often jobs were removed or have got other notes: what was counted before has changed when this has."""
        query = SchedulerRow.select(SchedulerRow.f_forgotten).where(SchedulerRow.f_name == SCHEDULER)
        return int(query.scalar() or 0)

    # ------------------------------------------------------------------ submissions

    def begin_submission(self, submission: Submission, at: int) -> Submission | None:
        this = SubmissionRow.f_request_id == submission.request_id
        row = {
            "f_request_id": submission.request_id, "f_job_id": submission.job_id, "f_digest": submission.digest,
            "f_create_time": at,
        }  # fmt: skip
        if _insert_new(self._database, SubmissionRow, row, this):
            return None
        takes_over = SubmissionRow.update(
            f_job_id=submission.job_id, f_digest=submission.digest, f_retcode=None, f_retmsg=None, f_create_time=at
        ).where(this & _WAS_REFUSED)
        return None if _hit(takes_over) else _submission(this)

    def decide_submission(self, job_id: str, retcode: int, retmsg: str) -> None:
        undecided = (SubmissionRow.f_job_id == job_id) & SubmissionRow.f_retcode.is_null()
        _hit(SubmissionRow.update(f_retcode=retcode, f_retmsg=retmsg).where(undecided))

    def forget_submission(self, job_id: str) -> None:
        was_not_accepted = SubmissionRow.f_retcode.is_null() | _WAS_REFUSED
        _hit(SubmissionRow.delete().where((SubmissionRow.f_job_id == job_id) & was_not_accepted))

    def forget_refused_submissions(self) -> None:
        _hit(SubmissionRow.delete().where(_WAS_REFUSED))

    def submission_of(self, job_id: str) -> Submission | None:
        row = _SUBMISSION_OF.row(self._database, job_id)
        return Submission(row[0], row[1], row[2], row[3], row[4] or "") if row else None

    # ------------------------------------------------------------------ results

    def save_table(self, table: TableMeta, at: int) -> None:
        self.drop_table(table.namespace, table.name)
        StorageTableRow.insert(
            f_namespace=table.namespace, f_name=table.name, f_address=table.uri, f_engine="STANDALONE",
            f_count=table.count, f_schema=to_json(dict(table.schema)), f_partitions=table.partitions,
            f_origin=table.origin, f_job_id=table.job_id, f_id_delimiter=table.id_delimiter,
            f_have_head=table.have_head, f_extend_sid=table.extend_sid, f_disable=table.is_disabled, f_create_time=at,
            f_replaced=table.replaced,
        ).execute()  # fmt: skip

    def table(self, namespace: str, name: str) -> TableMeta | None:
        row = StorageTableRow.get_or_none(_table_is(namespace, name))
        return None if row is None else _table_of(row)

    def drop_table(self, namespace: str, name: str) -> bool:
        return _hit(StorageTableRow.delete().where(_table_is(namespace, name)))

    def save_connector(self, connector: Connector, at: int) -> None:
        ConnectorRow.replace(
            f_name=connector.name, f_engine=connector.engine, f_connector_info=to_json(dict(connector.info)),
            f_create_time=at,
        ).execute()  # fmt: skip

    def connector(self, name: str) -> Connector | None:
        row = ConnectorRow.get_or_none(ConnectorRow.f_name == name)
        return None if row is None else Connector(row.f_name, row.f_engine, from_json(row.f_connector_info))

    def output_tables(self, before: int, after: tuple[int, str, str], limit: int) -> tuple[TableMeta, ...]:
        row = StorageTableRow
        at, namespace, name = after
        behind = (
            (row.f_create_time > at)
            | (row.f_namespace > namespace)
            | ((row.f_namespace == namespace) & (row.f_name > name))
        )
        aged = (row.f_create_time >= at) & (row.f_create_time < before)
        query = row.select().where((row.f_origin == "output") & aged & behind)
        by_age = query.order_by(row.f_create_time, row.f_namespace, row.f_name)
        return tuple(_table_of(one) for one in by_age.limit(limit))

    def save_outputs(self, outputs: Iterable[Output], at: int) -> None:
        for one in outputs:
            key = one.task
            OutputRow.replace(
                f_job_id=key.job_id, f_component_name=key.name, f_task_id=key.task_id, f_task_version=key.version,
                f_data_name=one.data_name, f_role=key.party.role, f_party_id=key.party.party_id,
                f_table_name=one.name, f_table_namespace=one.namespace, f_create_time=at,
            ).execute()  # fmt: skip

    def outputs(self, job_id: str, task: str, party: Party) -> tuple[Output, ...]:
        made = OutputRow.select().where(_made_by(OutputRow, job_id, task, party))
        rows = list(made.order_by(OutputRow.f_data_name))
        newest = max((row.f_task_version for row in rows), default=0)
        return tuple(
            Output(TaskKey(job_id, task, newest, party), row.f_data_name, row.f_table_namespace, row.f_table_name)
            for row in rows
            if row.f_task_version == newest
        )

    def save_metrics(self, metrics: Iterable[Metric], at: int) -> None:
        for one in metrics:
            key = one.task
            row = {
                "f_job_id": key.job_id, "f_component_name": key.name, "f_task_id": key.task_id,
                "f_task_version": key.version, "f_role": key.party.role, "f_party_id": key.party.party_id,
                "f_metric_namespace": one.namespace, "f_metric_name": one.name,
                "f_data": to_json([list(pair) for pair in one.data]), "f_meta": to_json(dict(one.meta)),
                "f_create_time": at,
            }  # fmt: skip
            insert(self._database, MetricRow, row)

    def metrics(self, job_id: str, task: str, party: Party) -> tuple[Metric, ...]:
        rows = list(MetricRow.select().where(_made_by(MetricRow, job_id, task, party)).order_by(MetricRow.f_id))
        newest = max((row.f_task_version for row in rows), default=0)
        return tuple(
            Metric(
                TaskKey(job_id, task, newest, party), row.f_metric_namespace, row.f_metric_name,
                tuple((pair[0], pair[1]) for pair in json.loads(row.f_data)), from_json(row.f_meta),
            )
            for row in rows
            if row.f_task_version == newest
        )  # fmt: skip

    def results_of(self, job_id: str) -> tuple[Output, ...]:
        row = OutputRow
        query = row.select().where(row.f_job_id == job_id)
        by_name = query.order_by(row.f_component_name, row.f_data_name, row.f_task_version, row.f_role, row.f_party_id)
        return tuple(
            Output(
                TaskKey(job_id, one.f_component_name, one.f_task_version, Party(one.f_role, one.f_party_id)),
                one.f_data_name, one.f_table_namespace, one.f_table_name,
            )
            for one in by_name
        )  # fmt: skip

    def jobs_with(self, namespace: str, name: str, limit: int) -> tuple[str, ...]:
        row = OutputRow
        is_it = (row.f_table_namespace == namespace) & (row.f_table_name == name)
        query = row.select(row.f_job_id).where(is_it).distinct().order_by(row.f_job_id.desc()).limit(limit)
        return tuple(found[0] for found in query.tuples())

    def drop_results(self, scope: Scope) -> int:
        return sum(int(model.delete().where(_in_scope(model, scope)).execute()) for model in (OutputRow, SummaryRow))

    def drop_metrics(self, scope: Scope) -> int:
        return int(MetricRow.delete().where(_in_scope(MetricRow, scope)).execute())

    def disabled_tables(self, limit: int) -> tuple[TableMeta, ...]:
        row = StorageTableRow
        query = row.select().where(row.f_disable == True).order_by(row.f_namespace, row.f_name)  # noqa: E712
        return tuple(_table_of(one) for one in query.limit(limit))

    def save_summary(self, key: TaskKey, summary: Mapping[str, Any], at: int) -> None:
        SummaryRow.replace(
            f_job_id=key.job_id, f_role=key.party.role, f_party_id=key.party.party_id, f_component_name=key.name,
            f_task_id=key.task_id, f_task_version=key.version, f_summary=to_json(dict(summary)), f_create_time=at,
        ).execute()  # fmt: skip

    def summary(self, job_id: str, task: str, party: Party) -> Mapping[str, Any] | None:
        query = SummaryRow.select(SummaryRow.f_summary).where(_made_by(SummaryRow, job_id, task, party))
        row = query.order_by(SummaryRow.f_task_version.desc()).tuples().first()
        return from_json(row[0]) if row else None

    # ------------------------------------------------------------------ writing what the sql log shows

    def _write(self, job_id: str, query: Any) -> bool:
        statement, params = words_of(query, self._database.is_sqlite)
        if self._log_write is not None:
            self._log_write(job_id, statement, params)
        return bool(self._database.execute_sql(statement, params).rowcount)


_NO_CLAIM: dict[Any, Any] = {
    JobRow.f_resource_in_use: False,
    JobRow.f_claim: "",
    JobRow.f_remaining_cores: 0,
    JobRow.f_remaining_memory: 0,
}

_NOT_BEGUN: dict[str, Any] = {
    "f_start_time": None,
    "f_start_date": None,
    "f_end_time": None,
    "f_end_date": None,
    "f_elapsed": None,
    "f_cancel_time": None,
    "f_unconfirmed_parties": None,
    "f_missing_parties": None,
    "f_partial": False,
    "f_blocked_cores": 0,
}

_REFUSALS = (peewee.DatabaseError, peewee.InterfaceError)


@contextmanager
def reading_refused(database: Database) -> Iterator[None]:
    """Around reads: what the database refuses becomes StorageFailed."""
    try:
        yield
    except _REFUSALS as error:
        _drop_if_lost(database, error)
        raise _refused(error) from error


def _first(error: BaseException, before: BaseException | None) -> BaseException:
    """What the database refused first, where the rollback that followed was refused too.

    Between two errors of peewee stands that of the driver. `before` was being handled already, and is none of them."""
    found, one = error, error.__cause__ or error.__context__
    while one is not None and one is not before:
        if isinstance(one, _REFUSALS):
            found = one
        one = one.__cause__ or one.__context__
    return found


def _drop_if_lost(database: Database, error: BaseException) -> None:
    """The next one begins on a new connection."""
    if is_lost(error) and not database.in_transaction():
        with suppress(*_REFUSALS):
            database.close()


def _refused(error: BaseException, while_committing: bool = False) -> StorageFailed:
    """What it means for who asked; `retry.py` tells what follows from it."""
    if is_disk_full(error):
        return StorageFailed(f"the disk of the database is full: {error}")
    if while_committing and is_lost(error):
        return CommitUnknown(f"the database was gone while it committed: {error}")
    if is_passing(error):
        return StorageUnavailable(f"the database did not take it: {error}")
    return StorageFailed(f"the database refused: {error}")


def _hit(query: Any) -> bool:
    database = query._database or query.model._meta.database
    statement, params = words_of(query, database.is_sqlite)
    return bool(database.execute_sql(statement, params).rowcount)


def _insert_new(database: Database, model: type[peewee.Model], values: Mapping[str, Any], there: Any) -> bool:
    """False when the row exists already."""
    try:
        insert(database, model, values)
    except peewee.IntegrityError:
        if model.select().where(there).exists():
            return False
        raise
    return True


def _at(key: JobKey) -> Any:
    return (
        (JobRow.f_job_id == key.job_id)
        & (JobRow.f_role == key.party.role)
        & (JobRow.f_party_id == key.party.party_id)
    )


_BY_AGE = (JobRow.f_create_time, JobRow.f_job_id, JobRow.f_role, JobRow.f_party_id)
IN_QUEUE = (JobRow.f_queue_key, JobRow.f_create_time, JobRow.f_job_id)
"""As `Job.order` has it."""


_JOB = Prepared(
    lambda job_id, role, party_id: JobRow.select(*JOB_COLUMNS).where(_at(JobKey(job_id, Party(role, party_id)))), 3
)
_REVISION = Prepared(lambda job_id: JobRow.select(fn.MAX(JobRow.f_revision)).where(JobRow.f_job_id == job_id), 1)
_JOBS_HERE = Prepared(
    lambda job_id: JobRow.select(*JOB_COLUMNS).where(JobRow.f_job_id == job_id).order_by(*_BY_AGE), 1
)
_SEATS = Prepared(
    lambda job_id: (
        SeatRow.select(*SEAT_COLUMNS).where(SeatRow.f_job_id == job_id).order_by(SeatRow.f_role, SeatRow.f_party_id)
    ),
    1,
)
_TASK = Prepared(
    lambda job_id, task_id, version, role, party_id: TaskRow.select(*TASK_COLUMNS).where(
        (TaskRow.f_job_id == job_id)
        & (TaskRow.f_task_id == task_id)
        & (TaskRow.f_task_version == Value(version, converter=False))
        & (TaskRow.f_role == role)
        & (TaskRow.f_party_id == party_id)
    ),
    5,
)
_TASKS = Prepared(
    lambda job_id: (
        TaskRow.select(*TASK_COLUMNS)
        .where(TaskRow.f_job_id == job_id)
        .order_by(
            TaskRow.f_create_time, TaskRow.f_task_id, TaskRow.f_task_version, TaskRow.f_role, TaskRow.f_party_id
        )
    ),
    1,
)
_STOPPING_TASKS = Prepared(
    lambda: (
        TaskRow.select(*TASK_COLUMNS)
        .where(TaskRow.f_status == TaskStatus.STOPPING.value)
        .order_by(
            TaskRow.f_create_time, TaskRow.f_job_id, TaskRow.f_task_id, TaskRow.f_task_version, TaskRow.f_role,
            TaskRow.f_party_id,
        )
    ),
    0,
)
_WORKER = Prepared(
    lambda worker_id: WorkerRow.select(*WORKER_COLUMNS).where(WorkerRow.f_worker_id == worker_id), 1
)
_ENGINE = Prepared(
    lambda engine_type: EngineRow.select(
        EngineRow.f_engine_name, EngineRow.f_cores, EngineRow.f_memory, EngineRow.f_remaining_cores,
        EngineRow.f_remaining_memory, EngineRow.f_nodes,
    ).where(EngineRow.f_engine_type == engine_type),
    1,
)  # fmt: skip


def _jobs(where: Any) -> tuple[Job, ...]:
    jobs = [job_of(row) for row in JobRow.select(*JOB_COLUMNS).where(where).tuples()]
    return tuple(sorted(jobs, key=lambda job: (job.create_time, job.key)))


def _job_ids(where: Any) -> tuple[str, ...]:
    return tuple(row[1] for row in sorted(JobRow.select(*_BY_AGE).where(where).tuples()))


def _is_unfinished() -> Any:
    return JobRow.f_status.in_([status.value for status in OPEN_JOBS])


def _is_going_on() -> Any:
    return WorkerRow.f_status.in_([status.value for status in UNFINISHED_WORKERS])


def _is_live() -> Any:
    return SeatRow.f_status.in_([status.value for status in LIVE_SEATS])


def _seats(where: Any) -> tuple[Seat, ...]:
    seats = [seat_of(row) for row in SeatRow.select(*SEAT_COLUMNS).where(where).tuples()]
    return tuple(sorted(seats, key=lambda seat: (seat.job_id, seat.party)))


def _seat_is(seat: Seat) -> Any:
    return (
        (SeatRow.f_job_id == seat.job_id)
        & (SeatRow.f_role == seat.party.role)
        & (SeatRow.f_party_id == seat.party.party_id)
        & (SeatRow.f_run == seat.run)
    )


def _workers(where: Any) -> tuple[Worker, ...]:
    workers = [worker_of(row) for row in WorkerRow.select(*WORKER_COLUMNS).where(where).tuples()]
    return tuple(sorted(workers, key=lambda worker: (worker.create_time, worker.worker_id)))


def _count_anew() -> None:
    """Lists of old jobs are others now (store/tally.py)."""
    SchedulerRow.update(f_forgotten=SchedulerRow.f_forgotten + 1).where(SchedulerRow.f_name == SCHEDULER).execute()


def _as_seen(job: Job) -> Any:
    """The row, as long as nobody has moved it since."""
    return _at(job.key) & (JobRow.f_status == job.status.value) & (JobRow.f_run == job.run)


def waiting_here() -> Any:
    """The queue of this initiator."""
    return (JobRow.f_is_initiator == True) & (JobRow.f_status == JobStatus.WAITING.value)  # noqa: E712


def _queued(where: Any, limit: int) -> tuple[Waiting, ...]:
    query = _queue_query(where).limit(limit)
    return tuple(_queued_of(row) for row in query.tuples())


def _has_turns() -> Any:
    """Of those that wait: as `Job.is_apart` tells the others."""
    return waiting_here() & (JobRow.f_apart == False)  # noqa: E712


def _queue_query(where: Any) -> Any:
    return _queued_rows().where(_has_turns() & where).order_by(*IN_QUEUE)


def _queued_rows() -> Any:
    return JobRow.select(
        JobRow.f_job_id, JobRow.f_create_time, JobRow.f_roles, JobRow.f_blocked_on, JobRow.f_blocked_cores,
        JobRow.f_retry_at, JobRow.f_passes, JobRow.f_lacks, JobRow.f_queue_key,
    )  # fmt: skip


def _queued_of(row: Any) -> Waiting:
    parties = tuple(str(one) for ids in from_json(row[2]).values() for one in ids)
    job_id, created, _, blocked_on, cores, retry_at, passes, lacks, queue_key = row
    return Waiting(job_id, created, parties, blocked_on, cores, retry_at, passes, lack_of(lacks), queue_key)


_MOST_UNBLOCKED = 256
_UNBLOCKED = Prepared(
    lambda: _queue_query(
        (JobRow.f_blocked_on == "") & (JobRow.f_ready_signal == False) & (JobRow.f_rerun_signal == False)  # noqa: E712
    ).limit(_MOST_UNBLOCKED),
    0,
)
_HEAD = Prepared(lambda party_id: _queue_query(JobRow.f_blocked_on == party_id).limit(1), 1)


def _wish_query(asked_after: str | int, limit: int) -> Any:
    return (
        JobRow.select(*JOB_COLUMNS)
        .where(
            (JobRow.f_status == JobStatus.WAITING.value)
            & (JobRow.f_wish_asked > Value(asked_after, converter=False))
            & (JobRow.f_claim == "")
        )
        .order_by(JobRow.f_wish_since, JobRow.f_job_id, JobRow.f_role)
        .limit(limit)
    )


_FIRST_WISH = Prepared(lambda asked_after: _wish_query(asked_after, 1), 1)
_WISHES = Prepared(lambda asked_after: _wish_query(asked_after, MOST_WISHES), 1)
_MOST_UNAPPROVED = 1_000
_UNAPPROVED = Prepared(
    lambda: (
        JobRow.select(*JOB_COLUMNS)
        .where((JobRow.f_approval == Approval.PENDING.value) & _is_unfinished())
        .order_by(*_BY_AGE)
        .limit(_MOST_UNAPPROVED)
    ),
    0,
)
_INTAKE = Prepared(
    lambda name: IntakeRow.select(IntakeRow.f_message, IntakeRow.f_by, IntakeRow.f_time, IntakeRow.f_since).where(
        IntakeRow.f_name == name
    ),
    1,
)
_IN_TURN = Prepared(
    lambda: _queued_rows().where(waiting_here() & (JobRow.f_ready_signal == True)).order_by(*IN_QUEUE), 0  # noqa: E712
)
_BLOCKING_PARTIES = Prepared(
    lambda: (
        JobRow.select(JobRow.f_blocked_on)
        .where(_has_turns() & (JobRow.f_blocked_on != ""))
        .distinct()
        .order_by(JobRow.f_blocked_on)
    ),
    0,
)
_CANCELLED_WAITING = Prepared(
    lambda: JobRow.select(JobRow.f_job_id).where(waiting_here() & JobRow.f_reason.is_null(False)).order_by(*_BY_AGE), 0
)
_BUSY_JOBS = Prepared(
    lambda: (
        JobRow.select(*JOB_COLUMNS)
        .where(JobRow.f_status.in_([status.value for status in BUSY_JOBS]))
        .order_by(*_BY_AGE)
    ),
    0,
)
_OPEN_SEATS = Prepared(
    lambda: (
        JobRow.select(JobRow.f_job_id, JobRow.f_role, JobRow.f_party_id).where(_is_unfinished()).order_by(*_BY_AGE)
    ),
    0,
)
_HOLDING_JOBS = Prepared(
    lambda: (
        JobRow.select(*JOB_COLUMNS)
        .where(
            (JobRow.f_status == JobStatus.WAITING.value)
            & (
                (JobRow.f_resource_in_use == True)  # noqa: E712
                | (JobRow.f_ready_signal == True)  # noqa: E712
                | (JobRow.f_rerun_signal == True)  # noqa: E712
            )
        )
        .order_by(*_BY_AGE)
    ),
    0,
)
_REFUSED_SUBMITS = Prepared(
    lambda: (
        JobRow.select(JobRow.f_job_id)
        .where(
            (JobRow.f_tag == SUBMIT_FAILED)
            & (JobRow.f_status == JobStatus.FAILED.value)
            & (JobRow.f_is_initiator == True)  # noqa: E712
        )
        .order_by(*_BY_AGE)
    ),
    0,
)
_PARTIES_WITH_SEATS = Prepared(
    lambda: SeatRow.select(SeatRow.f_party_id).where(_is_live()).distinct().order_by(SeatRow.f_party_id), 0
)
_PLAIN_SEATS = Prepared(
    lambda: (
        SeatRow.select(*SEAT_COLUMNS)
        .where(_is_live() & (SeatRow.f_legacy == True))  # noqa: E712
        .order_by(SeatRow.f_job_id, SeatRow.f_role, SeatRow.f_party_id)
    ),
    0,
)
_UNCONFIRMED = Prepared(
    lambda: (
        SeatRow.select(*SEAT_COLUMNS)
        .where(SeatRow.f_status == SeatStatus.UNCONFIRMED.value)
        .order_by(SeatRow.f_job_id, SeatRow.f_role, SeatRow.f_party_id)
    ),
    0,
)
_UNFINISHED_WORKERS = Prepared(
    lambda: (
        WorkerRow.select(*WORKER_COLUMNS)
        # Named one by one: SQLite uses no index for `<>`.
        .where(_is_going_on())
        .order_by(WorkerRow.f_create_time, WorkerRow.f_worker_id)
    ),
    0,
)
_ELASTIC_WORKERS = Prepared(
    lambda: (
        WorkerRow.select(*WORKER_COLUMNS)
        .where(_is_going_on() & (WorkerRow.f_elastic == True))  # noqa: E712
        .order_by(WorkerRow.f_create_time, WorkerRow.f_worker_id)
    ),
    0,
)
_PUT_COMMAND = Prepared(
    lambda kind, job_id, role, party_id, run, task, version, argument, body, at, since: OutboxRow.insert(
        f_kind=kind, f_job_id=job_id, f_role=role, f_party_id=party_id, f_run=Value(run, converter=False),
        f_component_name=task, f_task_version=Value(version, converter=False), f_argument=argument, f_body=body,
        f_create_time=Value(at, converter=False), f_since=Value(since, converter=False),
    ),
    11,
)  # fmt: skip
_ENTRIES_AT_ONCE = 64       # SQLite takes 32,766 values in a statement


def _entry_values(one: Entry) -> tuple[str | int, ...]:
    role, party_id = (one.party.role, one.party.party_id) if one.party else ("", "")
    return (
        one.job_id, one.level.value, role, party_id, one.task, one.version, one.old, one.new, one.reason, one.message,
        one.caused_by, one.exit_status, one.at,
    )  # fmt: skip


_PUT_ENTRY = Prepared(
    lambda job_id, level, role, party_id, task, version, old, new, reason, message, caused_by, exit_status, at: (
        HistoryRow.insert(
            f_job_id=job_id, f_level=level, f_role=role, f_party_id=party_id, f_component_name=task,
            f_task_version=Value(version, converter=False), f_old=old, f_new=new, f_reason=reason, f_message=message,
            f_caused_by=caused_by, f_exit_status=exit_status, f_time=Value(at, converter=False),
        )
    ),
    13,
)  # fmt: skip
_HISTORY = Prepared(
    lambda job_id: (
        HistoryRow.select(*ENTRY_COLUMNS).where(HistoryRow.f_job_id == job_id).order_by(HistoryRow.f_id)
    ),
    1,
)
_COMMANDS_AFTER = Prepared(
    lambda command_id: (
        OutboxRow.select(*COMMAND_COLUMNS)
        .where(OutboxRow.f_id > Value(command_id, converter=False))
        .order_by(OutboxRow.f_id)
    ),
    1,
)
_COMMANDS_BEFORE = Prepared(
    lambda since: (
        OutboxRow.select(*COMMAND_COLUMNS)
        .where(OutboxRow.f_since < Value(since, converter=False))
        .order_by(OutboxRow.f_id)
    ),
    1,
)
_SUBMISSION_OF = Prepared(
    lambda job_id: SubmissionRow.select(
        SubmissionRow.f_request_id, SubmissionRow.f_job_id, SubmissionRow.f_digest, SubmissionRow.f_retcode,
        SubmissionRow.f_retmsg,
    ).where(SubmissionRow.f_job_id == job_id),
    1,
)  # fmt: skip
_STEADY = Prepared(lambda name: SchedulerRow.select(SchedulerRow.f_steady).where(SchedulerRow.f_name == name), 1)
_HEARD = Prepared(lambda: PeerRow.select(PeerRow.f_party_id, PeerRow.f_heard), 0)


def _engine_is(name: str) -> Any:
    return (EngineRow.f_engine_type == COMPUTING) & (EngineRow.f_engine_name == name)


def _has_room(name: str, cores: int, memory: int) -> Any:
    """Only what is asked for counts: where the configuration has shrunk what is in use, less than nothing remains."""
    where = _engine_is(name)
    if cores:
        where &= EngineRow.f_remaining_cores >= cores
    if memory:
        where &= EngineRow.f_remaining_memory >= memory
    return where


def _taking(name: str, cores: int, memory: int) -> Any:
    """Takes nothing where the engine has less."""
    return EngineRow.update(
        f_remaining_cores=EngineRow.f_remaining_cores - cores,
        f_remaining_memory=EngineRow.f_remaining_memory - memory,
    ).where(_has_room(name, cores, memory))


def _come_back(cores: int, memory: int) -> None:
    if cores or memory:
        EngineRow.update(
            f_remaining_cores=EngineRow.f_remaining_cores + cores,
            f_remaining_memory=EngineRow.f_remaining_memory + memory,
        ).where(EngineRow.f_engine_type == COMPUTING).execute()


def _is(key: TaskKey) -> Any:
    return (
        (TaskRow.f_job_id == key.job_id)
        & (TaskRow.f_task_id == key.task_id)
        & (TaskRow.f_task_version == key.version)
        & (TaskRow.f_role == key.party.role)
        & (TaskRow.f_party_id == key.party.party_id)
    )


def _as_read(task: Task) -> Any:
    """The row, while it is still what was read: a late report of an older incarnation matches nothing."""
    return (
        _is(task.key)
        & (TaskRow.f_party_status == task.party_status.value)
        & (TaskRow.f_incarnation == task.incarnation)
    )


def _table_is(namespace: str, name: str) -> Any:
    return (StorageTableRow.f_namespace == namespace) & (StorageTableRow.f_name == name)


def _table_of(row: StorageTableRow) -> TableMeta:
    return TableMeta(
        row.f_namespace, row.f_name, row.f_address, row.f_count or 0, from_json(row.f_schema),
        row.f_partitions or 1, row.f_origin, row.f_job_id, row.f_id_delimiter or ",", row.f_have_head,
        row.f_disable, row.f_create_time or 0, row.f_extend_sid, row.f_replaced,
    )  # fmt: skip


def _made_by(model: Any, job_id: str, task: str, party: Party) -> Any:
    return (
        (model.f_job_id == job_id)
        & (model.f_component_name == task)
        & (model.f_role == party.role)
        & (model.f_party_id == party.party_id)
    )


_WAS_REFUSED = SubmissionRow.f_retcode != 0      # of what is not decided this is unknown, so it is not meant


def _submission(where: Any) -> Submission | None:
    row = SubmissionRow.get_or_none(where)
    if row is None:
        return None
    return Submission(row.f_request_id, row.f_job_id, row.f_digest, row.f_retcode, row.f_retmsg or "")


def _in_scope(model: Any, scope: Scope) -> Any:
    where = model.f_job_id == scope.job_id
    if scope.party is not None:
        where &= (model.f_role == scope.party.role) & (model.f_party_id == scope.party.party_id)
    return where & (model.f_component_name == scope.task) if scope.task else where


def _permission_is(party_id: str, thing: Thing) -> Any:
    row = PermissionRow
    is_thing = (row.f_kind == thing.kind.value) & (row.f_namespace == thing.namespace) & (row.f_name == thing.name)
    return (row.f_party_id == party_id) & is_thing


def _key_of(party_id: str) -> Any:
    return SiteKeyRow.f_party_id == party_id


def _job_values(job: Job, document: Document) -> dict[str, Any]:
    return {
        "f_job_id": job.job_id,
        "f_role": job.party.role,
        "f_party_id": job.party.party_id,
        "f_create_time": job.create_time,
        "f_create_date": date(job.create_time),
        "f_name": document.name,
        "f_description": document.description,
        "f_tag": document.tag,
        "f_dsl": to_json(document.dsl),
        "f_runtime_conf": to_json(document.runtime_conf),
        "f_runtime_conf_on_party": to_json(document.on_party),
        "f_roles": roles_of(job.parties),
        "f_initiator_role": job.initiator.role,
        "f_initiator_party_id": job.initiator.party_id,
        "f_status": job.status.value,
        "f_is_initiator": job.is_initiator,
        "f_run": job.run,
        "f_asked_cores": job.asked.cores,
        "f_asked_memory": job.asked.memory,
        "f_timeout_seconds": job.timeout_seconds,
        "f_legacy": job.legacy,
        "f_since": job.since,
        "f_queued": job.since,
        "f_priority": job.priority,
        "f_enqueued": job.enqueued,
        "f_queue_key": job.queue_key,
        "f_approval": job.consent.approval.value if job.consent else "",
        "f_revision": job.revision,
    }


def _task_values(task: Task, job: Job, document: Document) -> dict[str, Any]:
    key = task.key
    return {
        "f_job_id": key.job_id,
        "f_component_name": key.name,
        "f_component_module": task.module,
        "f_task_id": key.task_id,
        "f_task_version": key.version,
        "f_role": key.party.role,
        "f_party_id": key.party.party_id,
        "f_create_time": task.create_time,
        "f_create_date": date(task.create_time),
        "f_initiator_role": job.initiator.role,
        "f_initiator_party_id": job.initiator.party_id,
        "f_federated_mode": document.federated_mode,
        "f_federated_status_collect_type": document.collect_type,
        "f_status": task.status.value,
        "f_party_status": task.party_status.value,
        "f_auto_retries": task.auto_retries,
        "f_run_on_this_party": task.runs_here,
        "f_incarnation": task.incarnation,
        "f_retry_at": task.retry_at,
        "f_errors": task.tries.errors,
        "f_interruptions": task.tries.interruptions,
        "f_tried_since": task.tries.since,
    }
