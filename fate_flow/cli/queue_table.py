"""`queue list` for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fate_flow.cli.display import one_line, print_table
from fate_flow.cli.wording import duration, party_name
from fate_flow.core.text import counted

Job = Mapping[str, Any]


def print_queue(data: Job) -> None:
    """The queue as a table, with what people have to decide around it."""
    if hold := data.get("hold"):
        click.echo(one_line(f"this party is on hold by {hold.get('by')}: {hold.get('message')}"))
    jobs = data.get("jobs") or ()
    click.echo(_count(len(jobs), data.get("count")))
    if jobs:
        columns = ("place", "job", "name", "cores asked", "starts in", *_optional(jobs), "waits for")
        print_table(columns, ([_cell(job, column) for column in columns] for job in jobs))
    if unapproved := data.get("unapproved"):
        click.echo("jobs of others that await an approval here (flow job approve, flow job reject):")
        print_table(("job", "name", "initiator", "as", "cores asked"), map(_unapproved, unapproved))


def _count(shown: int, count: object) -> str:
    if not count:
        return "no job waits"
    jobs = counted(int(str(count)), "job waits", "jobs wait")
    return jobs if shown == count else f"{jobs}, {shown} of them shown"


def _optional(jobs: tuple[Job, ...] | list[Job]) -> list[str]:
    """Columns for what few jobs have."""
    return [column for column, key in (("priority", "priority"), ("passed by", "passed_by"))
            if any(job.get(key) for job in jobs)]  # fmt: skip


def _cell(job: Job, column: str) -> object:
    if column == "cores asked":
        return _cores(job)
    if column == "starts in":
        return _starts(job.get("estimate_seconds"))
    return job.get({"place": "place_in_queue", "job": "job_id", "passed by": "passed_by",
                    "waits for": "wait_reason"}.get(column, column))  # fmt: skip


def _cores(job: Job) -> str:
    asked = {party_name(party): party.get("asked_cores") for party in job.get("parties") or ()}
    if len(asked) > 1 and len(set(asked.values())) == 1:
        return f"{next(iter(asked.values()))} at each party"
    return ", ".join(f"{cores} at {party}" for party, cores in asked.items())


def _starts(seconds: object) -> str:
    """Empty where nobody can say."""
    if not isinstance(seconds, (int, float)):
        return ""
    return "its turn is now" if seconds == 0 else duration(seconds * 1000)


def _unapproved(job: Job) -> tuple[object, ...]:
    return (
        job.get("job_id"), job.get("name"), party_name(job.get("initiator")), party_name(job), job.get("asked_cores")
    )
