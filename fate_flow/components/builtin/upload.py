"""Upload: a CSV file on this party's server becomes a table."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from fate_flow.components.base.errors import shown
from fate_flow.components.tables.csv_source import BadCsv, CsvFormat, CsvSource, lines_of
from fate_flow.components.tables.frame_meta import frame_columns
from fate_flow.components.tables.table import DuplicateId, Row, Schema, Table, TableExists, TableWriter, table_exists
from fate_flow.components.worker.task import Metric, Outcome, TaskContext
from fate_flow.core.model.grammar import LAST

log = logging.getLogger(__name__)

ROWS_PER_LOG_LINE = 100_000


def run(task: TaskContext) -> Outcome:
    """Make a table with all rows of the file, or none."""
    uri = task.table_uri(task.parameters["namespace"], task.parameters["name"])
    source = Path(task.parameters["file"])
    is_ours = task.has_made(uri)
    if is_ours and not source.exists():   # an earlier attempt made the table and removed its source
        return _outcome(task, uri)
    if table_exists(uri) and not is_ours and not task.parameters.get("destroy"):
        raise TableExists(
            f"table {shown(task.parameters['name'])} in namespace {shown(task.parameters['namespace'])} "
            "exists already; with destroy (--drop) it is overwritten"
        )
    try:
        _make_table(task, source, uri, overwrite=is_ours or bool(task.parameters.get("destroy")))
    except BadCsv as error:
        # The text does not name the file: a file that came with the request has a name that the server made up.
        raise BadCsv(f"the file for table {shown(task.parameters['name'])}, {error}") from error
    if task.parameters.get("remove_source"):
        source.unlink(missing_ok=True)
    return _outcome(task, uri)


def _make_table(task: TaskContext, source: Path, uri: str, *, overwrite: bool) -> None:
    with (
        CsvSource(source, _layout(task)) as csv,
        TableWriter(
            uri, _with_meta(task, csv.schema), made_by=task.task_id, overwrite=overwrite, keeps_last=_keeps_last(task)
        ) as writer,
    ):
        try:
            writer.add(_logged(csv.rows()))
            writer.close()
        except DuplicateId as error:
            first, second = islice(lines_of(source, _layout(task), error.sid), 2)
            raise BadCsv(
                f"lines {first} and {second}: both have the same id; with duplicate_ids: {LAST} the later "
                "row is kept; with extend_sid both are kept, with generated ids"
            ) from error


def _with_meta(task: TaskContext, schema: Schema) -> Schema:
    """Return the schema with the given `meta`. Raises ComponentError if it names a column that is not there."""
    meta = task.parameters.get("meta") or {}
    frame_columns(schema.sid, schema.header, meta)
    return replace(schema, meta=meta)


def _keeps_last(task: TaskContext) -> bool:
    return (task.parameters.get("duplicate_ids") or LAST) == LAST


def _layout(task: TaskContext) -> CsvFormat:
    given = task.parameters
    return CsvFormat(
        delimiter=given.get("id_delimiter") or ",",
        has_header=bool(given.get("head", 1)),
        generates_sid=bool(given.get("extend_sid")),
        counts_sid=bool(given.get("auto_increasing_sid")),
        id_column=given.get("id_column") or _sample_id(given),
        feature_column=given.get("feature_column"),
    )


def _sample_id(given: Mapping[str, Any]) -> str | None:
    """Return the id column that the `meta` names; with `extend_sid` it names what is generated."""
    return None if given.get("extend_sid") else (given.get("meta") or {}).get("sample_id_name")


def _logged(rows: Iterator[Row]) -> Iterator[Row]:
    for number, row in enumerate(rows, 1):
        yield row
        if number % ROWS_PER_LOG_LINE == 0:
            log.info("uploaded %s rows", number)


def _outcome(task: TaskContext, uri: str) -> Outcome:
    with Table(uri) as table:
        count, replaced, schema = table.count, table.replaced, table.schema
    info = {
        "table_name": task.parameters["name"],
        "namespace": task.parameters["namespace"],
        "partition": task.parameters.get("partition") or 1,
        "upload_count": count,
        "replaced_rows": replaced,
    }
    log.info("upload done: %s rows", count)
    if replaced:
        log.warning("%s rows were replaced by a later one with the same id", replaced)
    kind = "table_bind" if task.parameters.get("is_bound") else "upload"      # a bind is not in FATE's upload history
    # `count` is FATE's key; its upload history calls the same number `upload_count`.
    metric = Metric(
        kind, "data_access", [("count", count), ("upload_count", count)],
        {"name": "upload", "metric_type": "UPLOAD", **info},
    )
    return Outcome({"data": uri}, [metric], {**info, "schema": schema.as_json()})
