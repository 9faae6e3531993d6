"""Printing the entries of the record as they come."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NoReturn

import click

from fate_flow.cli.audit.record_times import time_of
from fate_flow.cli.console.display import one_line, tell
from fate_flow.cli.console.wording import job_title
from fate_flow.cli.output.named_jobs import NamedJobs
from fate_flow.core.record.sentences import place_of, sentence_of
from fate_flow.core.record.shown import Followed, Position, ShownEntry

LOOK_SECONDS = 0.5

Look = Callable[[Position | None], Followed]
"""Returns what was sealed after this position; for None, nothing, and the position at which all ends now."""


def print_followed(
    look: Look, form: str, pause: Callable[[float], object], jobs: NamedJobs | None = None
) -> NoReturn:
    """Print what is sealed from now on, one line for each entry. `form`: one of FOLLOWED. `jobs`: what is known of the
    jobs once a page has been read."""
    known = jobs or NamedJobs({})
    page = look(None)
    tell("following the record; Ctrl-C ends")
    while True:
        before = page.position
        page = look(before)
        for log, end in page.beyond.items():
            tell(_loss(log, before.get(log, end), end))
        for one in page.entries:
            click.echo(_line(one, form, known))
        if not page.has_more:
            pause(LOOK_SECONDS)


def _loss(log: str, place: tuple[int, int], end: tuple[int, int]) -> str:
    return one_line(
        f"log {log} has lost entries, as after a restored backup: it was read up to {place[1]} of epoch {place[0]}, "
        f"and ends at {end[1]} of epoch {end[0]}. It is followed from there on; new entries before that end are not "
        "printed: audit search shows them"
    )


def _line(one: ShownEntry, form: str, jobs: NamedJobs) -> str:
    if form == "lines":
        return json.dumps(one.as_document(), ensure_ascii=False)
    job = f"{job_title(one.job_id, jobs.name(one.job_id))}: " if one.job_id else ""
    return f"{time_of(one.at)}  {one_line(place_of(one)):<18}  {job}{one_line(sentence_of(one))}"
