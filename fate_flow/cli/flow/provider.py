"""flow provider"""

from __future__ import annotations

from urllib.parse import quote

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.input import options
from fate_flow.cli.input.options import with_client
from fate_flow.cli.output.lists import print_offered_components, print_providers, show_as


@click.group()
def provider() -> None:
    """Show which components this server can run, and which provider each comes from.

    Example: flow provider list
    """


@provider.command("list")
@click.option("-n", "--provider-name", help="Show only this provider.")
@options.form()
@with_client
def list_providers(client: Client, as_json: bool | None, provider_name: str | None) -> None:
    """List the providers, their versions and components, or why those of a provider cannot be used now.

    Example: flow provider list -n fate_flow
    """
    path = f"provider/{quote(provider_name, safe='')}/get" if provider_name else "provider/get"
    answer = client.post(path, {"provider_name": provider_name} if provider_name else {})
    show_as(answer, as_json, print_providers)


@provider.command("list-components")
@options.form()
@with_client
def list_components(client: Client, as_json: bool | None) -> None:
    """List the components, their roles and providers.

    Example: flow provider list-components
    """
    show_as(client.post("component/get", {}), as_json, print_offered_components)
