"""flow party"""

from __future__ import annotations

import click

from fate_flow.cli import options
from fate_flow.cli.client import Client, data_of
from fate_flow.cli.display import one_line, print_table, show
from fate_flow.cli.options import with_client


@click.group()
def party() -> None:
    """See the other parties.

    Example: flow party list
    """


@party.command("list")
@options.as_json()
@with_client
def list_parties(client: Client, as_json: bool) -> None:
    """The parties this server has a route to, whether they answer, and which of them are on hold.

    Example: flow party list
    """
    answer = client.post("party/list", {})
    if as_json:
        show(answer)
        return
    columns = ("party_id", "url", "status", "circuit", "message")
    data = data_of(answer)
    parties = data.get("parties") or ()
    for one in (data.get("own") or {}, *parties):
        if hold := one.get("hold"):
            click.echo(one_line(f"party {one.get('party_id')} is on hold by {hold.get('by')}: {hold.get('message')}"))
    print_table(columns, ([one.get(column) for column in columns] for one in parties))
