"""Entries of the record in the forms that people and programs ask for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import click

from fate_flow.cli.audit.record_diagram import as_mermaid, as_svg
from fate_flow.cli.audit.record_fate_logs import as_fate_logs
from fate_flow.cli.audit.record_times import time_of
from fate_flow.cli.console.display import one_line, print_json, print_table, tell
from fate_flow.cli.output.named_jobs import NamedJobs
from fate_flow.core.record.sentences import place_of, sentence_of, word_of
from fate_flow.core.record.shown import ShownEntry

LISTS = ("table", "json", "lines")
"""The forms of any entries. `lines`: each is one line of JSON, for programs that collect logs."""

FOLLOWED = ("table", "lines")
"""The forms of entries that are printed one by one."""

FORMS = (*LISTS, "mermaid", "svg", "fate-logs")
"""The forms of what is recorded about a job."""


def print_entries(
    entries: Iterable[ShownEntry], own: str, form: str, job_id: str = "", jobs: NamedJobs | None = None
) -> None:
    """Print entries in one of the `FORMS`. `own`: the party whose record it is. `job_id`: the job that they all are
    about, or empty. `jobs`: what is known of the jobs once the entries have been read."""
    if form == "lines":
        for one in entries:              # as they are read: it may be the whole record
            click.echo(json.dumps(one.as_document(), ensure_ascii=False))
        return
    listed = list(entries)
    lines = {"mermaid": as_mermaid, "svg": as_svg, "fate-logs": as_fate_logs}
    if form == "json":
        print_json({"entries": [one.as_document() for one in listed]})
    elif form in lines:
        # What is printed as FATE's logs is what this party has seen.
        for line in lines[form]([one for one in listed if form != "fate-logs" or not one.of], own):
            click.echo(line)
    elif job_id:
        if jobs is not None and jobs.known:
            click.echo(one_line(jobs.title(job_id)))
        if any(one.of or one.there for one in listed):
            rows = (_with_sides(one, own) for one in listed)
            print_table(("time (UTC)", "time there", "word of", "log", "what"), rows)
        else:
            print_table(
                ("time (UTC)", "log", "what"), ((time_of(one.at), place_of(one), sentence_of(one)) for one in listed)
            )
    else:
        known = jobs or NamedJobs({})
        table = (
            (time_of(one.at), place_of(one), one.job_id, known.name(one.job_id), sentence_of(one)) for one in listed
        )
        print_table(("time (UTC)", "log", "job", "name", "what"), table)


def tell_unheard(unheard: Mapping[str, str]) -> None:
    """Say which logs of other parties are not beside the entries, and why; by party id."""
    for party_id, why in unheard.items():
        tell(one_line(f"the log of party {party_id} is not beside it: {why}"))


def _with_sides(one: ShownEntry, own: str) -> tuple[str, ...]:
    """Return the row of an entry: here, and at the other side of its message."""
    here, there = ("", time_of(one.at)) if one.of else (time_of(one.at), time_of(one.there.at) if one.there else "")
    return here, there, word_of(one, own), place_of(one), sentence_of(one)
