"""What every store promises of the moves of a job that were written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fate_flow.core.model.history import HistoryEntry


class History(Protocol):
    """Part of `contract.Transaction`."""

    def add_entries(self, entries: Sequence[HistoryEntry]) -> None:
        """Write down what has moved, in this order."""

    def history(self, job_id: str) -> tuple[HistoryEntry, ...]:
        """What has been written down of a job, in that order; it goes with the job."""
