"""Print lists whose rows mention jobs: tasks, their outputs, uploads, what jobs hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Any

import click

from fate_flow.cli.console.display import one_line, print_table
from fate_flow.cli.console.wording import duration, party_name, short_moment
from fate_flow.cli.output.lists import free_lines, print_count, some_of, status_in_list, unprefixed, why_in_list
from fate_flow.cli.output.named_jobs import NamedJobs
from fate_flow.core.text.phrases import counted

_TASKS = ("task", "party", "status", "started", "took", "why")

Row = Mapping[str, Any]


def print_tasks(data: Any, jobs: NamedJobs) -> None:
    """Print the answer of `task list`, with the total number of tasks, or of `task query`."""
    rows = list(map(unprefixed, data["tasks"] if isinstance(data, Mapping) else data))
    ids = {row.get("job_id") for row in rows}
    if len(ids) == 1:
        click.echo(one_line(jobs.title(ids.pop())))
        print_count(len(rows), data, "task")
        print_table(_TASKS, map(_task, rows))
    else:
        print_count(len(rows), data, "task")
        named = ((row.get("job_id"), jobs.name(row.get("job_id")), *_task(row)) for row in rows)
        print_table(("job", "name", *_TASKS), named)


def print_outputs(rows: Sequence[Row]) -> None:
    """Print the answer of `job view`: the output tables of tasks."""
    headers = ("task", "version", "role", "party", "output", "made", "namespace", "table")
    print_table(headers, map(_output, rows))


def print_uploads(data: Iterable[Mapping[str, Row]], jobs: NamedJobs) -> None:
    """Print the answer of `data upload-history`."""
    headers = ("job", "name", "created", "namespace", "table", "rows", "partitions", "columns", "notes")
    print_table(headers, (_upload(job_id, one, jobs) for uploads in data for job_id, one in uploads.items()))


def print_jobs_of_table(data: Row, jobs: NamedJobs) -> None:
    """Print the answer of `table tracking-job`."""
    ids = data.get("job") or ()
    headers = ("job", "name", "status", "created")
    print_table(headers, ((one, jobs.name(one), jobs.status(one), jobs.created(one)) for one in ids))
    if models := data.get("models"):
        click.echo("models that these jobs have made from it:")
        keys = ("model_id", "model_version", "output", "component_name", "role", "party_id")
        rows = ([one.get(key) for key in keys] for one in models)
        print_table(("model", "version", "output", "task", "role", "party"), rows)


def print_tables(data: Row, jobs: NamedJobs) -> None:
    """Print the answer of `table list`."""
    rows = data.get("tables") or ()
    print_count(len(rows), data, "table")
    headers = ("job", "name", "created", "namespace", "table", "rows", "columns", "state")
    print_table(headers, (_table(one, jobs) for one in rows))
    if place := data.get("next"):
        click.echo(one_line(f"older: --from {quote(str(place))}"))


def print_resources(data: Row, jobs: NamedJobs) -> None:
    """Print the answer of `resource query`: what is free of each engine, and what each job holds."""
    for line in free_lines(data):
        click.echo(line)
    if holders := data.get("use_resource_job"):
        headers = ("job", "name", "party", "created", "holds")
        print_table(headers, (_holder(one, jobs) for one in holders))


def _task(row: Row) -> tuple[object, ...]:
    version, status, there = row.get("task_version"), status_in_list(row, "status"), status_in_list(row, "party_status")
    name = f"{row.get('component_name')} #{version}" if version else row.get("component_name")
    shown = status if there in (None, status) else f"{status}, there {there}"
    started, took = short_moment(row.get("start_time")), duration(row.get("elapsed"))
    return name, party_name(row), shown, started, took, why_in_list(row)


def _output(row: Row) -> tuple[object, ...]:
    one = unprefixed(row)
    return (
        one.get("component_name"), one.get("task_version"), one.get("role"), one.get("party_id"), one.get("data_name"),
        short_moment(one.get("create_time")), one.get("table_namespace"), one.get("table_name"),
    )  # fmt: skip


def _table(one: Row, jobs: NamedJobs) -> tuple[object, ...]:
    job_id, state = one.get("job_id"), "usable" if one.get("enable") else "disabled"
    return (
        job_id, jobs.name(job_id), short_moment(one.get("create_time")), one.get("namespace"), one.get("table_name"),
        one.get("count"), one.get("columns"), state,
    )  # fmt: skip


def _upload(job_id: str, one: Row, jobs: NamedJobs) -> tuple[object, ...]:
    info, schema = one.get("upload_info") or {}, one.get("schema") or {}
    columns = some_of([str(name) for name in schema.get("header") or ()])
    return (
        job_id, jobs.name(job_id), jobs.created(job_id), info.get("namespace"), info.get("table_name"),
        info.get("upload_count"), info.get("partition"), columns, one.get("notes"),
    )  # fmt: skip


def _holder(one: Row, jobs: NamedJobs) -> tuple[object, ...]:
    job_id, parts = one.get("job_id"), [counted(one.get("core") or 0, "core")]
    if one.get("memory"):
        parts.append(f"{one['memory']} MB of memory")
    if one.get("gpus"):
        parts.append(counted(one["gpus"], "GPU"))
    held = f"{' and '.join(parts)} of {one.get('engine')}"
    return job_id, jobs.name(job_id), party_name(one), jobs.created(job_id), held
