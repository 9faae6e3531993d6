"""`queue list` for people.

Few jobs have a priority, or different cores at each party. These values are in the text instead of in columns, so that
a line has space for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fate_flow.cli.console.display import one_line, print_table
from fate_flow.cli.console.wording import duration, job_title, party_name, short_digest, short_moment
from fate_flow.core.text.phrases import counted, ordinal

Job = Mapping[str, Any]
WAITING = ("job", "place", "name", "created", "cores", "starts in", "waits for")
"""The columns of `waiting_row`."""


def print_queue(data: Job) -> None:
    """Print a hold of this party, the queue, and the jobs that need an approval here."""
    if hold := data.get("hold"):
        click.echo(one_line(f"this party is on hold by {hold.get('by')}: {hold.get('message')}"))
    jobs = data.get("jobs") or ()
    click.echo(_count(len(jobs), data.get("count")))
    if jobs:
        print_table(WAITING, map(waiting_row, jobs))
    if unapproved := data.get("unapproved"):
        count, shown = count_of_reviews(data), len(unapproved)
        cut = "" if shown >= count else f", the first {shown} of them shown"
        click.echo(f"{needs_approval(count)} here{cut} (flow job approve, flow job reject):")
        print_table(("job", "name", "created", "initiator", "as", "cores", "document"), map(_unapproved, unapproved))


def count_of_reviews(data: Job) -> int:
    """Return how many jobs need an approval here, of an answer of `queue/list`; an older server has only their list."""
    return int(data.get("unapproved_count") or len(data.get("unapproved") or ()))


def needs_approval(count: int) -> str:
    return counted(count, "job of another initiator needs", "jobs of other initiators need") + " an approval"


def _count(shown: int, count: object) -> str:
    if not count:
        return "no job waits"
    jobs = counted(int(str(count)), "job waits", "jobs wait")
    return jobs if shown == count else f"{jobs}, {shown} of them shown"


def waiting_row(job: Job) -> tuple[object, ...]:
    """Return the row of a waiting job."""
    cores, isolated = _cores(job)
    text = [_reason(job), _also(job), isolated]
    return (
        job.get("job_id"), job.get("place_in_queue"), job.get("name"), short_moment(job.get("create_time")), cores,
        _starts(job.get("estimate_seconds")), "; ".join(filter(None, text)),
    )  # fmt: skip


def _reason(job: Job) -> str:
    """Return the reason without the place in the queue, which has a column."""
    place = job.get("place_in_queue")
    reason = str(job.get("wait_reason") or "")
    return reason.removesuffix(f"; {ordinal(place)} in the queue") if isinstance(place, int) else reason


def _also(job: Job) -> str:
    priority, passed = job.get("priority"), job.get("passed_by")
    last = next((f", last by {job_title(one.get('job_id'), one.get('name'))}" for one in job.get("passers") or ()), "")
    return "; ".join(filter(None, (
        f"priority {priority}" if priority else "", f"passed by {counted(passed, 'job')}{last}" if passed else "",
    )))  # fmt: skip


def _cores(job: Job) -> tuple[str, str]:
    """Return the cores that the job asks for; if they differ by party, also a text with the cores of each party."""
    asked = {party_name(party): party.get("asked_cores") or 0 for party in job.get("parties") or ()}
    amounts = sorted(set(asked.values()))
    if len(asked) < 2 or len(amounts) < 2:
        return "".join(map(str, amounts)) + (" each" if len(asked) > 1 else ""), ""
    where = ", ".join(f"{cores} at {party}" for party, cores in asked.items())
    return f"{amounts[0]} to {amounts[-1]}", f"asks for {where}"


def _starts(seconds: object) -> str:
    """Return the estimated time until the start; "" if it is unknown."""
    if not isinstance(seconds, (int, float)):
        return ""
    return "now" if seconds == 0 else duration(seconds * 1000)


def _unapproved(job: Job) -> tuple[object, ...]:
    return (
        job.get("job_id"), job.get("name"), short_moment(job.get("create_time")), party_name(job.get("initiator")),
        party_name(job), job.get("asked_cores"), short_digest(job.get("digest")),
    )  # fmt: skip
