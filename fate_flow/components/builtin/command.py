"""The collector of a `Command` task: it keeps files that the workers made, and turns CSV files into tables.

It runs once all ranks have ended well. Its messages contain names from the job, but nothing from the files.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from fate_flow.components.base.errors import ComponentError, shown
from fate_flow.components.base.file_copy import copy_whole
from fate_flow.components.tables.csv_source import BadCsv, CsvFormat, CsvSource, lines_of
from fate_flow.components.tables.table import DuplicateId, TableWriter
from fate_flow.components.worker.task import Outcome, TaskContext
from fate_flow.core.model.artifact import FILE_SCHEME
from fate_flow.core.model.program import WORK_FOLDERS, OutputFile, read_program


def run(task: TaskContext) -> Outcome:
    folders = [Path(uri.removeprefix(FILE_SCHEME)) for uri in task.inputs[WORK_FOLDERS]]
    tables: dict[str, str] = {}
    kept: dict[str, dict[str, object]] = {}
    for one in read_program(task.parameters).outputs:
        source, target = _found(folders[one.rank], one), task.outputs[one.name]
        if one.is_table:
            try:
                _make_table(task, source, target)
            except BadCsv as error:
                raise BadCsv(f"outputs: {one.name}: {error}") from error
            tables[one.name] = target
        else:
            kept[one.name] = _keep(source, Path(target.removeprefix(FILE_SCHEME)))
    return Outcome(tables=tables, files=kept)


def _found(folder: Path, one: OutputFile) -> Path:
    """Return the path of the file. Raises ComponentError if it is missing, or if a link leads out of the folder."""
    top = os.path.realpath(folder)
    real = os.path.realpath(os.path.join(top, one.path))
    if os.path.commonpath([top, real]) != top:
        raise ComponentError(f"outputs: {one.name}: {shown(one.path)} leads out of the working folder")
    if not os.path.isfile(real):
        raise ComponentError(f"outputs: {one.name}: rank {one.rank} has left no file {shown(one.path)}")
    return Path(real)


def _make_table(task: TaskContext, source: Path, uri: str) -> None:
    """Make a table of a CSV file; its first line has the names, its first column the ids."""
    layout = CsvFormat(delimiter=",", has_header=True, generates_sid=False, counts_sid=False)
    with CsvSource(source, layout) as csv, TableWriter(uri, csv.schema, made_by=task.task_id) as writer:
        try:
            writer.add(csv.rows())
            writer.close()
        except DuplicateId as error:
            first, second = islice(lines_of(source, layout, error.sid), 2)
            raise BadCsv(f"lines {first} and {second}: both have the same id") from error


def _keep(source: Path, target: Path) -> dict[str, object]:
    target.parent.mkdir(parents=True, exist_ok=True)
    size, digest = copy_whole(source, target)
    return {"bytes": size, "sha256": digest}
