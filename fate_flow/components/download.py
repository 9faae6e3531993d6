"""Download: a table becomes a CSV file on this party's server."""

from __future__ import annotations

import csv
import logging
import os
import secrets
from pathlib import Path

from fate_flow.components.errors import ComponentError, shown
from fate_flow.components.table import Table
from fate_flow.components.task import Metric, Outcome, Task

log = logging.getLogger(__name__)


def run(task: Task) -> Outcome:
    """The file holds a header and every row, or is not touched at all."""
    path = Path(task.parameters["output_path"])
    if path.is_dir():
        raise ComponentError(f"output_path: {shown(str(path), 200)} is a folder, a file is needed")
    with Table(task.table_uri(task.parameters["namespace"], task.parameters["name"])) as table:
        _write(table, path, task.parameters.get("delimiter") or ",")
        count = table.count
    log.info("download done: %s rows", count)
    info = {"name": "download", "metric_type": "DOWNLOAD"}
    return Outcome({}, [Metric("download", "data_access", [("count", count)], info)], {"download_count": count})


def _write(table: Table, path: Path, delimiter: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with unfinished.open("x", encoding="utf-8", newline="") as file:
            plain, quoting = (
                csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=how)
                for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
            )
            plain.writerow((table.schema.sid, *table.schema.header))
            for row in table:
                # A carriage return is not quoted for its own sake, and without quotes it ends a line.
                (quoting if any("\r" in value for value in row) else plain).writerow(row)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
