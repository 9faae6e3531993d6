"""flow party"""

from __future__ import annotations

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.input import options
from fate_flow.cli.input.options import with_client
from fate_flow.cli.output.lists import print_parties, show_as


@click.group()
def party() -> None:
    """Show the other parties.

    Example: flow party list
    """


@party.command("list")
@options.form()
@with_client
def list_parties(client: Client, as_json: bool | None) -> None:
    """List the parties with a route, whether they answer, and which are on hold.

    Example: flow party list
    """
    show_as(client.post("party/list", {}), as_json, print_parties)
