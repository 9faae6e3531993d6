"""The command `flow`: the client of a party's server.

Results go to stdout, as JSON in the shape of the genuine FATE Flow client; messages and progress go to stderr.
The exit codes are those of `cli/group.py`.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper

import click

from fate_flow import __version__
from fate_flow.cli.audit.flow_audit import audit
from fate_flow.cli.connection.client import Client
from fate_flow.cli.connection.profiles import checked_profile
from fate_flow.cli.connection.settings_file import server_of
from fate_flow.cli.flow.completion import completion
from fate_flow.cli.flow.component import component, tracking
from fate_flow.cli.flow.data import data
from fate_flow.cli.flow.init import init
from fate_flow.cli.flow.job import job
from fate_flow.cli.flow.key import key
from fate_flow.cli.flow.model import model, tag
from fate_flow.cli.flow.not_offered import add_not_offered
from fate_flow.cli.flow.party import party
from fate_flow.cli.flow.privilege import privilege
from fate_flow.cli.flow.provider import provider
from fate_flow.cli.flow.queue import queue
from fate_flow.cli.flow.resource import resource
from fate_flow.cli.flow.server_info import server as server_group
from fate_flow.cli.flow.server_info import service, top
from fate_flow.cli.flow.table import table
from fate_flow.cli.flow.task import task
from fate_flow.cli.flow.template import template
from fate_flow.cli.flow.toy import test
from fate_flow.cli.group import HELP, EdgeGroup, verbose_option
from fate_flow.cli.notify.flow_notify import notify

_COMMANDS = (
    init, top, job, task, queue, resource, data, table, component, tracking, model, tag, provider, privilege, key,
    audit, notify, party, server_group, service, template, test, completion,
)  # fmt: skip


@click.group(cls=EdgeGroup, context_settings=HELP)
@click.option(
    "--server", envvar="FATE_FLOW_SERVER", metavar="URL", help="Use this server instead of the one that init stored."
)
@click.option(
    "--profile", envvar="FATE_FLOW_PROFILE", metavar="NAME", callback=checked_profile,
    help="Use the server that init stored under this name.",
)
@verbose_option
@click.version_option(__version__, prog_name="flow")
@click.pass_context
def flow(ctx: click.Context, server: str | None, profile: str | None, verbose: bool) -> None:  # noqa: ARG001  # read there
    """Run federated jobs through the server of a party.

    \b
    Exit codes: 0 success, 1 refused or the job failed, 2 wrong usage, 3 no server answers, 130 interrupted.
    Example: flow init --ip 127.0.0.1 --port 9380
             flow job submit -c conf.json -d dsl.json --watch
    """
    if ctx.obj is None:
        ctx.obj = Client(lambda: server_of(ctx))


for _command in _COMMANDS:
    flow.add_command(_command)
add_not_offered(flow)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    flow.main(prog_name="flow")


if __name__ == "__main__":
    main()
