"""Read a user's files and build requests from them; errors name the file, the line and the column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from fate_flow.cli.input.options import given
from fate_flow.jobspec.text.json_text import read_json_text


class BadFile(click.ClickException):
    """A file cannot be used."""

    exit_code = 2


def submission(conf_path: str | None, dsl_path: str | None, job_file: str | None = None) -> dict[str, Any]:
    """Return the body of a submit: from one job file, or from FATE's two files. Raise BadFile, UsageError."""
    if job_file is not None:
        if conf_path is not None or dsl_path is not None:
            raise click.UsageError("-f cannot be combined with -c and -d: it contains the whole job.")
        return {"job_file": read_text(job_file)}
    if conf_path is None:
        raise click.UsageError("Missing option '-f' (the job in one file), or '-c' and '-d' (FATE's two files).")
    conf = overlaid(conf_path, dsl_path=dsl_path)
    return {"job_dsl": read_json(dsl_path) if dsl_path else {}, "job_runtime_conf": conf}


def overlaid(conf_path: str, **options: Any) -> dict[str, Any]:
    """Return the configuration, overlaid with the given options as the genuine client does. Raise BadFile."""
    conf = read_json(conf_path)
    if isinstance(conf.get("output_path"), str) and conf["output_path"]:
        conf["output_path"] = str(Path(conf["output_path"]).absolute())
    return {**conf, "conf_path": conf_path, **given(options)}


def read_json(path: str) -> dict[str, Any]:
    """Return the JSON object in this file. Raise BadFile."""
    try:
        document = read_json_text(read_text(path))
    except json.JSONDecodeError as error:
        raise BadFile(f"{path}: line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise BadFile(f"{path}: is not a JSON object ({{...}})")
    return document


def read_text(path: str) -> str:
    """Return the text of this file. Raise BadFile."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{path}: byte {error.start} is not UTF-8") from error
