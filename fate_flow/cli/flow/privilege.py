"""flow privilege"""

from __future__ import annotations

from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import show
from fate_flow.cli.input import options
from fate_flow.cli.input.options import with_client
from fate_flow.cli.input.submit_files import overlaid
from fate_flow.cli.output.lists import print_granted, show_as


@click.group()
def privilege() -> None:
    """Control what jobs of another party may use here. Required only if permission.switch is true,
    or if it is not set and other machines reach the server.

    `fate_flow grants` does the same by a file, with limits.

    Example: flow privilege query -p 10000
    """


@privilege.command()
@options.conf_path()
@with_client
def grant(client: Client, conf_path: str) -> None:
    """Grant jobs of a party the use of components and tables here, in addition to earlier grants; limits stay.

    \b
    Example: flow privilege grant -c grant.json
    grant.json: {"party_id": "10000", "component": "Reader,SecureSum",
                 "dataset": [{"namespace": "demo", "name": "site_a"}]}
    "*" grants all components, or all tables.
    """
    show(client.post("permission/grant", overlaid(conf_path)))


@privilege.command()
@options.conf_path()
@with_client
def delete(client: Client, conf_path: str) -> None:
    """Revoke grants of a party; "*" revokes all components, or all tables. Accepted jobs go on.

    Example: flow privilege delete -c delete.json
    """
    show(client.post("permission/delete", overlaid(conf_path)))


@privilege.command()
@options.party_id(required=True)
@options.form()
@with_client
def query(client: Client, as_json: bool | None, **body: Any) -> None:
    """Show what a party was granted here.

    Example: flow privilege query -p 10000
    """
    show_as(client.post("permission/query", body), as_json, print_granted)
