"""Queries about the history of jobs."""

from __future__ import annotations

from peewee import Value

from fate_flow.core.model.history import HistoryEntry
from fate_flow.store.database.models import HistoryRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.rows import ENTRY_COLUMNS


def values_of_move(one: HistoryEntry) -> tuple[str | int, ...]:
    """Return the values of an entry for `PUT_MOVE`."""
    role, party_id = (one.party.role, one.party.party_id) if one.party else ("", "")
    return (
        one.job_id, one.level.value, role, party_id, one.task, one.version, one.old, one.new, one.reason, one.message,
        one.caused_by, one.exit_status, one.at,
    )  # fmt: skip


PUT_MOVE = Prepared(
    lambda job_id, level, role, party_id, task, version, old, new, reason, message, caused_by, exit_status, at: (
        HistoryRow.insert(
            f_job_id=job_id, f_level=level, f_role=role, f_party_id=party_id, f_component_name=task,
            f_task_version=Value(version, converter=False), f_old=old, f_new=new, f_reason=reason, f_message=message,
            f_caused_by=caused_by, f_exit_status=exit_status, f_time=Value(at, converter=False),
        )
    ),
    13,
)  # fmt: skip
HISTORY = Prepared(
    lambda job_id: (
        HistoryRow.select(*ENTRY_COLUMNS).where(HistoryRow.f_job_id == job_id).order_by(HistoryRow.f_id)
    ),
    1,
)
