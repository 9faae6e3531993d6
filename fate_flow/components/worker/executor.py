"""Runs one component inside its worker process, by the contract in docs/reference/contracts.md.

Every run ends with a result file, unless the process is killed: code 0, or code -1 with one line that names the cause.
This line is sent to the initiator. It contains the text of a `ComponentError`, which is written for that purpose. For
any other exception it only names the type and the place, because the text may contain a value. The traceback stays in
the log.
"""

from __future__ import annotations

import json
import logging
import logging.config
import os
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import yaml

from fate_flow.components.base.errors import BadConfig, ComponentError, shown
from fate_flow.components.base.log_file import with_lasting_files
from fate_flow.components.providers.description import ComponentInfo
from fate_flow.components.providers.table import PROVIDERS
from fate_flow.components.tables.table import Table
from fate_flow.components.worker.task import Outcome, TaskContext, read_task
from fate_flow.core.model.artifact import FILE, METRIC, TABLE, Artifact
from fate_flow.core.model.errors import FlowError
from fate_flow.core.text.exit_codes import NO_RESULT
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.core.text.yaml_text import read_yaml_text

log = logging.getLogger(__name__)

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

OK, FAILED = 0, -1
MAX_LINE = 500


class Component(Protocol):
    """The interface of a component's module."""

    def run(self, task: TaskContext) -> Outcome: ...


@dataclass(frozen=True)
class Result:
    """The content of the result file."""

    code: int
    exceptions: str | None = None
    outputs: Mapping[str, Mapping[str, object]] | None = None
    summary: Mapping[str, object] | None = None

    def as_json(self) -> dict[str, object]:
        outputs = {"data": {}, "model": {}, "metric": {}, **(self.outputs or {})}
        return {
            "status": {"code": self.code, "exceptions": self.exceptions},
            "io_meta": {"inputs": {}, "outputs": outputs},
            "summary": dict(self.summary or {}),
        }


def execute(config_path: Path, result_path: Path) -> int:
    """Run the component and return the exit code: 0 if it succeeded, 1 if not; NO_RESULT if the result file cannot be
    written."""
    started = time.monotonic()
    result = _result_of(config_path)
    try:
        _write_whole(result_path, json.dumps(result.as_json()))
    except OSError as error:         # the server gets only the exit code then
        log.error("%s cannot be written: %s; it would say: %s", result_path, os_error_text(error), result.exceptions)
        return NO_RESULT
    elapsed = round((time.monotonic() - started) * 1000)
    log.info("worker TaskExecutor, process role: ProcessRole.WORKER, pid: %s, elapsed: %s ms", os.getpid(), elapsed)
    return 0 if result.code == OK else 1


def _result_of(config_path: Path) -> Result:
    try:
        config = read_config(config_path)
        _set_up_logging(config)
        log.info("enter TaskExecutor worker in subprocess, pid: %s", os.getpid())
        task = read_task(config)
    except Exception as error:  # noqa: BLE001  # the result file must say why
        return _failure("the task configuration", error, "task configuration: ")
    return _run(task)


def _run(task: TaskContext) -> Result:
    log.info("run %s task", task)
    try:
        info = _component_info(task)
        parameters = json.dumps({info.parameter_group: task.parameters}, indent=1, default=str)
        log.info("component parameters on party:\n%s", parameters)
        component = cast(Component, import_module(PROVIDERS.of(info).python_module(info)))
        result = _success(task, component.run(task))
    except Exception as error:  # noqa: BLE001  # the result file must say why
        result = _failure(f"{task.name} on {task.me}", error)
    _say_finish(f"finish {task} with {'success' if result.code == OK else 'failed'}")
    return result


def _component_info(task: TaskContext) -> ComponentInfo:
    """Return the description of the task's component. Raises BadConfig if it may not run with these parameters."""
    info = PROVIDERS.find(task.component)
    if info is None:
        raise BadConfig(f"component: there is no component {shown(task.component)}")
    problems = info.check(task.parameters, task.me.role)
    if problems:
        raise BadConfig("; ".join(problems))
    for warning in info.warnings(task.parameters):
        log.warning(warning)
    return info


def _success(task: TaskContext, outcome: Outcome) -> Result:
    tables = {key: [_table(uri).as_json()] for key, uri in outcome.tables.items()}
    files = {key: [Artifact(FILE, task.outputs[key], meta).as_json()] for key, meta in outcome.files.items()}
    outputs: dict[str, dict[str, object]] = {"data": {**tables, **files}}
    if task.metric_path is not None:
        _write_whole(task.metric_path, json.dumps([metric.as_json() for metric in outcome.metrics]))
        outputs["metric"] = {"metric": [Artifact(METRIC, task.outputs["metric"]).place]}
    return Result(OK, outputs=outputs, summary=outcome.summary)


def _table(uri: str) -> Artifact:
    with Table(uri) as table:
        return Artifact(TABLE, uri, table.metadata())


def _failure(what: str, error: Exception, prefix: str = "") -> Result:
    """Log an error and return its result. The message need not name task and party, which its reader knows."""
    log.error("%s failed\n%s", what, "".join(traceback.format_exception(error)))
    return Result(FAILED, one_line(f"{prefix}{_error_text(error)}"))


def _error_text(error: Exception) -> str:
    if isinstance(error, FlowError):
        return error.message
    said = error.strerror if isinstance(error, OSError) else ""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "fate_flow" in frame.filename]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{said or f'unexpected {type(error).__name__}'}{place}; that party's log has the traceback"


def one_line(text: str) -> str:
    """Return the text as one line of printable characters, short enough for a database column."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}..."


def _say_finish(line: str) -> None:
    log.info(line)
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()   # a forked worker may end without the interpreter's own flush


def read_config(path: Path) -> Any:
    """Read the task configuration, which may be any YAML, but is what the server writes almost always."""
    try:
        text = path.read_text(encoding="utf-8")
        with suppress(ValueError):
            return read_yaml_text(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506  # a safe loader, in C
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not YAML"
        raise BadConfig(f"{path.name} cannot be read: {why}") from error


def _set_up_logging(config: Any) -> None:
    """Set up logging by the configuration; to stderr if it has none."""
    try:
        wanted = config["conf"]["logger"]["config"]
    except (KeyError, TypeError):
        logging.basicConfig(level=logging.INFO)
        return
    try:
        # A forked worker has imported everything before, and must keep the existing loggers.
        logging.config.dictConfig({**with_lasting_files(wanted), "disable_existing_loggers": False})
    except (ValueError, TypeError, AttributeError, OSError) as error:
        raise ComponentError(f"conf.logger.config: logging cannot be set up: {error}") from error


def _write_whole(path: Path, text: str) -> None:
    """Write the file atomically: a reader sees all of it or nothing."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
