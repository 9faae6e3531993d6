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
    """Show, hold, release and empty the queue of this party.

    Example: flow queue list
    """


@queue.command("list")
@options.limit(50, "Maximum number of jobs; 50 by default.")
@click.option("--page", type=int, default=1, help="Number of the page, from 1; 1 by default.")
@options.form()
@with_client
def list_jobs(client: Client, as_json: bool | None, **body: Any) -> None:
    """List this party's waiting jobs in order, and jobs that need an approval here.

    Example: flow queue list -l 20
    """
    from fate_flow.cli.output.queue_table import print_queue

    show_as(client.post("queue/list", body), as_json, print_queue)


@queue.command()
@options.message("Reason; shown to the initiators of jobs that wait for this party.")
@options.author()
@with_client
def hold(client: Client, **body: Any) -> None:
    """Stop reserving cores for new jobs at this party until `release`. Running jobs go on; jobs are still accepted.

    Example: flow queue hold --message "maintenance until noon"
    """
    show(client.post("queue/hold", body))


@queue.command()
@options.author()
@with_client
def release(client: Client, **body: Any) -> None:
    """End the hold: this party reserves again and notifies the waiting jobs at once.

    Example: flow queue release
    """
    show(client.post("queue/release", body))


@queue.command()
@with_client
def clean(client: Client) -> None:
    """Cancel every waiting job that this party has submitted.

    Example: flow queue clean
    """
    show(client.post("job/clean/queue"))
