"""The files of tables, as retention sees them; `components/tables/left_files.py` has them on disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class TableFile:
    """A file in the folder for tables: of the table `name`, or else the `draft` of a writer that has not finished."""

    namespace: str
    name: str = ""
    draft: str = ""

    def __str__(self) -> str:
        return f"{self.namespace} {self.name or self.draft}"


class FilesOfTables(Protocol):
    """The files of tables, whether a row names them or not."""

    def table_files_before(self, at: int) -> Iterable[TableFile]:
        """Return the files that were last changed, or renamed, before this time (milliseconds since the epoch)."""

    def maker_of_table(self, file: TableFile) -> str:
        """Return the id of the task that wrote the table; empty if the file does not say so, or is no table."""
        ...

    def remove_table_file(self, file: TableFile, before: int) -> bool:
        """Remove the file; False if it was changed since `before`, or if a writer still fills it."""
        ...

    def has_table_files(self, job_id: str) -> bool:
        """Return whether the folder for output tables of this job has any file."""
