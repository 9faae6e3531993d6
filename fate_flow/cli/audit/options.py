"""The options that `flow audit` and `fate_flow audit` share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fate_flow.cli.audit.record_entries import FOLLOWED, FORMS, LISTS
from fate_flow.cli.connection.job_ids import complete_job_id

Command = Callable[..., Any]
_FORM = "What to print."


def _milliseconds(_: click.Context, option: click.Parameter, text: str | None) -> int:
    """Return the time in milliseconds since 1970; 0 if none was given."""
    if text is None:
        return 0
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time such as 2026-11-27", param=option) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def check_asked(job_id: str | None, party: str | None) -> None:
    """Raise UsageError unless `audit prove` is asked for one of a job and a party."""
    if (job_id is None) == (party is None):
        raise click.UsageError("one of --job-id and --party is needed")


def check_compared(file: object, party_id: str | None, job_id: str | None) -> None:
    """Raise UsageError unless `audit reconcile` is asked for one of a party and a job, and a file is that of a
    party."""
    if (job_id is None) == (party_id is None):
        raise click.UsageError("one of --party and --job-id is needed")
    if file is not None and party_id is None:
        raise click.UsageError("FILE is what one party has written: name it with --party")


def _all_of(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        for one in reversed(options):
            command = one(command)
        return command

    return add


show_options = _all_of(
    click.option(
        "-j", "--job-id", required=True, metavar="JOB", help="The id of the job.", shell_complete=complete_job_id
    ),
    click.option("--as", "form", type=click.Choice(FORMS), default="table", show_default=True, help=_FORM),
    click.option("--ask", is_flag=True, help="Ask the other parties, too, what their logs have of the same messages."),
)
search_options = _all_of(
    click.option("-p", "--party", default="", metavar="PARTY", help="Only of the log with this party, or about it."),
    click.option("--person", default="", metavar="NAME", help="Only what this person has asked for."),
    click.option(
        "--kind", default="", metavar="KIND", help="Only entries of this kind: status, act, decision, sent, ..."
    ),
    click.option("--status", default="", metavar="STATUS", help="Only changes to this status."),
    click.option(
        "--since", callback=_milliseconds, metavar="TIME",
        help="Only from this time on, in UTC: 2026-11-27 or 2026-11-27T08:30:00.",
    ),
    click.option("--until", callback=_milliseconds, metavar="TIME", help="Only before this time, in UTC."),
    click.option(
        "--digest", default="", metavar="DIGEST", help="Only entries with this digest, number or trace, also in texts."
    ),
    click.option("--as", "form", type=click.Choice(LISTS), default="table", show_default=True, help=_FORM),
)  # fmt: skip
follow_options = _all_of(
    click.option("--as", "form", type=click.Choice(FOLLOWED), default="table", show_default=True, help=_FORM),
)
prove_options = _all_of(
    click.option("-j", "--job-id", metavar="JOB", help="The entries about this job.", shell_complete=complete_job_id),
    click.option("-p", "--party", metavar="PARTY", help="The whole log with this party, for `audit reconcile` there."),
    click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The file to write."),
    click.option("--closed", is_flag=True, help="Leave out the texts that entries commit to."),
)
verify_options = _all_of(
    click.option("--ask", is_flag=True, help="Ask the other parties, too, what they hold of the logs now."),
    click.option("--json", "is_json", is_flag=True, help="Print JSON."),
)
reconcile_options = _all_of(
    click.argument("file", type=click.File(encoding="utf-8"), required=False),
    click.option(
        "-p", "--party", "party_id", metavar="PARTY",
        help="The party whose file it is, or which is asked for its log if there is no file.",
    ),
    click.option(
        "-j", "--job-id", metavar="JOB", help="Ask each party of this job, and compare its messages alone.",
        shell_complete=complete_job_id,
    ),
    click.option(
        "--since", callback=_milliseconds, metavar="TIME",
        help="Only messages from this time on, in UTC: 2026-11-27 or 2026-11-27T08:30:00.",
    ),
    click.option("--json", "is_json", is_flag=True, help="Print JSON, with the outcome of each message."),
)
