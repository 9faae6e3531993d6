"""flow task"""

from __future__ import annotations

from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import click

from fate_flow.cli.connection.client import Client, data_of
from fate_flow.cli.console.display import print_json, refuse, show
from fate_flow.cli.input import options
from fate_flow.cli.input.options import given, with_client
from fate_flow.cli.output.bar import Counted, bar
from fate_flow.cli.output.lists import print_tasks, show_as
from fate_flow.cli.output.task_log import follow_log, print_once


@click.group()
def task() -> None:
    """Look at the tasks of jobs.

    Example: flow task query -j 202601011200000000000 -s running
    """


@task.command("list")
@options.limit()
@options.page()
@options.form()
@with_client
def list_tasks(client: Client, as_json: bool | None, **body: Any) -> None:
    """The tasks of this party, oldest first.

    Example: flow task list -l 25 --page 4
    """
    show_as(client.post("job/list/task", given(body)), as_json, print_tasks)


@task.command()
@options.job_id()
@options.role()
@options.party_id()
@options.component_name()
@options.status()
@options.limit(None, "So many at most; 1000 unless given.")
@options.page()
@options.form()
@with_client
def query(client: Client, as_json: bool | None, **body: Any) -> None:
    """The newest version of the tasks that these options mean.

    Example: flow task query -j 202601011200000000000 -cpn intersection_0
    """
    show_as(client.post("job/task/query", given(body)), as_json, print_tasks)


@task.command()
@options.job_id(required=True)
@options.component_name(required=True)
@options.role()
@options.party_id()
@click.option("--stream", type=click.Choice(("stdout", "stderr")), default="stdout", help="stdout unless given.")
@click.option("--worker", type=int, help="Which of several workers, from 0; the first unless given.")
@click.option("--attempt", type=int, help="Which process of that worker, from 0; the newest unless given.")
@click.option("-v", "--task-version", type=int, help="Version of the task; the newest unless given.")
@click.option("--bytes", "size", type=int, help="So much of the end; 262144 unless given, 4194304 at most.")
@click.option("-f", "--follow", "is_followed", is_flag=True, help="Go on until it has exited, or Ctrl-C.")
@options.as_json()
@with_client
def log(client: Client, *, as_json: bool, is_followed: bool, size: int | None, **body: Any) -> None:
    """What a worker of a task prints, at the party that runs it.

    Another party's is shown to the initiator of the job alone, and only where that party shares it. Where a worker was
    replaced, or the task began again, stderr says which attempts and versions there are.

    \b
    Example: flow task log -j 202601011200000000000 -cpn train_0 --stream stderr
             flow task log -j 202601011200000000000 -cpn train_0 -f
    """
    pending = given({**body, "bytes": size})
    if is_followed:
        if as_json:
            raise click.UsageError("--json shows one answer: without -f.")
        follow_log(client, pending)
        return
    answer = client.post("task/log", pending)
    if as_json or not answer.is_success:
        show(answer)
    else:
        print_once(data_of(answer))


@task.command()
@options.job_id(required=True)
@options.component_name(required=True)
@options.role()
@options.party_id()
@click.option("-n", "--output-name", required=True, help="Name of an output of kind file.")
@click.option("-o", "--output-path", required=True, type=click.Path(dir_okay=False), help="File to write.")
@with_client
def output(client: Client, *, output_path: str, **body: Any) -> None:
    """Fetches a file that a task has left at this party, once the task has succeeded at all parties.

    Example: flow task output -j 202601011200000000000 -cpn train_0 -n model -o model.bin
    """
    target = Path(output_path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=target.parent, delete=False) as draft, bar(target.name, None) as advance:
        answer = client.download("POST", "task/output", given(body), Counted(draft, advance))
    if answer is not None:
        Path(draft.name).unlink()
        refuse(answer)
    Path(draft.name).replace(target)
    print_json({"retcode": 0, "retmsg": f"output {body['output_name']} has been stored: {target}"})
