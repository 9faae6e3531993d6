"""`job changes` for people: how a document differs from the last one that was approved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fate_flow.cli.console.display import one_line, print_table
from fate_flow.cli.console.wording import short_digest, short_moment


def print_changes(data: Mapping[str, Any]) -> None:
    """Print what it was compared with, and a line for each change."""
    before, digest = data.get("approved_before"), short_digest(str(data.get("digest")))
    if not before:
        click.echo(f"document {digest}: this party has approved no job of its initiator with this name or the same"
                   " tasks lately: read all of it (flow job config)")
        return
    kind = "this name" if before.get("has_same_name") else "the same tasks"
    who = f"approved by {before.get('by')}, {short_moment(before.get('time'))}"
    click.echo(one_line(f"document {digest} beside {short_digest(str(before.get('digest')))} of job "
                        f"{before.get('job_id')}, the last one with {kind}, {who}"))
    if not before.get("is_as_approved"):
        click.echo("its document is another one than was approved then")
    if formats := data.get("formats"):
        both = " and ".join(map(str, formats))
        click.echo(one_line(f"their formats are {both}: what FATE v1 cannot show was not compared"))
    changes = data.get("changes") or ()
    if changes:
        rows = ([one.get(key) for key in ("kind", "place", "before", "now")] for one in changes)
        print_table(("change", "place", "then", "now"), rows)
    elif not formats:
        click.echo("both documents say the same")
    if data.get("next"):
        click.echo(f"{len(changes)} of {data.get('count')} changes; --first {data['next']} prints more")
