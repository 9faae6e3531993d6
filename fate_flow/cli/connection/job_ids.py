"""Completion of job ids with the tab key: the newest jobs of the server, or nothing if it does not answer."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

_MOST = 50
_SECONDS = 1.0                # the shell waits this long at each press of the key


def complete_job_id(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return completions; never raise: the shell would print the error into the user's command line."""
    try:
        return _newest_jobs(ctx, incomplete)
    except (Exception, SystemExit):  # noqa: BLE001  # no answer, or wrong settings
        return []


def _newest_jobs(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    from fate_flow.cli.connection.client import Client
    from fate_flow.cli.connection.settings_file import server_of

    root = ctx.find_root()
    client = root.obj or Client(lambda: server_of(root), seconds=(_SECONDS, _SECONDS))
    jobs = client.post("job/list/job", {"limit": _MOST, "job_id": incomplete} if incomplete else {"limit": _MOST}).data
    found = ((str(one.get("job_id")), one) for one in jobs["jobs"])
    return [
        CompletionItem(job_id, help=" ".join(filter(None, (one.get("status"), one.get("name")))))
        for job_id, one in found if job_id.startswith(incomplete)
    ]  # fmt: skip
