"""A backup of the tables of the record in memory, and its restoring."""

from __future__ import annotations

from typing import Any

_TABLES = ("record", "record_batches", "record_heads", "checkpoints", "witnessed", "questions", "evidence")


class RecordBackup:
    """The record as it is in this store now. Ids of entries go on after it was restored."""

    def __init__(self, store: Any) -> None:
        self._rows = {name: dict(getattr(store._rows, name).rows) for name in _TABLES}

    def restore(self, store: Any) -> None:
        """Put the record of the store back to what it was."""
        with store.transaction():
            for name, rows in self._rows.items():
                table = getattr(store._rows, name)
                for key in tuple(table.rows):
                    table.drop(key)
                for key, row in rows.items():
                    table.put(key, row)
