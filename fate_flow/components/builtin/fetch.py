"""Fetch: a table of a MySQL server becomes a table of this party."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pymysql.cursors import SSCursor

from fate_flow.components.base.errors import ComponentError, shown
from fate_flow.components.tables.columns import chosen_columns
from fate_flow.components.tables.mysql_server import open_server, quoted
from fate_flow.components.tables.table import DuplicateId, Row, Schema, Table, TableExists, TableWriter, table_exists
from fate_flow.components.worker.task import Metric, Outcome, TaskContext
from fate_flow.core.model.grammar import LAST

log = logging.getLogger(__name__)


def run(task: TaskContext) -> Outcome:
    """Make a table with all rows of the server's table at one moment, as text, or none."""
    given = task.parameters
    uri = task.table_uri(given["namespace"], given["name"])
    may_replace = bool(given.get("destroy")) or task.has_made(uri)
    if table_exists(uri) and not may_replace:
        raise TableExists(
            f"table {shown(given['name'])} in namespace {shown(given['namespace'])} exists already; it is "
            'replaced with --drop of flow table bind, "drop": 1 in the conf of flow table add, or destroy among the '
            "parameters of a Fetch"
        )
    with open_server(task.storage, cursorclass=SSCursor) as connection:
        schema = _schema(connection, given)
        # By default two rows with one id are an error: a server's table has no order, so none of them is the last.
        keeps_last = given.get("duplicate_ids") == LAST
        with TableWriter(
            uri, schema, made_by=task.task_id, overwrite=may_replace, keeps_last=keeps_last
        ) as writer:
            writer.add(_rows(connection, given["source"], schema))
            try:
                writer.close()
            except DuplicateId as error:
                raise ComponentError(
                    f"source: an id is twice in column {shown(schema.sid)} of {shown(given['source'])}; id_column can "
                    f"name another one, and with duplicate_ids: {LAST} the row that comes last is kept"
                ) from error
    return _outcome(task, uri, schema)


def _schema(connection: Any, given: Any) -> Schema:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {quoted(given['source'])} LIMIT 0")  # noqa: S608  # quoted
        columns = [str(one[0]) for one in cursor.description]
    return chosen_columns(columns, given.get("id_column"), given.get("feature_column"))


def _rows(connection: Any, source: str, schema: Schema) -> Iterator[Row]:
    columns = ", ".join(quoted(one) for one in (schema.sid, *schema.header))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM {quoted(source)}")  # noqa: S608  # quoted
        yield from _texts(cursor, (schema.sid, *schema.header))


def _texts(rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> Iterator[Row]:
    number = 0
    for number, row in enumerate(rows, 1):
        if row[0] is None or not _text(row[0], columns[0], number).strip():
            raise ComponentError(f"source: row {number} has no id in column {shown(columns[0])}")
        yield tuple(_text(value, column, number) for value, column in zip(row, columns, strict=True))
    if not number:
        raise ComponentError("source: the table has no rows")


def _text(value: Any, column: str, number: int) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ComponentError(f"source: row {number}: column {shown(column)} is no text in UTF-8") from error
    return "" if value is None else str(value)


def _outcome(task: TaskContext, uri: str, schema: Schema) -> Outcome:
    with Table(uri) as table:
        count = table.count
    log.info("fetch done: %s rows", count)
    info = {"name": "fetch", "metric_type": "FETCH"}
    summary = {
        "table_name": task.parameters["name"], "namespace": task.parameters["namespace"], "count": count,
        "schema": schema.as_json(),
    }  # fmt: skip
    return Outcome({"data": uri}, [Metric("fetch", "data_access", [("count", count)], info)], summary)
