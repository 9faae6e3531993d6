"""flow queue"""

from __future__ import annotations

import click

from fate_flow.cli.client import Client
from fate_flow.cli.display import show
from fate_flow.cli.options import with_client


@click.group()
def queue() -> None:
    """Empty the queue of waiting jobs.

    Example: flow queue clean
    """


@queue.command()
@with_client
def clean(client: Client) -> None:
    """Cancels every waiting job that this party has submitted.

    Example: flow queue clean
    """
    show(client.post("job/clean/queue"))
