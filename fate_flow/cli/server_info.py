"""flow server"""

from __future__ import annotations

import click

from fate_flow.cli.client import Client
from fate_flow.cli.display import show
from fate_flow.cli.options import with_client


@click.group()
def server() -> None:
    """Ask the server for its versions.

    Example: flow server versions
    """


@server.command()
@with_client
def versions(client: Client) -> None:
    """The versions of the server and of what it runs on.

    Example: flow server versions
    """
    show(client.post("server/version/get", {}))


@server.command()
@with_client
def reload(client: Client) -> None:
    """Asks the server to read its configuration again. A server of this release has to be restarted instead, and says
    so.

    Example: flow server reload
    """
    show(client.post("server/reload", {}))
