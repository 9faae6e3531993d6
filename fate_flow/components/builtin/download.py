"""Download: a table becomes a CSV file on this party's server."""

from __future__ import annotations

import logging
from pathlib import Path

from fate_flow.components.tables.csv_target import write_csv
from fate_flow.components.tables.table import Table
from fate_flow.components.worker.task import Metric, Outcome, TaskContext

log = logging.getLogger(__name__)


def run(task: TaskContext) -> Outcome:
    """Write a header and all rows to the file, or leave it as it was. An existing file is replaced, as in FATE."""
    path = Path(task.parameters["output_path"])
    with Table(task.table_uri(task.parameters["namespace"], task.parameters["name"])) as table:
        write_csv(table, path, task.parameters.get("delimiter") or ",", replaces=True)
        count = table.count
    log.info("download done: %s rows", count)
    info = {"name": "download", "metric_type": "DOWNLOAD"}
    return Outcome({}, [Metric("download", "data_access", [("count", count)], info)], {"download_count": count})
