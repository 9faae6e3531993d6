"""flow queue"""

from __future__ import annotations

from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import show
from fate_flow.cli.input import options
from fate_flow.cli.input.options import with_client
from fate_flow.cli.output.lists import show_as


@click.group()
def queue() -> None:
    """See, hold, release and empty the queue of this party.

    Example: flow queue list
    """


@queue.command("list")
@options.limit(50, "So many at most; 50 unless given.")
@click.option("--page", type=int, default=1, help="From 1; 1 unless given.")
@options.form()
@with_client
def list_jobs(client: Client, as_json: bool | None, **body: Any) -> None:
    """The jobs of this initiator that wait, in their order, and those of others that await an approval here.

    Example: flow queue list -l 20
    """
    from fate_flow.cli.output.queue_table import print_queue

    show_as(client.post("queue/list", body), as_json, print_queue)


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
