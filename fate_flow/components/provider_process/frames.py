"""Data frames that the worker of a provider makes of our tables, for its component; and the tables that it makes of the
data frames of the component, so that people and components of ours can read them.

This runs in the Python of the provider, in processes of its own, with FATE's own code for frames (`PACKAGE.arch`). Rows
pass one by one, or a block of FATE's at a time.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fate_flow.components.base.errors import ComponentError
from fate_flow.components.provider_process.task_files import (
    CONFIG,
    INPUT_ERROR,
    INPUTS,
    RESULT,
    TABLES,
    TABLES_MADE,
    write_whole,
)
from fate_flow.components.tables.frame_meta import (
    FrameColumn,
    FrameColumns,
    frame_columns,
    meta_of,
    text_in_frame,
    text_of,
)
from fate_flow.components.tables.table import NoSuchTable, Row, Schema, Table, TableWriter
from fate_flow.core.model.artifact import DATAFRAME, INDEX, TABLE
from fate_flow.core.text.yaml_text import read_yaml_text, yaml_text

log = logging.getLogger("fate_flow.provider")

_BETWEEN = "\x1f"              # the values of a row; the unit separator of ASCII
_ROWS_A_PARTITION = 16         # at least, so that none is empty: FATE's frames cannot have such
_SCHEME = "standalone://"


def make_inputs(package: str, folder: str) -> int:
    """Make the inputs of the worker with this folder, and name them in the configuration of its component.

    Return the exit code: 0 if all are made."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    place, key = Path(folder), ""
    try:
        arch = fate_of(package)
        config = read_yaml_text((place / CONFIG).read_text(encoding="utf-8"))
        for one in json.loads((place / INPUTS).read_text(encoding="utf-8")):
            key = one["key"]
            made = {"uri": one["uri"], "type_name": one["type_name"], "metadata": _made(arch, config, one)}
            if one["index"] is None:
                config["input_artifacts"][key] = made
            else:
                config["input_artifacts"][key][one["index"]] = made
        write_whole(place / CONFIG, yaml_text(config))
    except ComponentError as error:
        return _failed(place, key, error.message)
    except Exception as error:
        log.exception("input %s", key)
        return _failed(place, key, f"no data frame could be made: {type(error).__name__}; that party's log says more")
    return 0


def _failed(place: Path, key: str, why: str) -> int:
    """Leave the reason for the result file. Other parties read it, so it has neither names of tables nor values."""
    write_whole(place / INPUT_ERROR, f"input {key}: {why}" if key else why)
    return 1


def write_tables(package: str, folder: str) -> int:
    """Write each data frame that the component has made as a table, too, and say which.

    Return the exit code: 0 if all are written. Without them the task succeeds nevertheless: the next tasks of the
    provider read the data frames."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    place, made, code = Path(folder), dict[str, list[dict[str, Any]]](), 0
    config = read_yaml_text((place / CONFIG).read_text(encoding="utf-8"))
    said = json.loads((place / RESULT).read_text(encoding="utf-8"))
    outputs = said["io_meta"]["outputs"]["data"] if said["status"]["code"] == 0 else {}
    for key, uri in json.loads((place / TABLES).read_text(encoding="utf-8")).items():
        put = outputs.get(key) or []
        for index, frame in enumerate(put if isinstance(put, list) else [put]):
            try:
                if frame.get("consumed") is not False and frame["type_name"] == DATAFRAME:
                    table = _written(fate_of(package), config, frame, uri.replace(INDEX, str(index)))
                    made.setdefault(key, []).append(table)
            except Exception:
                code = 1
                log.exception("output %s has no table: its data frame could not be written as one", key)
    write_whole(place / TABLES_MADE, json.dumps(made))
    return code


def fate_of(package: str) -> Any:
    """Return what is used of FATE's own code. Raises ComponentError if the provider has none."""
    try:
        arch, computing = import_module(f"{package}.arch"), import_module(f"{package}.arch.computing")
        dataframe = import_module(f"{package}.arch.dataframe")
    except ModuleNotFoundError as error:
        raise ComponentError(f"this provider makes no data frames of tables: it has no {error.name}") from error
    return SimpleNamespace(
        context=arch.Context, uri=arch.URI.from_string, builder=computing.ComputingBuilder,
        reader=dataframe.TableReader, serialize=dataframe.serialize,
    )  # fmt: skip


@contextmanager
def session_in(arch: Any, data_dir: str, name: str, cores: int) -> Iterator[Any]:
    """Open FATE's tables in a folder. What the session keeps meanwhile is in a namespace of its name, and removed."""
    session = arch.builder(name).build_standalone(data_dir=data_dir, options={"task_cores": cores})
    try:
        yield session
    finally:
        session.stop()


def _made(arch: Any, config: Mapping[str, Any], one: Mapping[str, Any]) -> dict[str, Any]:
    """Make one input; return its metadata."""
    computing = config["conf"]["computing"]["metadata"]
    options, source = computing["options"], one["made_from"]
    cores, name = int(options.get("task_cores") or 1), f"{computing['computing_id']}_inputs"
    folder = one["uri"].removeprefix(_SCHEME).rsplit("/", 2)[0]
    with session_in(arch, folder, name, cores) as session, _table_at(source["uri"]) as table:
        columns = frame_columns(table.schema.sid, table.schema.header, table.schema.meta)
        partitions = max(1, min(int(options.get("partitions") or 1), table.count // _ROWS_A_PARTITION))
        schema = _saved(arch, session, table, columns, partitions, one)
        log.info("input %s: %s rows of table %s as %s", one["key"], table.count, table.name, one["type_name"])
    return {"metadata": {"schema": schema, "options": {"partitions": partitions}}}


def _saved(
    arch: Any, session: Any, table: Table, columns: FrameColumns, partitions: int, one: Mapping[str, Any]
) -> dict[str, Any]:
    """Save the table as FATE has it; return its schema. What FATE has made meanwhile is gone with this call."""
    rows = session.parallelize(_rows(table, columns), include_key=True, partition=partitions)
    for_reader, place = _reader_options(columns), arch.uri(one["uri"])
    if one["type_name"] != DATAFRAME:
        rows.save(uri=place, schema=for_reader, options=None)
        return for_reader
    schema: dict[str, Any] = {}
    context = arch.context(computing=session)
    frame = arch.reader(**for_reader).to_frame(context, rows)
    arch.serialize(context, frame).save(uri=place, schema=schema, options=None)
    return schema


def _written(arch: Any, config: Mapping[str, Any], frame: Mapping[str, Any], uri: str) -> dict[str, Any]:
    """Write a data frame as a table; return the artifact."""
    computing, schema = config["conf"]["computing"]["metadata"], frame["metadata"]["metadata"]["schema"]
    folder = frame["uri"].removeprefix(_SCHEME).rsplit("/", 2)[0]
    cores = int(computing["options"].get("task_cores") or 1)
    fields = schema["schema_meta"]["fields"]
    names, kinds = [one["name"] for one in fields], [one["dtype"] for one in fields]
    new = Schema(tuple(names[1:]), names[0], meta_of(fields))
    with session_in(arch, folder, f"{computing['computing_id']}_tables", cores) as session:
        stored = session.load(uri=arch.uri(frame["uri"]), schema=schema, options=None)
        with TableWriter(uri, new, made_by=config["task_id"], overwrite=True) as writer:
            for _, rows in stored.collect():
                writer.add([text_of(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in rows)
    with Table(uri) as table:
        return {"uri": uri, "type_name": TABLE, "metadata": table.metadata()}


@contextmanager
def _table_at(uri: str) -> Iterator[Table]:
    try:
        with Table(uri) as table:
            yield table
    except NoSuchTable as error:
        log.error("%s", error.message)
        raise ComponentError("the table is no longer here; that party's log names it") from error
    except sqlite3.Error as error:
        log.exception("table %s", uri)
        raise ComponentError("the table cannot be read; that party's log names it") from error


def _reader_options(columns: FrameColumns) -> dict[str, Any]:
    """Return what FATE's reader has to know of the rows."""
    names = (columns.sample_id, columns.match_id.name, *(one.name for one in columns.others))
    return {
        **columns.options, "sample_id_name": columns.sample_id, "header": _BETWEEN.join(names), "delimiter": _BETWEEN,
    }  # fmt: skip


def _rows(table: Table, columns: FrameColumns) -> Iterator[tuple[str, str]]:
    """Yield the id and the values of each row, as FATE's reader takes them. Raises ComponentError."""
    every = (columns.match_id, *columns.others)
    for number, row in enumerate(table, 1):
        yield row[0], _BETWEEN.join([_text(row, one, number, columns.missing) for one in every])


def _text(row: Row, column: FrameColumn, number: int, missing: frozenset[str]) -> str:
    text = text_in_frame(row[column.place], column, missing)
    if text is None or _BETWEEN in text:
        log.error("row %s: column %s has a value that is no %s", number, column.name, column.type)
        why = f"a value in row {number} of the table is no {column.type}"
        raise ComponentError(f"{why}; that party's log names the column")
    return text


