"""Reading a file of grants from the disk."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from fate_flow.api.v1.jobs.job_file import read_yaml
from fate_flow.core.access.limits import Grants
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.jobspec.grants_file import read_grants
from fate_flow.jobspec.text.lines import Lines


def load_grants(path: Path, modules: Collection[str], own: str) -> dict[str, Grants]:
    """Return the grants in a file, by party id. Raise BadSettings with a line for each problem.

    `modules`: the components of this server; `own`: the id of this party."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadSettings(f"{path}: cannot be read: {os_error_text(error)}") from error
    except UnicodeDecodeError as error:
        raise BadSettings(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from error
    reading = read_yaml(text, str(path))
    grants, problems = read_grants(reading.value, modules, own)
    if problems:
        lines = Lines(reading.lines)
        raise BadSettings("\n".join(f"{path}: {lines.in_message(problem)}" for problem in problems))
    return grants
