"""flow queue"""

from __future__ import annotations

import click

from fate_flow.cli.client import Client
from fate_flow.cli.display import show


@click.group()
def queue() -> None:
    """Empty the queue of waiting jobs.

    Example: flow queue clean
    """


@queue.command()
@click.pass_obj
def clean(client: Client) -> None:
    """Cancels every waiting job that this party has submitted.

    Example: flow queue clean
    """
    show(client.post("job/clean/queue"))
