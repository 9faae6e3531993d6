"""Waiting jobs, in memory; the counterpart of `sql/queue.py`."""

from __future__ import annotations

from collections.abc import Iterable

from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import UNSCHEDULABLE, Blocker, Hold, Job, JobKey
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.queue import Waiting
from fate_flow.store.contract.changes import OPEN_JOBS, passed, rejoined
from fate_flow.store.memory.tables import BY_JOB, BY_STATUS, JobRow, by_age, ids_by_age, seat_key
from fate_flow.store.memory.unit import MemoryUnitOfWork


class Queue(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def all_rejoined(self, key: JobKey, queued: int = 0) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or not row.job.rerun_signal:
            return False
        self._change(row, **rejoined(queued))
        return True

    def begin_round(self, key: JobKey, owner: str, at: int) -> bool:  # noqa: ARG002
        row = self._jobs.rows.get(key)
        if row is None or row.has_signal or row.job.status is not JobStatus.WAITING:
            return False
        begun = changed(row.job, ready_owner=owner, round_number=row.job.round_number + 1)
        self._put(changed(row, job=begun, has_signal=True))
        for seat in self._rows.seats.of(BY_JOB, key.job_id):
            blocked_by = Blocker.APPROVAL if seat.blocked_by is Blocker.APPROVAL else None
            self._rows.seats.put(seat_key(seat), changed(seat, message="", free_cores=-1, blocked_by=blocked_by))
        return True

    def end_round(
        self, key: JobKey, owner: str, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int,
        conflicts: int, blocked_by: Blocker | None, rejoins: bool = False, blocked_at: str = "",
    ) -> bool:  # fmt: skip
        row = self._jobs.rows.get(key)
        if row is None or not row.has_signal or row.job.ready_owner != owner:
            return False
        ended = changed(
            row.job, ready_owner="", wait_reason=wait_reason, blocked_on=blocked_on, retry_at=retry_at,
            conflicts=conflicts, blocked_by=blocked_by, rerun_signal=rejoins, blocked_at=blocked_at,
        )  # fmt: skip
        self._put(changed(row, job=ended, has_signal=False, blocked_cores=blocked_cores))
        return True

    def postpone(
        self, key: JobKey, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int, blocked_at: str = ""
    ) -> bool:  # fmt: skip
        row = self._jobs.rows.get(key)
        if row is None or row.has_signal or row.job.status is not JobStatus.WAITING:
            return False
        later = changed(
            row.job, wait_reason=wait_reason, blocked_on=blocked_on, retry_at=retry_at, blocked_at=blocked_at
        )  # fmt: skip
        self._put(changed(row, job=later, blocked_cores=blocked_cores))
        return True

    def take_over(self, owner: str) -> tuple[str, ...]:
        every = self._jobs.rows.values()
        signalled = [row for row in every if row.has_signal and row.job.ready_owner != owner]
        for row in signalled:
            self._change(row, ready_owner=owner)
        return ids_by_age(signalled)

    def jobs_in_round(self) -> tuple[Waiting, ...]:
        waiting = self._waiting()
        return _queued((row for row in waiting if row.has_signal), len(waiting))

    def unblocked_waiting(self, limit: int) -> tuple[Waiting, ...]:
        rows = (row for row in self._with_rounds() if not row.job.blocked_on and not row.job.rerun_signal)
        return _queued((row for row in rows if not row.has_signal), limit)

    def queue_heads(self) -> tuple[Waiting, ...]:
        places = {(row.job.blocked_on, row.job.blocked_at) for row in self._with_rounds() if row.job.blocked_on}
        return tuple(head for place in sorted(places) for head in self._head(place))

    def waiting_unschedulable(self, until: int, limit: int) -> tuple[Waiting, ...]:
        unschedulable = (
            row
            for row in self._waiting()
            if row.job.blocked_by in UNSCHEDULABLE and not (row.has_signal or row.job.hold)
        )
        due = (row for row in unschedulable if row.job.retry_at <= until)
        first = sorted(due, key=lambda row: (row.job.retry_at, row.job.order))[:limit]
        return tuple(_waiting_of(row) for row in first)

    def blocked_waiting(
        self, party_id: str, at_most_cores: int, limit: int, tag: str = ""
    ) -> tuple[Waiting, ...]:  # fmt: skip
        there = (row for row in self._with_rounds() if (row.job.blocked_on, row.job.blocked_at) == (party_id, tag))
        blocked = (row for row in there if not row.has_signal)
        return _queued((row for row in blocked if row.blocked_cores <= at_most_cores), limit)

    def waiting(self, job_id: str) -> Waiting | None:
        rows = (row for row in self._with_rounds() if row.job.job_id == job_id and not row.job.rerun_signal)
        return next(iter(_queued((row for row in rows if not row.has_signal), 1)), None)

    def count_pass(self, job_id: str, by: str) -> None:
        for row in self._of_job(job_id):
            if row.job.is_initiator and row.job.status is JobStatus.WAITING:
                self._change(row, passes=row.job.passes + 1, **passed(row.job.passers, by))

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

    def decide_consent(self, key: JobKey, consent: Consent, known: Consent | None = None) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.job.consent is None or row.job.status is JobStatus.STOPPING:
            return False
        stored = row.job.consent
        if known and (stored.approval, stored.by, stored.digest) != (known.approval, known.by, known.digest):
            return False
        is_anew = (consent.is_given or consent.is_first) and row.job.consent.approval is Approval.PENDING
        if (row.job.holds or row.job.status is JobStatus.RUNNING) and not is_anew:
            return False
        self._change(row, consent=consent)
        return True

    def unapproved_jobs(self, limit: int) -> tuple[Job, ...]:
        jobs = by_age(self._in(OPEN_JOBS))
        return tuple(job for job in jobs if job.consent and job.consent.approval is Approval.PENDING)[:limit]

    def ask_again(self, job_id: str) -> bool:
        waiting = (row for row in self._waiting() if row.job.job_id == job_id)
        rows = [row for row in waiting if not row.has_signal and not row.job.rerun_signal]
        for row in rows:
            self._change(row, retry_at=0)
        return bool(rows)

    def others_waiting(self) -> tuple[Job, ...]:
        theirs = [row for row in self._jobs.of(BY_STATUS, JobStatus.WAITING) if not row.job.is_initiator]
        first: dict[str, str] = {}
        for row in theirs:
            initiator, job_id = row.job.initiator.party_id, row.job.job_id
            first[initiator] = min(job_id, first.get(initiator, job_id))
        return by_age(row for row in theirs if row.job.job_id in first.values())

    def set_priority(self, key: JobKey, priority: int, queue_key: int) -> bool:
        row = self._jobs.rows.get(key)
        if row is None or row.job.status is not JobStatus.WAITING:
            return False
        self._change(row, priority=priority, queue_key=queue_key)
        return True

    def count_waiting(self) -> int:
        return len(self._waiting())

    def cancelled_waiting(self) -> tuple[str, ...]:
        return ids_by_age(row for row in self._waiting() if row.job.reason is not None)

    def _waiting(self) -> list[JobRow]:
        return [row for row in self._jobs.of(BY_STATUS, JobStatus.WAITING) if row.job.is_initiator]

    def _with_rounds(self) -> list[JobRow]:
        return [row for row in self._waiting() if not row.job.is_unschedulable]

    def _head(self, place: tuple[str, str]) -> tuple[Waiting, ...]:
        there = (row for row in self._with_rounds() if (row.job.blocked_on, row.job.blocked_at) == place)
        return _queued(there, 1)


def _order(row: JobRow) -> tuple[int, int, str]:
    return row.job.order


def _queued(rows: Iterable[JobRow], limit: int) -> tuple[Waiting, ...]:
    return tuple(_waiting_of(row) for row in sorted(rows, key=_order)[:limit])


def _waiting_of(row: JobRow) -> Waiting:
    return Waiting(
        row.job.job_id, row.job.create_time, tuple(party.party_id for party in row.job.parties),
        row.job.blocked_on, row.blocked_cores, row.job.retry_at, row.job.passes, row.job.blocked_by, row.job.queue_key,
        row.job.blocked_at,
    )  # fmt: skip
