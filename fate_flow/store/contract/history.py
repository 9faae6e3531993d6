"""The store contract for the history of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fate_flow.core.model.history import HistoryEntry


class History(Protocol):
    """Part of `contract.Transaction`."""

    def add_entries(self, entries: Sequence[HistoryEntry]) -> None:
        """Add entries to the history, in this order."""

    def history(self, job_id: str) -> tuple[HistoryEntry, ...]:
        """Return the entries of a job, in the order of writing; they are removed with the job."""
