"""Print models: tables for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from fate_flow.cli.console.display import one_line, print_table, printable
from fate_flow.cli.console.wording import job_title, party_name, short_moment
from fate_flow.cli.output.named_jobs import NamedJobs

_MODELS = ("model", "name", "version", "made", "tasks", "at", "bytes", "tags", "deployed as")
_PARTS = ("task", "output", "party", "kind", "bytes", "sha256")
_LONGEST_CONTENT = 4_000


def print_models(data: Any, jobs: NamedJobs) -> None:
    """Print the answer of `model list`; a model has the name of the job that made it."""
    print_table(_MODELS, (_row(one, jobs) for one in data))


def _row(one: Mapping[str, Any], jobs: NamedJobs) -> tuple[str, ...]:
    parts = one["models"]
    return (
        str(one["model_id"]), jobs.name(one["job_id"]), str(one["model_version"]), short_moment(one["create_time"]),
        ", ".join(dict.fromkeys(part["task_name"] for part in parts)),
        ", ".join(dict.fromkeys(party_name(part) for part in parts)), str(sum(part["bytes"] for part in parts)),
        ", ".join(one["tags"]), ", ".join(one["deployed_as"]),
    )  # fmt: skip


def print_model(data: Any, jobs: NamedJobs) -> None:
    """Print the answer of `model show`."""
    made = f"made {short_moment(data.get('create_time'))} by {job_title(data['job_id'], jobs.name(data['job_id']))}"
    click.echo(one_line(f"model {data['model_id']} version {data['model_version']}, {made}"))
    if data["tags"]:
        click.echo(one_line(f"tags: {', '.join(data['tags'])}"))
    if data["deployed_as"]:
        click.echo(one_line(f"deployed as: {', '.join(data['deployed_as'])}"))
    print_table(_PARTS, (_part(part) for part in data["models"]))
    for part in data["models"]:
        if part["content"] is not None:
            text = json.dumps(part["content"], indent=1)
            more = "\n..." if len(text) > _LONGEST_CONTENT else ""
            click.echo(printable(f"\n{part['task_name']}.{part['output_key']}:\n{text[:_LONGEST_CONTENT]}{more}"))


def _part(part: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        part["task_name"], part["output_key"], party_name(part), part["type_name"], str(part["bytes"]), part["sha256"]
    )  # fmt: skip
