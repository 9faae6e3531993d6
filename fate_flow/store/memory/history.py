"""The history, in memory; the counterpart of `sql/history.py`."""

from __future__ import annotations

from collections.abc import Sequence

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.history import HistoryEntry
from fate_flow.store.memory.tables import BY_JOB
from fate_flow.store.memory.unit import MemoryUnitOfWork


class History(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_entries(self, entries: Sequence[HistoryEntry]) -> None:
        for one in entries:
            number = next(self._rows.entry_numbers)
            self._rows.history.put(number, changed(one, number=number))

    def history(self, job_id: str) -> tuple[HistoryEntry, ...]:
        return tuple(sorted(self._rows.history.of(BY_JOB, job_id), key=lambda one: one.number))
