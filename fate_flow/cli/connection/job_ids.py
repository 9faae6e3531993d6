"""Completion of job ids with the tab key: the newest jobs of the server, or nothing if it does not answer."""

from __future__ import annotations

import re
from datetime import date, timedelta

import click
from click.shell_completion import CompletionItem

_MOST = 50
_DAY = re.compile(r"(\d{4})(\d\d)(\d\d)")
_SECONDS = 1.0                # the shell waits this long at each press of the key


def complete_job_id(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return completions; never raise: the shell would print the error into the user's command line."""
    try:
        return _newest_jobs(ctx, incomplete)
    except (Exception, SystemExit):  # noqa: BLE001  # no answer, or wrong settings
        return []


def _newest_jobs(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    from fate_flow.cli.connection.client import Client, data_of
    from fate_flow.cli.connection.job_lists import ask_for_jobs
    from fate_flow.cli.connection.settings_file import server_of

    root = ctx.find_root()
    client = root.obj or Client(lambda: server_of(root), seconds=(_SECONDS, _SECONDS))
    most, begin = {"limit": _MOST}, {"text": incomplete, **_days(incomplete)} if incomplete else {}
    older = {"job_id": incomplete} if incomplete else {}
    answer, _ = ask_for_jobs(client, "job/search", most | begin, most | older)
    found = ((str(one.get("job_id")), one) for one in data_of(answer)["jobs"])
    return [
        CompletionItem(job_id, help=" ".join(filter(None, (one.get("status"), one.get("name")))))
        for job_id, one in found if job_id.startswith(incomplete)
    ]  # fmt: skip


def _days(incomplete: str) -> dict[str, str]:
    """Return the days around the one that a job id begins with: a server looks at a bounded number of jobs, and need
    not begin with those of today. The initiator's clock and time zone made the id."""
    written = _DAY.match(incomplete)
    if written is None:
        return {}
    try:
        day = date(*map(int, written.groups()))
        return {"after": f"{day - timedelta(2)}", "before": f"{day + timedelta(3)}"}
    except (ValueError, OverflowError):
        return {}
