"""flow server, flow service"""

from __future__ import annotations

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import show
from fate_flow.cli.input import options
from fate_flow.cli.input.options import with_client
from fate_flow.cli.output.lists import print_facts, print_sections, show_as


@click.group()
def server() -> None:
    """Ask the server for its versions.

    Example: flow server versions
    """


@server.command()
@options.form()
@with_client
def versions(client: Client, as_json: bool | None) -> None:
    """The versions of the server and of what it runs on.

    Example: flow server versions
    """
    show_as(client.post("server/version/get", {}), as_json, print_facts)


@server.command()
@with_client
def reload(client: Client) -> None:
    """Asks whether the server's configuration is still that of its files; what has changed needs a restart.

    Example: flow server reload
    """
    show(client.post("server/reload", {}))


@click.group()
def service() -> None:
    """What the server is configured for.

    Example: flow service registry
    """


@service.command()
@options.form()
@with_client
def registry(client: Client, as_json: bool | None) -> None:
    """The sections of the server's configuration, without keys, passwords and folders.

    Example: flow service registry
    """
    show_as(client.post("server/service/get", {}), as_json, print_sections)
