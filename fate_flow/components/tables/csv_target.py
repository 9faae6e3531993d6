"""Writing a table to a CSV file, completely or not at all."""

from __future__ import annotations

import csv
import filecmp
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from fate_flow.components.base.errors import TO_REPLACE, ComponentError, shown
from fate_flow.components.tables.csv_source import DELIMITERS
from fate_flow.components.tables.table import Table


def write_csv(table: Table, path: Path, delimiter: str, *, replaces: bool) -> None:
    """Write a header and all rows. Raises ComponentError if the path is a folder, or a file with other content that may
    not be replaced."""
    if path.is_dir():
        raise ComponentError(f"output_path: {shown(str(path), 200)} is a folder, a file is needed")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with unfinished.open("x", encoding="utf-8", newline="") as file:
            unquoted, quoting = (
                csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=how)
                for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
            )
            names = (table.schema.sid, *table.schema.header)
            (quoting if _has_return(names) or _is_ambiguous(names) else unquoted).writerow(names)
            for row in table:
                (quoting if _has_return(row) else unquoted).writerow(row)
            file.flush()
            os.fsync(file.fileno())
        _publish(unfinished, path, replaces=replaces)
    finally:
        unfinished.unlink(missing_ok=True)


def _has_return(record: Sequence[str]) -> bool:
    """Return whether the record needs quotes that the csv module does not set: a carriage return would end the line."""
    return any("\r" in value for value in record)


def _is_ambiguous(names: Sequence[str]) -> bool:
    """Return whether readers would take the beginning for a BOM, or one column for several with another delimiter."""
    return names[0].startswith("\ufeff") or (len(names) == 1 and any(one in names[0] for one in DELIMITERS))


def _publish(unfinished: Path, path: Path, *, replaces: bool) -> None:
    if replaces:
        unfinished.replace(path)
        return
    try:
        os.link(unfinished, path)       # unlike a rename, fails if the file exists
    except FileExistsError as error:
        # A file with equal content is accepted: it is probably from an earlier attempt of the task.
        if not filecmp.cmp(unfinished, path, shallow=False):
            raise ComponentError(
                f"output_path: {shown(str(path), 200)} is there already and holds something else; {TO_REPLACE}"
            ) from error
