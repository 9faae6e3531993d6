"""The history: every move of a status."""

from __future__ import annotations

from collections.abc import Sequence

from peewee import Value

from fate_flow.core.model.history import HistoryEntry
from fate_flow.store.database.models import HistoryRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.rows import ENTRY_COLUMNS, entry_of
from fate_flow.store.sql.unit import SqlUnitOfWork


class History(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_entries(self, entries: Sequence[HistoryEntry]) -> None:
        for first in range(0, len(entries), _ENTRIES_AT_ONCE):
            some = entries[first : first + _ENTRIES_AT_ONCE]
            _PUT_ENTRY.insert_all(self._database, [_entry_values(one) for one in some])

    def history(self, job_id: str) -> tuple[HistoryEntry, ...]:
        return tuple(entry_of(row) for row in _HISTORY.rows(self._database, job_id))


_ENTRIES_AT_ONCE = 64       # SQLite allows 32,766 values in a statement


def _entry_values(one: HistoryEntry) -> tuple[str | int, ...]:
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
