"""Writing a table to a CSV file, completely or not at all."""

from __future__ import annotations

import csv
import filecmp
import os
import secrets
from pathlib import Path

from fate_flow.components.base.errors import TO_REPLACE, ComponentError, shown
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
            unquoted.writerow((table.schema.sid, *table.schema.header))
            for row in table:
                # The csv module does not quote a carriage return, and without quotes it would end the line.
                (quoting if any("\r" in value for value in row) else unquoted).writerow(row)
            file.flush()
            os.fsync(file.fileno())
        _publish(unfinished, path, replaces=replaces)
    finally:
        unfinished.unlink(missing_ok=True)


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
