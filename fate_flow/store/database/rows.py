"""The columns of jobs, seats, tasks, workers, commands and entries of the history: what each query reads, and what a
write changes.

Column `f_x` is field `x`. The tables here name the other columns, and the fields in several columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.model.job import Blocker, Command, EnginePart, Job, Seat, Task, Worker, WorkerPlace
from fate_flow.core.model.resources import engine_named, name_in_fate
from fate_flow.core.model.spec import Party
from fate_flow.store.database.models import HistoryRow, JobRow, OutboxRow, SeatRow, TaskRow, WorkerRow
from fate_flow.store.database.row_map import Converted, Maybe, Place, RowMap


@lru_cache(maxsize=1_000)
def parties_of(roles: str) -> tuple[Party, ...]:
    """Return the parties of a job. Its row is read often, and jobs of the same parties are many."""
    return tuple(Party(role, str(one)) for role, ids in json.loads(roles).items() for one in ids)


def roles_of(parties: tuple[Party, ...]) -> str:
    found: dict[str, list[int]] = {}
    for party in parties:
        found.setdefault(party.role, []).append(int(party.party_id))
    return json.dumps(found)


def _place_of(pid: int | None) -> WorkerPlace | None:
    return None if pid is None else WorkerPlace(pid)


def _pid_of(place: WorkerPlace | None) -> int | None:
    return None if place is None else place.pid


def _engine_of(in_fate: str | None) -> str:
    return engine_named(in_fate or "")


def _name_of(engine: str) -> str | None:
    return name_in_fate(engine) or None


def parts_to_json(parts: tuple[EnginePart, ...]) -> str | None:
    """Return the text of a column with the parts of a claim on other engines; None if there is none."""
    return json.dumps([[one.engine, one.cores, one.memory, one.gpus] for one in parts]) if parts else None


def parts_of(text: str | None) -> tuple[EnginePart, ...]:
    """Return the parts of a claim that the text of a column says."""
    return tuple(EnginePart(*part) for part in json.loads(text)) if text else ()


_PARTY: Mapping[str, Place] = {"role": "f_role", "party_id": "f_party_id"}
_TASK_KEY: Mapping[str, Place] = {"name": "f_component_name", "version": "f_task_version", "party": _PARTY}

JOBS = RowMap(Job, JobRow, {
    "key": {"party": _PARTY},
    "initiator": {"role": "f_initiator_role", "party_id": "f_initiator_party_id"},
    "parties": Converted("f_roles", parties_of, roles_of, "{}"),
    "cancel_requested": "f_cancel_signal",
    "claim": {
        "token": "f_claim", "round_number": "f_claim_turn", "renewals": "f_claim_renewals",
        "taken_time": "f_apply_resource_time", "engine": Converted("f_engine_name", _engine_of, _name_of, None),
        "elsewhere": Converted("f_elsewhere", parts_of, parts_to_json, None),
    },
    "asked": {
        "cores": "f_asked_cores", "memory": "f_asked_memory",
        "gpus": "f_asked_gpus", "engine": Converted("f_asked_engine", _engine_of, name_in_fate, ""),
        "elsewhere": Converted("f_asked_elsewhere", parts_of, parts_to_json, None),
        "token": None, "round_number": None, "renewals": None, "taken_time": None,
    },
    "blocked_by": "f_lacks",
    "round_number": "f_turn",
    "ttl_seconds": "f_ttl",
    "is_force_stop": "f_stop_now",
    "unconfirmed": "f_unconfirmed_parties",
    "missing": "f_missing_parties",
    "is_plain_v1": "f_legacy",
    "pending": {"since": "f_wish_since", "asked": "f_wish_asked", "passes": "f_wish_passes"},
    "hold": Maybe("f_held", {
        "message": "f_hold_message", "by": "f_hold_by", "time": "f_hold_time", "since": "f_hold_since",
    }),
    "consent": Maybe("f_approval", {
        "by": "f_approval_by", "message": "f_approval_message", "time": "f_approval_time",
        "digest": "f_approval_digest",
    }),
    "timers": "f_policy_timers",
    "is_restarting": "f_restarting",
    "changed": "f_changed_components",
})  # fmt: skip
JOB_COLUMNS, job_of = JOBS.columns, JOBS.value_of


def job_columns(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a change of a job (`changes.py`) with their new values. Without a hold, a job has no
    blocker either."""
    columns = JOBS.columns_of(change)
    if "hold" in change:
        columns["f_apart"] = change["hold"] is not None
    return columns


def blocker_of(text: str) -> Blocker | None:
    return Blocker(text) if text else None


SEATS = RowMap(Seat, SeatRow, {"party": _PARTY, "blocked_by": "f_lacks", "is_plain_v1": "f_legacy"})
SEAT_COLUMNS, seat_of = SEATS.columns, SEATS.value_of

TASKS = RowMap(Task, TaskRow, {
    "key": _TASK_KEY,
    "runs_here": "f_run_on_this_party",
    "module": "f_component_module",
    "tries": {"since": "f_tried_since"},
    "without": "f_without_parties",
})  # fmt: skip
TASK_COLUMNS, task_of = TASKS.columns, TASKS.value_of

WORKERS = RowMap(Worker, WorkerRow, {
    "task": _TASK_KEY,
    "place": Converted("f_run_pid", _place_of, _pid_of, None),
    "is_stopping": "f_stopping",
    "is_elastic": "f_elastic",
})  # fmt: skip
WORKER_COLUMNS, worker_of = WORKERS.columns, WORKERS.value_of

ENTRIES = RowMap(HistoryEntry, HistoryRow, {
    "at": "f_time",
    "party": Maybe("f_role", _PARTY),
    "task": "f_component_name",
    "version": "f_task_version",
    "number": "f_id",
})  # fmt: skip
ENTRY_COLUMNS, entry_of = ENTRIES.columns, ENTRIES.value_of

COMMANDS = RowMap(Command, OutboxRow, {
    "to": _PARTY,
    "task": "f_component_name",
    "version": "f_task_version",
    "attempts": None,
})  # fmt: skip
COMMAND_COLUMNS, command_of = COMMANDS.columns, COMMANDS.value_of


def with_dates(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns with the dates that belong to the times of a job or task."""
    times = [name for name in ("f_start_time", "f_end_time") if name in columns]
    return columns | {name.replace("_time", "_date"): date(columns[name]) for name in times}


def date(at: int | None) -> datetime | None:
    """Return the same moment in local time, for FATE's `_date` columns."""
    return datetime.fromtimestamp(at // 1000) if at else None
