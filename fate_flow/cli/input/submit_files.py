"""The files that a user hands over: read with errors that name file, line and column, and made into requests."""

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
    """The body of a submit: of one file, or of the two of FATE. Raises BadFile, UsageError."""
    if job_file is not None:
        if conf_path is not None or dsl_path is not None:
            raise click.UsageError("-f says all there is: without -c and -d.")
        return {"job_file": read_text(job_file)}
    if conf_path is None:
        raise click.UsageError("Missing option '-f' (the job in one file), or '-c' and '-d'.")
    conf = overlaid(conf_path, dsl_path=dsl_path)
    return {"job_dsl": read_json(dsl_path) if dsl_path else {}, "job_runtime_conf": conf}


def overlaid(conf_path: str, **options: Any) -> dict[str, Any]:
    """The configuration with the given options over it, as the genuine client sends it. Raises BadFile."""
    conf = read_json(conf_path)
    if isinstance(conf.get("output_path"), str) and conf["output_path"]:
        conf["output_path"] = str(Path(conf["output_path"]).absolute())
    return {**conf, "conf_path": conf_path, **given(options)}


def read_json(path: str) -> dict[str, Any]:
    """The JSON object in this file. Raises BadFile."""
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
    """What is in this file. Raises BadFile."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{path}: byte {error.start} is not UTF-8") from error
