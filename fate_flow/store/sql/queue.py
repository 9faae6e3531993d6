"""Waiting jobs: their order, what they wait for, and which may reserve."""

from __future__ import annotations

from typing import Any

from peewee import Case, Value, fn

from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.job import UNSCHEDULABLE, Blocker, Hold, Job, JobKey
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.queue import Waiting
from fate_flow.store.contract.changes import passed, rejoined
from fate_flow.store.database.json_text import from_json
from fate_flow.store.database.models import JobRow, SeatRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import BY_AGE, IN_QUEUE, hit, is_unfinished, job_ids_where, job_is, waiting_here
from fate_flow.store.database.rows import JOB_COLUMNS, blocker_of, job_columns, job_of
from fate_flow.store.sql.unit import SqlUnitOfWork


class Queue(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def begin_round(self, key: JobKey, owner: str, at: int) -> bool:
        values = {
            JobRow.f_ready_signal: True, JobRow.f_ready_time: at, JobRow.f_ready_owner: owner,
            JobRow.f_turn: JobRow.f_turn + 1,
        }  # fmt: skip
        where = (
            job_is(key) & (JobRow.f_ready_signal == False) & (JobRow.f_status == JobStatus.WAITING.value)  # noqa: E712
        )
        if not hit(JobRow.update(values).where(where)):
            return False
        _SEATS_OF_NEW_ROUND.run(self._database, key.job_id)
        return True

    def end_round(
        self, key: JobKey, owner: str, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int,
        conflicts: int, blocked_by: Blocker | None, rejoins: bool = False, blocked_at: str = "",
    ) -> bool:  # fmt: skip
        values = {
            JobRow.f_ready_signal: False, JobRow.f_ready_time: None, JobRow.f_ready_owner: "",
            JobRow.f_wait_reason: wait_reason, JobRow.f_blocked_on: blocked_on, JobRow.f_blocked_cores: blocked_cores,
            JobRow.f_retry_at: retry_at, JobRow.f_conflicts: conflicts, JobRow.f_blocked_at: blocked_at,
            JobRow.f_lacks: blocked_by.value if blocked_by else "",
            JobRow.f_apart: True if blocked_by in UNSCHEDULABLE else JobRow.f_held, JobRow.f_rerun_signal: rejoins,
        }  # fmt: skip
        where = job_is(key) & (JobRow.f_ready_signal == True) & (JobRow.f_ready_owner == owner)  # noqa: E712
        return hit(JobRow.update(values).where(where))

    def postpone(
        self, key: JobKey, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int, blocked_at: str = ""
    ) -> bool:  # fmt: skip
        values = {
            JobRow.f_wait_reason: wait_reason, JobRow.f_blocked_on: blocked_on, JobRow.f_blocked_cores: blocked_cores,
            JobRow.f_retry_at: retry_at, JobRow.f_blocked_at: blocked_at,
        }  # fmt: skip
        where = job_is(key) & (JobRow.f_ready_signal == False) & (JobRow.f_status == JobStatus.WAITING.value)  # noqa: E712
        return hit(JobRow.update(values).where(where))

    def take_over(self, owner: str) -> tuple[str, ...]:
        signalled = (JobRow.f_ready_signal == True) & (JobRow.f_ready_owner != owner)  # noqa: E712
        ids = job_ids_where(signalled)
        if ids:
            JobRow.update(f_ready_owner=owner).where(signalled).execute()
        return ids

    def jobs_in_round(self) -> tuple[Waiting, ...]:
        return tuple(_queued_of(row) for row in _IN_ROUND.rows(self._database))

    def unblocked_waiting(self, limit: int) -> tuple[Waiting, ...]:
        return tuple(_queued_of(row) for row in _UNBLOCKED.rows(self._database)[:limit])

    def queue_heads(self) -> tuple[Waiting, ...]:
        heads = (_HEAD.row(self._database, *place) for place in _BLOCKING_PLACES.rows(self._database))
        return tuple(_queued_of(row) for row in heads if row)

    def waiting_unschedulable(self, until: int, limit: int) -> tuple[Waiting, ...]:
        return tuple(_queued_of(row) for row in _UNSCHEDULABLE.rows(self._database, until)[:limit])

    def blocked_waiting(
        self, party_id: str, at_most_cores: int, limit: int, tag: str = ""
    ) -> tuple[Waiting, ...]:  # fmt: skip
        is_there = (JobRow.f_blocked_on == party_id) & (JobRow.f_blocked_at == tag)
        fits = is_there & (JobRow.f_blocked_cores <= at_most_cores)
        return _queued(fits & (JobRow.f_ready_signal == False), limit)  # noqa: E712

    def waiting(self, job_id: str) -> Waiting | None:
        is_idle = (JobRow.f_ready_signal == False) & (JobRow.f_rerun_signal == False)  # noqa: E712
        return next(iter(_queued((JobRow.f_job_id == job_id) & is_idle, 1)), None)

    def count_pass(self, job_id: str, by: str) -> None:
        waits = waiting_here() & (JobRow.f_job_id == job_id)
        for job in _jobs(waits):
            noted = job_columns(passed(job.passers, by))
            hit(JobRow.update(f_passes=JobRow.f_passes + 1, **noted).where(waits))

    def place_in_queue(self, job: Job) -> int:
        key, created, job_id = job.order
        earlier = (JobRow.f_create_time < created) | ((JobRow.f_create_time == created) & (JobRow.f_job_id < job_id))
        # The first half lets the database use the index.
        before = (JobRow.f_queue_key <= key) & ((JobRow.f_queue_key < key) | earlier)
        return int(JobRow.select().where(waiting_here() & before).count()) + 1

    def waiting_jobs(self) -> tuple[Job, ...]:
        return tuple(sorted(_jobs(waiting_here()), key=lambda job: job.order))

    def overdue_waiting(self, steady: int) -> tuple[Job, ...]:
        found = [job_of(row) for row in _OVERDUE.rows(self._database, steady)]
        return tuple(sorted(found, key=lambda job: job.order))

    def hold_job(self, key: JobKey, hold: Hold) -> bool:
        waits = job_is(key) & (JobRow.f_status == JobStatus.WAITING.value)
        return hit(JobRow.update(**job_columns({"hold": hold})).where(waits))

    def release_job(self, key: JobKey, steady: int) -> bool:
        held = job_is(key) & (JobRow.f_held == True)  # noqa: E712
        lasted = steady - JobRow.f_hold_since
        values = {
            **job_columns({"hold": None}), "f_since": JobRow.f_since + lasted, "f_queued": JobRow.f_queued + lasted,
            "f_apart": Case(None, [(JobRow.f_lacks.in_([blocker.value for blocker in UNSCHEDULABLE]), True)], False),
        }  # fmt: skip
        return hit(JobRow.update(**values).where(held))

    def decide_consent(self, key: JobKey, consent: Consent, known: Consent | None = None) -> bool:
        values = job_columns({"consent": consent})
        is_asked = job_is(key) & (JobRow.f_approval != "")
        runs = JobRow.f_status.in_([JobStatus.RUNNING.value, JobStatus.STOPPING.value])
        is_time = (JobRow.f_claim == "") & ~runs
        if consent.is_given or consent.is_first:
            is_time |= (JobRow.f_approval == Approval.PENDING.value) & (JobRow.f_status != JobStatus.STOPPING.value)
        if known is not None:
            is_same = (JobRow.f_approval == known.approval.value) & (JobRow.f_approval_by == known.by)
            is_asked &= is_same & (JobRow.f_approval_digest == known.digest)
        return hit(JobRow.update(**values).where(is_asked & is_time))

    def unapproved_jobs(self, limit: int) -> tuple[Job, ...]:
        return tuple(job_of(row) for row in _UNAPPROVED.rows(self._database)[:limit])

    def ask_again(self, job_id: str) -> bool:
        is_free = (JobRow.f_ready_signal == False) & (JobRow.f_rerun_signal == False)  # noqa: E712
        return hit(JobRow.update(f_retry_at=0).where(waiting_here() & (JobRow.f_job_id == job_id) & is_free))

    def others_waiting(self) -> tuple[Job, ...]:
        theirs = (
            (JobRow.f_is_initiator == False) & (JobRow.f_status == JobStatus.WAITING.value)  # noqa: E712
        )
        first = JobRow.select(fn.MIN(JobRow.f_job_id)).where(theirs).group_by(JobRow.f_initiator_party_id)
        return _jobs(theirs & JobRow.f_job_id.in_([row[0] for row in first.tuples()]))

    def set_priority(self, key: JobKey, priority: int, queue_key: int) -> bool:
        waits = job_is(key) & (JobRow.f_status == JobStatus.WAITING.value)
        return hit(JobRow.update(f_priority=priority, f_queue_key=queue_key).where(waits))

    def count_waiting(self) -> int:
        row = _COUNT_WAITING.row(self._database)
        return int(row[0]) if row else 0

    def cancelled_waiting(self) -> tuple[str, ...]:
        return tuple(row[0] for row in _CANCELLED_WAITING.rows(self._database))

    def all_rejoined(self, key: JobKey, queued: int = 0) -> bool:
        where = job_is(key) & (JobRow.f_rerun_signal == True)  # noqa: E712
        values = job_columns(rejoined(queued))
        return self._write(key.job_id, JobRow.update(**values).where(where))


def _jobs(where: Any) -> tuple[Job, ...]:
    jobs = [job_of(row) for row in JobRow.select(*JOB_COLUMNS).where(where).tuples()]
    return tuple(sorted(jobs, key=lambda job: (job.create_time, job.key)))


def _queued(where: Any, limit: int) -> tuple[Waiting, ...]:
    query = _queue_query(where).limit(limit)
    return tuple(_queued_of(row) for row in query.tuples())


def _has_rounds() -> Any:
    """Return the condition for waiting jobs that are schedulable (`Job.is_unschedulable` is false)."""
    return waiting_here() & (JobRow.f_apart == False)  # noqa: E712


def _queue_query(where: Any) -> Any:
    return _queued_rows().where(_has_rounds() & where).order_by(*IN_QUEUE)


def _queued_rows() -> Any:
    return JobRow.select(
        JobRow.f_job_id, JobRow.f_create_time, JobRow.f_roles, JobRow.f_blocked_on, JobRow.f_blocked_cores,
        JobRow.f_retry_at, JobRow.f_passes, JobRow.f_lacks, JobRow.f_queue_key, JobRow.f_blocked_at,
    )  # fmt: skip


def _queued_of(row: Any) -> Waiting:
    parties = tuple(str(one) for ids in from_json(row[2]).values() for one in ids)
    job_id, created, _, blocked_on, cores, retry_at, passes, blocked_by, queue_key, blocked_at = row
    return Waiting(
        job_id, created, parties, blocked_on, cores, retry_at, passes, blocker_of(blocked_by), queue_key, blocked_at
    )  # fmt: skip


_MOST_UNBLOCKED = 256
_SEATS_OF_NEW_ROUND = Prepared(
    lambda job_id: SeatRow.update(
        f_message="", f_free_cores=-1,
        f_lacks=Case(SeatRow.f_lacks, [(Blocker.APPROVAL.value, Blocker.APPROVAL.value)], ""),
    ).where(SeatRow.f_job_id == job_id),
    1,
)  # fmt: skip
_UNBLOCKED = Prepared(
    lambda: _queue_query(
        (JobRow.f_blocked_on == "")
        & (JobRow.f_blocked_at == "")
        & (JobRow.f_ready_signal == False)  # noqa: E712
        & (JobRow.f_rerun_signal == False)  # noqa: E712
    ).limit(_MOST_UNBLOCKED),
    0,
)
_MOST_UNSCHEDULABLE = 256


def _unschedulable(until: str) -> Any:
    waits = waiting_here() & (JobRow.f_held == False) & (JobRow.f_ready_signal == False)  # noqa: E712
    blocked_by = JobRow.f_lacks.in_([blocker.value for blocker in UNSCHEDULABLE])
    is_due = JobRow.f_retry_at <= Value(until, converter=False)
    query = _queued_rows().where(waits & blocked_by & is_due)
    return query.order_by(JobRow.f_retry_at, *IN_QUEUE).limit(_MOST_UNSCHEDULABLE)


def _overdue(steady: str) -> Any:
    is_over = JobRow.f_since + JobRow.f_timeout_seconds * 1000 < Value(steady, converter=False)
    is_free = (JobRow.f_held == False) & JobRow.f_reason.is_null()  # noqa: E712
    return JobRow.select(*JOB_COLUMNS).where(waiting_here() & (JobRow.f_timeout_seconds > 0) & is_over & is_free)


_UNSCHEDULABLE = Prepared(_unschedulable, 1)
_OVERDUE = Prepared(_overdue, 1)
_COUNT_WAITING = Prepared(lambda: JobRow.select(fn.COUNT(JobRow.f_job_id)).where(waiting_here()), 0)
_HEAD = Prepared(
    lambda party_id, tag: _queue_query((JobRow.f_blocked_on == party_id) & (JobRow.f_blocked_at == tag)).limit(1), 2
)
_MOST_UNAPPROVED = 1_000
_UNAPPROVED = Prepared(
    lambda: (
        JobRow.select(*JOB_COLUMNS)
        .where((JobRow.f_approval == Approval.PENDING.value) & is_unfinished())
        .order_by(*BY_AGE)
        .limit(_MOST_UNAPPROVED)
    ),
    0,
)
_IN_ROUND = Prepared(
    lambda: _queued_rows().where(waiting_here() & (JobRow.f_ready_signal == True)).order_by(*IN_QUEUE), 0  # noqa: E712
)
_BLOCKING_PLACES = Prepared(
    lambda: (
        JobRow.select(JobRow.f_blocked_on, JobRow.f_blocked_at)
        .where(_has_rounds() & (JobRow.f_blocked_on != ""))
        .distinct()
        .order_by(JobRow.f_blocked_on, JobRow.f_blocked_at)
    ),
    0,
)
_CANCELLED_WAITING = Prepared(
    lambda: JobRow.select(JobRow.f_job_id).where(waiting_here() & JobRow.f_reason.is_null(False)).order_by(*BY_AGE), 0
)
