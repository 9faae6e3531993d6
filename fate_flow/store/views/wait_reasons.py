"""Why the jobs of a list wait: the text about waiting jobs, and what says what running and stopping ones wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from peewee import JOIN

from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.job import Hold, JobKey, Seat, Task
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.policy import RESTARTS
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.planning.queue import pausing, why_a_copy_waits, why_it_waits
from fate_flow.store.contract.changes import SHARE_MOVING, newest_tasks
from fate_flow.store.database.models import JobRow, SeatRow, TaskRow
from fate_flow.store.database.queries import IN_QUEUE, waiting_here
from fate_flow.store.database.rows import SEAT_COLUMNS, TASK_COLUMNS, seat_of, task_of
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.views.columns import Row
from fate_flow.store.views.document_digests import digests_of

WAIT_FIELDS = (
    "job_id", "role", "party_id", "initiator_role", "initiator_party_id", "is_initiator", "status", "wait_reason",
    "retry_at", "rerun_signal", "held", "hold_message", "hold_by", "approval", "approval_by", "restarting",
)  # fmt: skip
"""The fields of a job that say why it waits."""
_FEW = 20                    # waiting jobs whose places are counted one by one
_RUNS = frozenset({JobStatus.RUNNING.value, JobStatus.STOPPING.value})
_AT_WORK = [TaskStatus.RUNNING.value, TaskStatus.STOPPING.value]


def with_wait_reasons(tx: SqlTransaction, rows: list[Row]) -> list[Row]:
    """Set in each waiting job why it waits, with its place in the queue; at other parties, who knows that. Add the
    `document_digest` to each job that this party has to approve. The rows need `WAIT_FIELDS`."""
    waiting = [row for row in rows if row["status"] == JobStatus.WAITING.value]
    unapproved = [row for row in rows if row["approval"] == Approval.PENDING.value]
    digests = digests_of(tx, (row["job_id"] for row in unapproved))
    for row in unapproved:
        row["document_digest"] = digests.get(row["job_id"], "")
    places = _places(tx, [_key(row) for row in waiting if row["is_initiator"]])
    troubles = tx.peer_troubles() if any(not row["is_initiator"] for row in waiting) else {}
    steady = tx.steady() if troubles else 0
    for row in waiting:
        if not row["is_initiator"]:
            initiator = Party(row["initiator_role"], row["initiator_party_id"])
            row["wait_reason"] = why_a_copy_waits(
                initiator, _key(row).party, _consent_of(row), troubles.get(initiator.party_id), steady
            )
        elif row["job_id"] in places:
            hold = Hold(row["hold_message"] or "", row["hold_by"]) if row["held"] else None
            text = row["wait_reason"] or ""
            if row["rerun_signal"] and row["retry_at"]:
                text = pausing(text, row["retry_at"] - tx.steady())
            row["wait_reason"] = why_it_waits(text, places[row["job_id"]], hold)
    return rows


def _consent_of(row: Row) -> Consent | None:
    return Consent(Approval(row["approval"]), row["approval_by"]) if row["approval"] else None


def _key(row: Row) -> JobKey:
    return JobKey(row["job_id"], Party(row["role"], row["party_id"]))


def _places(tx: SqlTransaction, keys: Sequence[JobKey]) -> dict[str, int]:
    if len(keys) <= _FEW:
        jobs = (tx.job(key) for key in keys)
        return {job.job_id: tx.place_in_queue(job) for job in jobs if job is not None}
    queue = (
        JobRow.select(JobRow.f_job_id)
        .where(waiting_here())
        .order_by(*IN_QUEUE)
    )
    return {job_id: place for place, (job_id,) in enumerate(queue.tuples(), 1)}


# ---------------------------------------------------------------------- jobs that run or stop


@dataclass(frozen=True)
class Moving:
    """What the running and the stopping jobs of a list may wait for, by job id."""

    steady: int                  # now
    troubles: Mapping[str, PeerTrouble]      # with connections to other parties, by id
    seats: Mapping[str, tuple[Seat, ...]] = field(default_factory=dict)      # of jobs of this initiator
    tasks: Mapping[str, tuple[Task, ...]] = field(default_factory=dict)      # shares that stop, wait or begin again


def moving_of(rows: Sequence[Row], steady: int, troubles: Mapping[str, PeerTrouble]) -> Moving:
    """Return it for rows with `job_id` and `status`, by two queries for all of them; by none if no job runs."""
    ids = sorted({row["job_id"] for row in rows if row["status"] in _RUNS})
    if not ids:
        return Moving(steady, troubles)
    stopping = sorted({row["job_id"] for row in rows if row["status"] == JobStatus.STOPPING.value})
    seats: dict[str, list[Seat]] = {}
    of_jobs = SeatRow.select(*SEAT_COLUMNS).where(SeatRow.f_job_id.in_(ids))
    for seat in map(seat_of, of_jobs.order_by(SeatRow.f_job_id, SeatRow.f_role, SeatRow.f_party_id).tuples()):
        seats.setdefault(seat.job_id, []).append(seat)
    tasks: dict[str, list[Task]] = {}
    # Sorted here: to have them in order, SQLite would read the index by age from end to end.
    found = map(task_of, _moving_tasks(ids, stopping, steady).tuples())
    for task in sorted(found, key=lambda one: (one.create_time, one.key)):
        tasks.setdefault(task.key.job_id, []).append(task)
    newest = {job_id: newest_tasks(of_job) for job_id, of_job in tasks.items()}
    return Moving(steady, troubles, {job_id: tuple(of_job) for job_id, of_job in seats.items()}, newest)


def _moving_tasks(ids: Sequence[str], stopping: Sequence[str], steady: int) -> Any:
    """Select the shares that say what a job waits for. A later version says it if its pause is not over; or, at a party
    that does not decide, if it was created while the job ran."""
    task, job = TaskRow, JobRow
    waits = (task.f_party_status == TaskStatus.WAITING.value) & (task.f_waits != "")
    moves = task.f_party_status.in_(sorted(one.value for one in SHARE_MOVING)) | task.f_policy.in_(sorted(RESTARTS))
    came_while_it_ran = (job.f_start_time > 0) & (task.f_create_time >= job.f_start_time)
    is_due = (task.f_retry_at > steady) | ((job.f_is_initiator == False) & came_while_it_ran)  # noqa: E712
    moving = (
        (task.f_status == TaskStatus.STOPPING.value)
        | ((task.f_status == TaskStatus.RUNNING.value) & (waits | moves))
        | ((task.f_status == TaskStatus.WAITING.value) & (task.f_task_version > 0) & is_due)
    )
    if stopping:
        moving |= task.f_job_id.in_(stopping) & task.f_party_status.in_(_AT_WORK)
    same = (job.f_job_id == task.f_job_id) & (job.f_role == task.f_role) & (job.f_party_id == task.f_party_id)
    return task.select(*TASK_COLUMNS).join(job, JOIN.LEFT_OUTER, on=same).where(task.f_job_id.in_(ids) & moving)
