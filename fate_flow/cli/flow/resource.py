"""flow resource"""

from __future__ import annotations

from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import show
from fate_flow.cli.input import options
from fate_flow.cli.input.options import given, with_client
from fate_flow.cli.output.lists import print_resources, show_as


@click.group()
def resource() -> None:
    """See which jobs hold cores and memory, and give back what a job holds.

    Example: flow resource query
    """


@resource.command()
@options.form()
@with_client
def query(client: Client, as_json: bool | None) -> None:
    """What this party's engine has, and which jobs hold how much of it.

    Example: flow resource query
    """
    show_as(client.post("resource/query", {}), as_json, print_resources)


@resource.command("return")
@options.job_id()
@with_client
def give_back(client: Client, **body: Any) -> None:
    """Gives back what a job holds at this party; resource_return_status says whether something came back.

    Example: flow resource return -j 202601011200000000000
    """
    show(client.post("resource/return", given(body)))
