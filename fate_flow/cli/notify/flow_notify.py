"""flow notify"""

from __future__ import annotations

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.input import options
from fate_flow.cli.input.options import with_client
from fate_flow.cli.output.lists import print_facts, show_as
from fate_flow.core.notifications.notification import OCCASIONS

_EVENT = click.Choice([one.value for one in OCCASIONS])


@click.group()
def notify() -> None:
    """Show and choose of what the server notifies you, by mail or webhook.

    The configuration of the server says where, and of what at most. You are who your client key says.

    Example: flow notify show
    """


@notify.command()
@options.form()
@with_client
def show(client: Client, as_json: bool | None) -> None:
    """Show of what you are notified, and what you could be.

    Example: flow notify show
    """
    show_as(client.post("notification/show", {}), as_json, print_facts)


@notify.command()
@click.argument("events", metavar="[EVENT]...", nargs=-1, type=_EVENT)
@click.option("--all", "is_all", is_flag=True, help="All that the configuration gives you.")
@click.option("--none", "is_none", is_flag=True, help="Nothing, for now.")
@options.form()
@with_client
def choose(client: Client, events: tuple[str, ...], is_all: bool, is_none: bool, as_json: bool | None) -> None:
    """Be notified of these events alone: approval_needed, job_ended, partner_silent, contradiction.

    \b
    Example: flow notify choose approval_needed job_ended
             flow notify choose --all
    """
    if [bool(events), is_all, is_none].count(True) != 1:
        raise click.UsageError("Give events, or one of '--all' and '--none'.")
    wanted = None if is_all else list(events)
    show_as(client.post("notification/choose", {"events": wanted}), as_json, print_facts)
