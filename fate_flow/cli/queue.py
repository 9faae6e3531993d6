"""flow queue"""

from __future__ import annotations

from typing import Any

import click

from fate_flow.cli import options
from fate_flow.cli.client import Client
from fate_flow.cli.display import show
from fate_flow.cli.options import with_client


@click.group()
def queue() -> None:
    """Hold, release and empty the queue of this party.

    Example: flow queue hold --message "maintenance until noon"
    """


@queue.command()
@options.message("Why; the initiators of jobs that wait for this party are told.")
@options.author()
@with_client
def hold(client: Client, **body: Any) -> None:
    """This party reserves nothing for new jobs until it is released. What runs goes on; jobs are still accepted.

    Example: flow queue hold --message "maintenance until noon"
    """
    show(client.post("queue/hold", body))


@queue.command()
@options.author()
@with_client
def release(client: Client, **body: Any) -> None:
    """This party reserves again; jobs that wait for it are asked for at once.

    Example: flow queue release
    """
    show(client.post("queue/release", body))


@queue.command()
@with_client
def clean(client: Client) -> None:
    """Cancels every waiting job that this party has submitted.

    Example: flow queue clean
    """
    show(client.post("job/clean/queue"))
