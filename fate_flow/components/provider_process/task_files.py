"""The files of a worker: ours, and those in the form that FATE 2's components read and write.

Only the standard library is used: the process that reads the configuration must not have threads yet.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

CONFIG, RESULT, METRICS = "provider_task.yaml", "provider_result.json", "provider_metric.json"
"""The names of the provider's files in the folder of the worker."""

MESSAGE_BYTES = 4 * 1024 * 1024
"""How much FATE puts into one message of a partition."""
_LONGEST = 300
_FILE = re.compile(r'^\s*File "([^"]+)", line (\d+)')
_ERROR = re.compile(r"^([A-Za-z_][\w.]*)(: |$)")
_OVERVIEWS = ("data_overview", "model_overview")


def provider_config(ours: Mapping[str, Any], folder: Path, port: int | None) -> dict[str, Any]:
    """Return the task configuration for the component of a provider.

    `port`: of FATE's transport on loopback. Without one (None), the component gets the exchange, as ours do."""
    conf = {key: value for key, value in ours["conf"].items() if key != "storage"}
    outputs = dict(ours["output_artifacts"])
    if "metric" in outputs:
        outputs["metric"] = {**outputs["metric"], "uri": f"file://{folder / METRICS}"}
    conf["task_final_meta_path"] = str(folder / RESULT)
    if frames := _frames_folder(ours):
        computing = conf["computing"]["metadata"]
        options = {**computing.get("options", {}), "data_dir": frames}
        conf["computing"] = {**conf["computing"], "metadata": {**computing, "options": options}}
    if port is not None:
        conf["federation"] = _over_transport(conf["federation"]["metadata"], port)
    return {**ours, "output_artifacts": outputs, "conf": conf}


def _frames_folder(ours: Mapping[str, Any]) -> str:
    """Return the folder with the data frames of this seat; empty if the task has none. FATE takes all from one."""
    puts = [*ours["input_artifacts"].values(), *ours["output_artifacts"].values()]
    for one in (one for put in puts for one in (put if isinstance(put, list) else [put])):
        if one["type_name"] == "dataframe":
            return str(one["uri"]).removeprefix("standalone://").rsplit("/", 2)[0]
    return ""


def _over_transport(metadata: Mapping[str, Any], port: int) -> dict[str, Any]:
    osx = {"host": "127.0.0.1", "port": port, "mode": "message_queue", "max_message_size": MESSAGE_BYTES}
    kept = {key: metadata[key] for key in ("federation_id", "parties")}
    return {"type": "osx", "metadata": {**kept, "osx_config": osx}}


def our_result(said: Mapping[str, Any], ours: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the result file for our server, and write the metrics where it looks for them.

    `said`: the result file of the component. Raises LookupError, TypeError, ValueError or AttributeError if it is
    malformed."""
    status = said["status"]
    if status["code"] != 0:
        text = cause(str(status.get("exceptions") or ""), str(ours["task_name"]))
        return {"status": {"code": -1, "exceptions": text}, "io_meta": {"inputs": {}, "outputs": _NOTHING}}
    made = said.get("io_meta", {}).get("outputs", {})
    outputs = {
        section: {key: list(_entries(said)) for key, said in (made.get(section) or {}).items()}
        for section in ("data", "model")
    }
    metric = ours["output_artifacts"].get("metric")
    outputs["metric"] = {"metric": [{**metric, "metadata": {}}]} if metric and _write_metrics(folder, metric) else {}
    return {
        "status": {"code": 0, "exceptions": None}, "io_meta": {"inputs": {}, "outputs": outputs}, "summary": {},
    }  # fmt: skip


_NOTHING: Mapping[str, Any] = {"data": {}, "model": {}, "metric": {}}


def _entries(said: Any) -> Iterator[dict[str, Any]]:
    """Yield what was written of one output, without what people only look at."""
    for one in said if isinstance(said, list) else [said]:
        if one.get("consumed") is not False:
            metadata = {key: value for key, value in (one.get("metadata") or {}).items() if key not in _OVERVIEWS}
            yield {"uri": one["uri"], "type_name": one["type_name"], "metadata": metadata}


def cause(trace: str, name: str) -> str:
    """Return one line for other parties: the type of an error and its place, since its text may contain a value."""
    place, kind, is_due = "", "", True
    for line in trace.splitlines():
        if found := _FILE.match(line):
            place, is_due = f" at {'/'.join(found[1].split('/')[-3:])} line {found[2]}", True
        elif is_due and (error := _ERROR.match(line)):       # the first line after the frames; others are of its text
            kind, is_due = error[1], False
    return f"{name} failed: {kind or 'an error'}{place}; this party's log has the traceback"[:_LONGEST]


def _write_metrics(folder: Path, metric: Mapping[str, Any]) -> bool:
    """Write the metrics in our form. Return False if the component has written none."""
    try:
        said = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    write_whole(Path(str(metric["uri"]).removeprefix("file://")), json.dumps([_metric(one) for one in said]))
    return True


def _metric(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return a metric of FATE 2 in our form: pairs of a step, or of a key, and its value."""
    groups = "/".join(str(group.get("name", "")) for group in one.get("groups") or ())
    data, meta = one.get("data"), {"metric_type": one.get("type"), "step_axis": one.get("step_axis")}
    return {"namespace": groups or "default", "name": str(one["name"]), "data": list(_pairs(data)), "meta": meta}


def _pairs(data: Any) -> Iterator[list[Any]]:
    if isinstance(data, Mapping):
        yield from ([key, value] for key, value in data.items())
    else:
        for number, one in enumerate(data if isinstance(data, list) else [data]):
            is_step = isinstance(one, Mapping) and {"metric", "step"} <= one.keys()
            yield [one["step"], one["metric"]] if is_step else [number, one]


def write_whole(path: Path, text: str) -> None:
    """Write a file that only this user may read, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(draft, path)
