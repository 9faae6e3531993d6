"""flow party"""

from __future__ import annotations

import click

from fate_flow.cli import options
from fate_flow.cli.client import Client
from fate_flow.cli.lists import print_parties, show_as
from fate_flow.cli.options import with_client


@click.group()
def party() -> None:
    """See the other parties.

    Example: flow party list
    """


@party.command("list")
@options.form()
@with_client
def list_parties(client: Client, as_json: bool | None) -> None:
    """The parties this server has a route to, whether they answer, and which of them are on hold.

    Example: flow party list
    """
    show_as(client.post("party/list", {}), as_json, print_parties)
