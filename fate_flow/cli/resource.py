"""flow resource"""

from __future__ import annotations

from typing import Any

import click

from fate_flow.cli import options
from fate_flow.cli.client import Client
from fate_flow.cli.display import show
from fate_flow.cli.options import given, with_client


@click.group()
def resource() -> None:
    """See which jobs hold cores and memory, and give back what a job holds.

    Example: flow resource query
    """


@resource.command()
@with_client
def query(client: Client) -> None:
    """What this party's engine has, and which jobs hold how much of it.

    Example: flow resource query
    """
    show(client.post("resource/query", {}))


@resource.command("return")
@options.job_id()
@with_client
def give_back(client: Client, **body: Any) -> None:
    """Gives back what a job holds at this party; exit code 1 when it holds nothing.

    Example: flow resource return -j 202601011200000000000
    """
    answer = client.post("resource/return", given(body))
    show(answer)
    if answer.data and not any(one["resource_return_status"] for one in answer.data):
        raise SystemExit(1)
