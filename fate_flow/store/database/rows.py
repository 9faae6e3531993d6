"""Conversion between rows and values: the columns that each query reads, and the values of these columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import (
    Blocker,
    Claim,
    Command,
    CommandKind,
    Hold,
    Job,
    JobKey,
    PendingRequest,
    Seat,
    Task,
    TaskKey,
    Worker,
    WorkerPlace,
)
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import Tries
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus, WorkerStatus
from fate_flow.store.database.models import HistoryRow, JobRow, OutboxRow, SeatRow, TaskRow, WorkerRow

Row = tuple[Any, ...]

J = JobRow
JOB_COLUMNS = (
    J.f_job_id, J.f_role, J.f_party_id, J.f_initiator_role, J.f_initiator_party_id, J.f_is_initiator, J.f_status,
    J.f_run, J.f_roles, J.f_target, J.f_reason, J.f_message, J.f_caused_by, J.f_cancel_signal, J.f_ready_owner,
    J.f_progress, J.f_cores, J.f_memory, J.f_claim, J.f_asked_cores, J.f_asked_memory, J.f_wait_reason,
    J.f_blocked_on, J.f_retry_at, J.f_passes, J.f_conflicts, J.f_turn, J.f_timeout_seconds, J.f_create_time,
    J.f_start_time, J.f_end_time, J.f_stop_by, J.f_unconfirmed_parties, J.f_legacy, J.f_claim_turn,
    J.f_since, J.f_claim_renewals, J.f_apply_resource_time, J.f_rerun_signal, J.f_stop_now, J.f_lacks,
    J.f_approval, J.f_approval_by, J.f_approval_message, J.f_approval_time, J.f_approval_digest, J.f_held,
    J.f_hold_message, J.f_hold_by,
    J.f_hold_time, J.f_hold_since, J.f_queued, J.f_priority, J.f_enqueued, J.f_queue_key, J.f_missing_parties,
    J.f_policy_timers, J.f_restarting, J.f_restarts, J.f_revision, J.f_changed_components, J.f_exit_code,
    J.f_ttl, J.f_lost_since, J.f_losses, J.f_wish_since, J.f_wish_asked, J.f_wish_passes,
)  # fmt: skip


def job_of(row: Row) -> Job:
    (
        job_id, role, party_id, initiator_role, initiator_id, is_initiator, status, run, roles, target, reason, message,
        caused_by, cancel, owner, progress, cores, memory, claim, asked_cores, asked_memory, wait_reason, blocked_on,
        retry_at, passes, conflicts, round_number, timeout, created, started, ended, stop_by, unconfirmed, is_plain_v1,
        claim_round,
        since, renewals, taken, rerun_signal, stop_now, blocked_by, approval, approver, approval_message, approval_time,
        approval_digest, held, hold_message, hold_by, hold_time, hold_since, queued, priority, enqueued, queue_key,
        missing, timers, restarting, restarts, revision, changed, exit_code, ttl, lost_since, losses, *pending,
    ) = row  # fmt: skip
    return Job(
        key=JobKey(job_id, Party(role, party_id)),
        initiator=Party(initiator_role, initiator_id),
        is_initiator=bool(is_initiator),
        status=JobStatus(status),
        run=run,
        parties=parties_of(roles),
        target=JobStatus(target) if target else None,
        reason=Reason(reason) if reason else None,
        message=message or "",
        caused_by=caused_by,
        exit_code=exit_code,
        cancel_requested=bool(cancel),
        ready_owner=owner,
        progress=progress,
        claim=Claim(cores, memory, claim, claim_round, renewals, taken or 0),
        asked=Claim(asked_cores, asked_memory),
        wait_reason=wait_reason or "",
        blocked_on=blocked_on,
        blocked_by=blocker_of(blocked_by),
        retry_at=retry_at,
        passes=passes,
        conflicts=conflicts,
        round_number=round_number,
        timeout_seconds=timeout,
        ttl_seconds=ttl,
        create_time=created or 0,
        since=since,
        queued=queued,
        start_time=started or 0,
        end_time=ended or 0,
        stop_by=stop_by,
        is_force_stop=bool(stop_now),
        unconfirmed=_texts(unconfirmed),
        is_plain_v1=bool(is_plain_v1),
        rerun_signal=bool(rerun_signal),
        hold=Hold(hold_message or "", hold_by, hold_time, hold_since) if held else None,
        consent=consent_of(approval, approver, approval_message, approval_time, approval_digest),
        priority=priority,
        enqueued=enqueued,
        queue_key=queue_key,
        missing=_texts(missing),
        timers=from_json(timers),
        is_restarting=bool(restarting),
        restarts=restarts,
        revision=revision,
        changed=_texts(changed),
        lost_since=lost_since,
        losses=losses,
        pending=PendingRequest(*pending),
    )


def consent_of(approval: str, by: str, message: str | None, at: int, digest: str = "") -> Consent | None:
    return Consent(Approval(approval), by, message or "", at, digest) if approval else None


def _texts(text: str | None) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text else ()


def blocker_of(text: str) -> Blocker | None:
    return Blocker(text) if text else None


def parties_of(roles: str) -> tuple[Party, ...]:
    return tuple(Party(role, str(one)) for role, ids in json.loads(roles).items() for one in ids)


def roles_of(parties: tuple[Party, ...]) -> str:
    found: dict[str, list[int]] = {}
    for party in parties:
        found.setdefault(party.role, []).append(int(party.party_id))
    return json.dumps(found)


S = SeatRow
SEAT_COLUMNS = (
    S.f_job_id, S.f_role, S.f_party_id, S.f_status, S.f_run, S.f_message, S.f_free_cores, S.f_asked_cores,
    S.f_lacks, S.f_lease, S.f_renew_at, S.f_legacy, S.f_silent_since, S.f_approval,
)  # fmt: skip


def seat_of(row: Row) -> Seat:
    (
        job_id,
        role,
        party_id,
        status,
        run,
        message,
        free,
        asked,
        blocked_by,
        lease,
        renew_at,
        is_plain_v1,
        silent,
        approval,
    ) = row
    return Seat(
        job_id, Party(role, party_id), SeatStatus(status), run, message or "", free, asked, blocker_of(blocked_by),
        lease,
        renew_at, bool(is_plain_v1), silent, approval or "",
    )  # fmt: skip


T = TaskRow
TASK_COLUMNS = (
    T.f_job_id, T.f_component_name, T.f_task_version, T.f_role, T.f_party_id, T.f_status, T.f_party_status,
    T.f_run_on_this_party, T.f_incarnation, T.f_component_module, T.f_auto_retries, T.f_retry_at, T.f_reason,
    T.f_message, T.f_target, T.f_worker_id, T.f_create_time, T.f_start_time, T.f_end_time, T.f_errors,
    T.f_interruptions, T.f_tried_since, T.f_exit_code, T.f_caused_by, T.f_without_parties, T.f_policy,
    T.f_federated_reason, T.f_federated_message, T.f_federated_exit_code, T.f_federated_caused_by,
    T.f_federated_end_time,
)  # fmt: skip


def task_of(row: Row) -> Task:
    (
        job_id, name, version, role, party_id, status, party_status, runs_here, incarnation, module, retries, retry_at,
        reason, message, target, worker_id, created, started, ended, errors, interruptions, tried_since, exit_code,
        caused_by, without, policy, federated_reason, federated_message, federated_exit_code, federated_caused_by,
        federated_ended,
    ) = row  # fmt: skip
    return Task(
        key=TaskKey(job_id, name, version, Party(role, party_id)),
        status=TaskStatus(status),
        party_status=TaskStatus(party_status),
        runs_here=bool(runs_here),
        incarnation=incarnation,
        module=module or "",
        auto_retries=retries,
        tries=Tries(errors, interruptions, tried_since),
        retry_at=retry_at,
        reason=Reason(reason) if reason else None,
        message=message or "",
        exit_code=exit_code,
        caused_by=caused_by,
        without=_texts(without),
        policy=policy,
        target=TaskStatus(target) if target else None,
        federated_reason=Reason(federated_reason) if federated_reason else None,
        federated_message=federated_message or "",
        federated_exit_code=federated_exit_code,
        federated_caused_by=federated_caused_by,
        federated_end_time=federated_ended or 0,
        worker_id=worker_id or "",
        create_time=created or 0,
        start_time=started or 0,
        end_time=ended or 0,
    )


W = WorkerRow
WORKER_COLUMNS = (
    W.f_worker_id, W.f_job_id, W.f_component_name, W.f_task_version, W.f_role, W.f_party_id, W.f_status, W.f_handle,
    W.f_create_time, W.f_run_pid, W.f_stopping, W.f_start_time, W.f_end_time,
    W.f_since, W.f_slot, W.f_rank, W.f_attempt, W.f_reason, W.f_message, W.f_caused_by, W.f_exit_status, W.f_elastic,
    W.f_cores, W.f_memory,
)  # fmt: skip


def worker_of(row: Row) -> Worker:
    (
        worker_id, job_id, name, version, role, party_id, status, handle, created, pid, stopping, started,
        ended, since, slot, rank, attempt, reason, message, caused_by, exit_status, elastic, cores, memory,
    ) = row  # fmt: skip
    return Worker(
        worker_id, TaskKey(job_id, name, version, Party(role, party_id)), WorkerStatus(status), handle,
        created or 0, None if pid is None else WorkerPlace(pid), bool(stopping), started or 0, ended or 0,
        since, slot, rank, attempt, Reason(reason) if reason else None, message or "", caused_by, exit_status,
        bool(elastic), cores, memory,
    )  # fmt: skip


H = HistoryRow
ENTRY_COLUMNS = (
    H.f_job_id, H.f_level, H.f_old, H.f_new, H.f_time, H.f_role, H.f_party_id, H.f_component_name, H.f_task_version,
    H.f_reason, H.f_message, H.f_caused_by, H.f_exit_status, H.f_id,
)  # fmt: skip


def entry_of(row: Row) -> HistoryEntry:
    job_id, level, old, new, at, role, party_id, task, version, reason, message, caused_by, exit_status, number = row
    return HistoryEntry(
        job_id, HistoryLevel(level), old, new, at, Party(role, party_id) if role else None, task, version, reason,
        message or "", caused_by, exit_status, number,
    )  # fmt: skip


C = OutboxRow
COMMAND_COLUMNS = (
    C.f_id, C.f_kind, C.f_job_id, C.f_role, C.f_party_id, C.f_run, C.f_component_name, C.f_task_version, C.f_argument,
    C.f_body, C.f_since,
)  # fmt: skip


def command_of(row: Row) -> Command:
    command_id, kind, job_id, role, party_id, run, task, version, argument, body, since = row
    return Command(
        CommandKind(kind), job_id, Party(role, party_id), run, task, version, argument, json.loads(body), command_id,
        since=since,
    )  # fmt: skip


_COLUMNS = {
    "cancel_requested": "f_cancel_signal",
    "changed": "f_changed_components",
    "is_restarting": "f_restarting",
    "is_force_stop": "f_stop_now",
    "blocked_by": "f_lacks",
    "is_stopping": "f_stopping",
    "place": "f_run_pid",
    "missing": "f_missing_parties",
    "timers": "f_policy_timers",
    "unconfirmed": "f_unconfirmed_parties",
}
"""The columns of fields whose column has another name."""


def columns_of(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a change (`changes.py`) with their new values."""
    columns: dict[str, Any] = {}
    for name, value in change.items():
        if name == "hold":
            columns.update(hold_columns(value))
        else:
            columns[_COLUMNS.get(name, f"f_{name}")] = _to_column(name, value)
    return columns


def hold_columns(hold: Hold | None) -> dict[str, Any]:
    """Return the columns of a job that is on hold; with None, of a job that is not, and has no blocker."""
    one = hold or Hold("", "")
    return {
        "f_apart": hold is not None, "f_held": hold is not None, "f_hold_message": one.message, "f_hold_by": one.by,
        "f_hold_time": one.time, "f_hold_since": one.since,
    }  # fmt: skip


_NEVER_NULL = frozenset({"blocked_by"})
"""Fields that are None in a value and an empty text in the database."""


def with_dates(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns with the dates that belong to the times of a job or task."""
    times = [name for name in ("f_start_time", "f_end_time") if name in columns]
    return columns | {name.replace("_time", "_date"): date(columns[name]) for name in times}


def _to_column(name: str, value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, WorkerPlace):
        return value.pid
    if value is None and name in _NEVER_NULL:
        return ""
    if isinstance(value, Mapping):
        return to_json(dict(value))
    return to_json(list(value)) if isinstance(value, tuple) else value


def date(at: int | None) -> datetime | None:
    """Return the same moment in local time, for FATE's `_date` columns."""
    return datetime.fromtimestamp(at // 1000) if at else None


def to_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def from_json(text: str | None) -> Mapping[str, Any]:
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}
