"""flow provider"""

from __future__ import annotations

from urllib.parse import quote

import click

from fate_flow.cli.client import Client
from fate_flow.cli.display import show
from fate_flow.cli.options import with_client


@click.group()
def provider() -> None:
    """Which components this server can run, and who ships them.

    Example: flow provider list
    """


@provider.command("list")
@click.option("-n", "--provider-name", help="This provider alone.")
@with_client
def list_providers(client: Client, provider_name: str | None) -> None:
    """The providers, their versions and components.

    Example: flow provider list -n fate_flow
    """
    if provider_name:
        show(client.post(f"provider/{quote(provider_name, safe='')}/get", {"provider_name": provider_name}))
    else:
        show(client.post("provider/get", {}))


@provider.command("list-components")
@with_client
def list_components(client: Client) -> None:
    """The components, their roles and providers.

    Example: flow provider list-components
    """
    show(client.post("component/get", {}))
