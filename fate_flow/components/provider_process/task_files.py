"""The files of a worker: ours, and those in the form that FATE 2's components read and write.

Only the standard library is used: the process that reads the configuration must not have threads yet.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fate_flow.core.metrics.form import Kept

CONFIG, RESULT = "provider_task.yaml", "provider_result.json"
"""The names of the provider's files in the folder of the worker."""

INPUTS, INPUT_ERROR = "provider_inputs.json", "provider_input_error.txt"
"""The inputs that have to be made before the component begins, and in one line why that failed."""

TABLES, TABLES_MADE = "provider_tables.json", "provider_tables_made.json"
"""Where each data frame that is an output becomes a table, too, by the key of the output; and the tables."""
_MADE_FROM, _AS_TABLE = "made_from", "as_table"

MESSAGE_BYTES = 4 * 1024 * 1024
"""How much FATE puts into one message of a partition."""
_LONGEST = 300
_FILE = re.compile(r'^\s*File "([^"]+)", line (\d+)')
_ERROR = re.compile(r"^([A-Za-z_][\w.]*)(: |$)")
_OVERVIEWS = ("data_overview", "model_overview")


def provider_config(ours: Mapping[str, Any], folder: Path, port: int | None, metrics: str) -> dict[str, Any]:
    """Return the task configuration for the component of a provider.

    `port`: of FATE's transport on loopback. Without one (None), the component gets the exchange, as ours do. `metrics`:
    the address to which it sends its metrics."""
    conf = {key: value for key, value in ours["conf"].items() if key != "storage"}
    inputs = {key: _for_component(one) for key, one in ours["input_artifacts"].items()}
    outputs = {key: _for_component(one) for key, one in ours["output_artifacts"].items()}
    if "metric" in outputs:
        outputs["metric"] = {**outputs["metric"], "uri": metrics}
    conf["task_final_meta_path"] = str(folder / RESULT)
    if frames := _frames_folder(ours):
        computing = conf["computing"]["metadata"]
        options = {**computing.get("options", {}), "data_dir": frames}
        conf["computing"] = {**conf["computing"], "metadata": {**computing, "options": options}}
    if port is not None:
        conf["federation"] = _over_transport(conf["federation"]["metadata"], port)
    return {**ours, "input_artifacts": inputs, "output_artifacts": outputs, "conf": conf}


def _for_component(put: Any) -> Any:
    """Return an artifact, or a list of them, without what only this wrapper reads."""
    if isinstance(put, list):
        return [_for_component(one) for one in put]
    return {key: value for key, value in put.items() if key not in (_MADE_FROM, _AS_TABLE)}


def inputs_to_make(ours: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the inputs that are made from others, each with its key and, in a list, its index."""
    found = []
    for key, put in ours["input_artifacts"].items():
        for index, one in enumerate(put if isinstance(put, list) else [put]):
            if _MADE_FROM in one:
                found.append({**one, "key": key, "index": index if isinstance(put, list) else None})
    return found


def tables_to_write(ours: Mapping[str, Any]) -> dict[str, str]:
    """Return the uri of the table for each output that is a data frame."""
    return {key: one[_AS_TABLE]["uri"] for key, one in ours["output_artifacts"].items() if _AS_TABLE in one}


def failure_of_inputs(folder: Path) -> dict[str, Any] | None:
    """Return our result file of a worker whose inputs could not be made; None if they were, or if there are none."""
    try:
        text = (folder / INPUT_ERROR).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return {"status": {"code": -1, "exceptions": text}, "io_meta": {"inputs": {}, "outputs": _NOTHING}}


def _frames_folder(ours: Mapping[str, Any]) -> str:
    """Return the folder with the data frames of this seat; empty if the task has none. FATE takes all from one."""
    puts = [*ours["input_artifacts"].values(), *ours["output_artifacts"].values()]
    for one in (one for put in puts for one in (put if isinstance(put, list) else [put])):
        if one["type_name"] == "dataframe" or _MADE_FROM in one:
            return str(one["uri"]).removeprefix("standalone://").rsplit("/", 2)[0]
    return ""


def _over_transport(metadata: Mapping[str, Any], port: int) -> dict[str, Any]:
    osx = {"host": "127.0.0.1", "port": port, "mode": "message_queue", "max_message_size": MESSAGE_BYTES}
    kept = {key: metadata[key] for key in ("federation_id", "parties")}
    return {"type": "osx", "metadata": {**kept, "osx_config": osx}}


def our_result(said: Mapping[str, Any], ours: Mapping[str, Any], metrics: Sequence[Kept]) -> dict[str, Any]:
    """Return the result file for our server, and write the metrics where it looks for them.

    `said`: the result file of the component; `metrics`: what it has reported. Raises LookupError, TypeError, ValueError
    or AttributeError if the file is malformed."""
    status = said["status"]
    if status["code"] != 0:
        text = cause(str(status.get("exceptions") or ""))
        return {"status": {"code": -1, "exceptions": text}, "io_meta": {"inputs": {}, "outputs": _NOTHING}}
    made = said.get("io_meta", {}).get("outputs", {})
    outputs = {
        section: {key: list(_entries(said)) for key, said in (made.get(section) or {}).items()}
        for section in ("data", "model")
    }
    metric = ours["output_artifacts"].get("metric")
    outputs["metric"] = {}
    if metric and metrics:
        write_whole(Path(str(metric["uri"]).removeprefix("file://")), json.dumps(list(metrics)))
        outputs["metric"] = {"metric": [{**metric, "metadata": {}}]}
    return {
        "status": {"code": 0, "exceptions": None}, "io_meta": {"inputs": {}, "outputs": outputs}, "summary": {},
    }  # fmt: skip


def add_tables(result: Mapping[str, Any], folder: Path) -> None:
    """Add the tables that were made of data frames to our result file, each beside its data frame."""
    with suppress(FileNotFoundError):
        made = json.loads((folder / TABLES_MADE).read_text(encoding="utf-8"))
        for key, tables in made.items():
            result["io_meta"]["outputs"]["data"].setdefault(key, []).extend(tables)


_NOTHING: Mapping[str, Any] = {"data": {}, "model": {}, "metric": {}}


def _entries(said: Any) -> Iterator[dict[str, Any]]:
    """Yield what was written of one output, without what people only look at."""
    for one in said if isinstance(said, list) else [said]:
        if one.get("consumed") is not False:
            metadata = {key: value for key, value in (one.get("metadata") or {}).items() if key not in _OVERVIEWS}
            yield {"uri": one["uri"], "type_name": one["type_name"], "metadata": metadata}


def metric_files(said: Mapping[str, Any], folder: Path) -> Iterator[Path]:
    """Yield the files with metrics that a result file names, in the folder of the worker. Raises as `our_result`."""
    for entry in said.get("io_meta", {}).get("outputs", {}).get("metric", {}).values():
        for one in entry if isinstance(entry, list) else [entry]:
            path = Path(str(one.get("uri", "")).removeprefix("file://"))
            if path.is_absolute() and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
                yield path


def cause(trace: str) -> str:
    """Return one line for other parties: the type of an error and its place, since its text may contain a value.

    Its reader knows the task and the party."""
    place, kind, is_due = "", "", True
    for line in trace.splitlines():
        if found := _FILE.match(line):
            place, is_due = f" at {'/'.join(found[1].split('/')[-3:])} line {found[2]}", True
        elif is_due and (error := _ERROR.match(line)):       # the first line after the frames; others are of its text
            kind, is_due = error[1], False
    return f"{kind or 'an error'}{place}; that party's log has the traceback"[:_LONGEST]


def write_whole(path: Path, text: str) -> None:
    """Write a file that only this user may read, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(draft, path)
