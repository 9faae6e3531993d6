"""flow task"""

from __future__ import annotations

from typing import Any

import click

from fate_flow.cli import options
from fate_flow.cli.client import Client
from fate_flow.cli.display import show
from fate_flow.cli.options import given, with_client


@click.group()
def task() -> None:
    """Look at the tasks of jobs.

    Example: flow task query -j 202601011200000000000 -s running
    """


@task.command("list")
@options.limit()
@with_client
def list_tasks(client: Client, **body: Any) -> None:
    """The tasks of this party, oldest first.

    Example: flow task list -l 25
    """
    show(client.post("job/list/task", body))


@task.command()
@options.job_id()
@options.role()
@options.party_id()
@options.component_name()
@options.status()
@with_client
def query(client: Client, **body: Any) -> None:
    """The newest version of the tasks that these options mean.

    Example: flow task query -j 202601011200000000000 -cpn intersection_0
    """
    show(client.post("job/task/query", given(body)))
