"""Writer: a table becomes another table of this party, a CSV file on its server, or a table of a MySQL server."""

from __future__ import annotations

import logging
from pathlib import Path

from fate_flow.components.base.errors import TO_REPLACE, shown
from fate_flow.components.tables.csv_target import write_csv
from fate_flow.components.tables.mysql_target import write_mysql
from fate_flow.components.tables.table import Table, TableExists, TableWriter, table_exists
from fate_flow.components.worker.task import Metric, Outcome, TaskContext

log = logging.getLogger(__name__)


def run(task: TaskContext) -> Outcome:
    """Write the table to each target, completely or not at all."""
    given = task.parameters
    replaces = bool(given.get("destroy"))
    with Table(task.table_uri(given["namespace"], given["name"])) as table:
        made = _copy(task, table) if given.get("output_name") else {}
        if given.get("output_path"):
            write_csv(table, Path(given["output_path"]), given.get("delimiter") or ",", replaces=replaces)
        if given.get("target"):
            write_mysql(table, task.storage, given["target"], task.task_id, replaces=replaces)
        count = table.count
    log.info("writer done: %s rows", count)
    info = {"name": "writer", "metric_type": "WRITER"}
    return Outcome(made, [Metric("writer", "data_access", [("count", count)], info)], {"count": count})


def _copy(task: TaskContext, table: Table) -> dict[str, str]:
    namespace, name = task.parameters["output_namespace"], task.parameters["output_name"]
    uri = task.table_uri(namespace, name)
    may_replace = task.parameters.get("destroy") or task.has_made(uri)
    if table_exists(uri) and not may_replace:
        raise TableExists(
            f"table {shown(name)} in namespace {shown(namespace)} exists already; {TO_REPLACE}"
        )
    with TableWriter(uri, table.schema, made_by=task.task_id, overwrite=bool(may_replace)) as writer:
        writer.add(table)
    return {"data": uri}
