"""What a server knows about itself at one moment, in numbers, for `/metrics` and the board.

Every query reads unfinished rows alone, by an index: the cost does not depend on how many jobs have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from peewee import fn

from fate_flow.core.metrics.measures import BLOCKED_BY
from fate_flow.core.model.approval import Approval
from fate_flow.core.model.job import Blocker
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.resources import LOCAL, name_in_fate
from fate_flow.core.model.status import JOB_UNFINISHED, JobStatus, WorkerStatus
from fate_flow.core.notifications.subscribers import KINDS, kind_of
from fate_flow.core.record.entry import OWN_LOG
from fate_flow.store.database.engine_rows import EngineRow
from fate_flow.store.database.models import JobRow, NotificationRow, OutboxRow, WorkerRow
from fate_flow.store.database.queries import waiting_here
from fate_flow.store.database.record_rows import RecordEntryRow, RecordHeadRow
from fate_flow.store.sql.resources import COMPUTING
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.values import Delivery

HOLD, BACKOFF, REJOIN, QUEUE = "hold", "backoff", "rejoin", "queue"
APPROVAL, SIZE, CAPACITY, PARTY = (
    BLOCKED_BY[one] for one in (Blocker.APPROVAL, Blocker.SIZE, Blocker.CAPACITY, Blocker.ANSWER)
)
REASONS = (HOLD, APPROVAL, SIZE, CAPACITY, PARTY, BACKOFF, REJOIN, QUEUE)
"""Why a job of this coordinator waits: a hold; an approval; a party has too little in all, or at the moment; a party
does not answer or is not ready; a pause before another attempt; parties that have to hear of a rerun; its place."""
INADMISSIBLE = frozenset({HOLD, APPROVAL, SIZE})
"""Reasons that free capacity does not remove."""

RECORD_LOGS = (OWN_LOG, "with")
"""The logs of the record, as metrics name them: the own one, and those with other parties, all together. A log stays
when its party leaves, so ids of parties would be no closed set."""

_BY_BLOCKER = {blocker.value: why for blocker, why in BLOCKED_BY.items()}


@dataclass(frozen=True)
class EngineUse:
    """The cores, the memory (MB) and the GPUs of an engine."""

    name: str
    cores: int
    free_cores: int
    memory: int
    free_memory: int
    gpus: int
    free_gpus: int


@dataclass(frozen=True)
class ServerState:
    """All of it; times are steady time (ms) of this server."""

    steady: int
    scheduler_counter: int
    seats: Mapping[tuple[str, str], int]         # unfinished jobs by (role of this party, status)
    pending: Mapping[str, int]                   # waiting jobs of this coordinator, by `REASONS`
    oldest_pending: Mapping[str, int]            # how long the oldest of them waits, by `REASONS`; 0: none waits so
    reserving: int                               # jobs for which cores are reserved here
    awaiting_approval: int
    workers: Mapping[str, int]                   # unfinished workers, by status
    engines: tuple[EngineUse, ...]
    outbox: Mapping[str, tuple[int, int]]        # by party: commands without an answer, and the age of the oldest
    troubles: Mapping[str, PeerTrouble]
    is_on_hold: bool                             # this party takes no new reservations
    notifications: Mapping[str, int]             # by kind of channel: those that wait to be sent
    recorded: Mapping[str, int]                  # entries with an index, in the newest epochs, by `RECORD_LOGS`
    unsealed: Mapping[str, int]                  # entries without one, by `RECORD_LOGS`


def server_state(tx: SqlTransaction) -> ServerState:
    steady = tx.steady()
    pending, queued = _pending()
    oldest = {why: max(0, steady - queued.get(why, steady)) for why in pending}
    return ServerState(
        steady, tx.scheduler()[1], count_seats(), pending, oldest,
        _reserving(), _awaiting_approval(), _workers(), engines_in_use(), _outbox(steady), tx.peer_troubles(),
        tx.intake_hold() is not None, _notifications(), _recorded(), _unsealed(),
    )  # fmt: skip


def count_seats() -> dict[tuple[str, str], int]:
    """Return the number of unfinished jobs by role of this party and status."""
    unfinished = [status.value for status in JOB_UNFINISHED]
    rows = (
        JobRow.select(JobRow.f_role, JobRow.f_status, fn.COUNT(JobRow.f_job_id))
        .where(JobRow.f_status.in_(unfinished)).group_by(JobRow.f_role, JobRow.f_status).tuples()
    )  # fmt: skip
    return {(role, status): count for role, status, count in rows}


def _pending() -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers by reason, and since when the first of these jobs waits, if there is one."""
    pauses = JobRow.f_retry_at > 0
    kinds = (JobRow.f_held, JobRow.f_rerun_signal, JobRow.f_lacks, pauses)
    rows = (
        JobRow.select(*kinds, fn.COUNT(JobRow.f_job_id), fn.MIN(JobRow.f_queued))
        .where(waiting_here()).group_by(*kinds).tuples()
    )  # fmt: skip
    found, oldest = dict.fromkeys(REASONS, 0), dict[str, int]()
    for held, reruns, blocker, is_paused, count, queued in rows:
        why = _reason(held=held, reruns=reruns, blocker=blocker, is_paused=is_paused)
        found[why] += count
        oldest[why] = min(queued, oldest.get(why, queued))
    return found, oldest


def _reason(*, held: bool, reruns: bool, blocker: str, is_paused: bool) -> str:
    if held:
        return HOLD
    if reruns:
        return BACKOFF if is_paused else REJOIN
    return _BY_BLOCKER.get(blocker, QUEUE)


def _reserving() -> int:
    unfinished = [status.value for status in JOB_UNFINISHED]
    holds = JobRow.f_resource_in_use == True  # noqa: E712
    return int(JobRow.select().where(JobRow.f_status.in_(unfinished) & holds).count())


def _awaiting_approval() -> int:
    waits = JobRow.f_status.in_([JobStatus.WAITING.value, JobStatus.READY.value])
    return int(JobRow.select().where((JobRow.f_approval == Approval.PENDING.value) & waits).count())


def _workers() -> dict[str, int]:
    unfinished = [WorkerStatus.CREATED.value, WorkerStatus.RUNNING.value]
    rows = (
        WorkerRow.select(WorkerRow.f_status, fn.COUNT(WorkerRow.f_worker_id))
        .where(WorkerRow.f_status.in_(unfinished)).group_by(WorkerRow.f_status).tuples()
    )  # fmt: skip
    return {**dict.fromkeys(unfinished, 0), **dict(rows)}


def engines_in_use() -> tuple[EngineUse, ...]:
    """Return the engines, by name."""
    columns = (
        EngineRow.f_engine_name, EngineRow.f_cores, EngineRow.f_remaining_cores, EngineRow.f_memory,
        EngineRow.f_remaining_memory, EngineRow.f_gpus, EngineRow.f_remaining_gpus,
    )
    rows = EngineRow.select(*columns).where(EngineRow.f_engine_type == COMPUTING).order_by(EngineRow.f_engine_name)
    return tuple(
        EngineUse(
            LOCAL if name == name_in_fate(LOCAL) else name, cores, max(0, free), memory, max(0, left), gpus,
            max(0, free_gpus),
        )
        for name, cores, free, memory, left, gpus, free_gpus in rows.tuples()
    )


def _outbox(steady: int) -> dict[str, tuple[int, int]]:
    rows = (
        OutboxRow.select(OutboxRow.f_party_id, fn.COUNT(OutboxRow.f_id), fn.MIN(OutboxRow.f_since))
        .group_by(OutboxRow.f_party_id).tuples()
    )  # fmt: skip
    return {party_id: (count, max(0, steady - since)) for party_id, count, since in rows}


def _notifications() -> dict[str, int]:
    row, found = NotificationRow, dict.fromkeys(KINDS, 0)
    waiting = row.select(row.f_channel, fn.COUNT(row.f_id)).where(row.f_state == Delivery.WAITING.value)
    for channel, count in waiting.group_by(row.f_channel).tuples():
        found[kind_of(channel)] += count
    return found


def _recorded() -> dict[str, int]:
    """Return the sizes of the heads: a row for each log."""
    return _by_log(RecordHeadRow.select(RecordHeadRow.f_log, RecordHeadRow.f_size).tuples())


def _unsealed() -> dict[str, int]:
    row = RecordEntryRow
    return _by_log(row.select(row.f_log, fn.COUNT(row.f_id)).where(row.f_epoch == 0).group_by(row.f_log).tuples())


def _by_log(rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    found = dict.fromkeys(RECORD_LOGS, 0)
    for log, count in rows:
        found[OWN_LOG if log == OWN_LOG else "with"] += count
    return found
