"""flow resource"""

from __future__ import annotations

from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import show
from fate_flow.cli.input import options
from fate_flow.cli.input.options import given, with_client
from fate_flow.cli.output.lists import print_reserved, show_as
from fate_flow.cli.output.lists_of_jobs import print_resources
from fate_flow.cli.output.named_jobs import show_with_jobs


@click.group()
def resource() -> None:
    """Show which jobs hold cores and memory, and release what a job holds.

    Example: flow resource query
    """


@resource.command()
@options.form()
@with_client
def query(client: Client, as_json: bool | None) -> None:
    """Show the cores and memory of this party's engine, and how much of them each job holds.

    Example: flow resource query
    """
    show_with_jobs(client.post("resource/query", {}), as_json, print_resources)


@resource.command()
@options.form()
@with_client
def history(client: Client, as_json: bool | None) -> None:
    """Show the cores and memory that jobs had reserved at this party in the last day, as means of 15 minutes.

    Example: flow resource history
    """
    show_as(client.post("resource/history", {}), as_json, print_reserved)


@resource.command("return")
@options.job_id()
@with_client
def give_back(client: Client, **body: Any) -> None:
    """Release what a job that does not run holds at this party.

    resource_return_status in the answer says whether anything was released.

    Example: flow resource return -j 202601011200000000000
    """
    show(client.post("resource/return", given(body)))
