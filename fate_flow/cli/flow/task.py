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
from fate_flow.cli.output.lists_of_jobs import print_tasks
from fate_flow.cli.output.named_jobs import show_with_jobs
from fate_flow.cli.output.task_log import follow_log, print_once


@click.group()
def task() -> None:
    """Show the tasks of jobs, their output and their files.

    Example: flow task query -j 202601011200000000000 -s running
    """


@task.command("list")
@options.limit()
@options.page()
@options.form()
@with_client
def list_tasks(client: Client, as_json: bool | None, **body: Any) -> None:
    """List the tasks of this party, oldest first.

    Example: flow task list -l 25 --page 4
    """
    show_with_jobs(client.post("job/list/task", given(body)), as_json, print_tasks)


@task.command()
@options.job_id()
@options.role()
@options.party_id()
@options.component_name()
@options.status()
@options.limit(None, "Maximum number of tasks; 1000 by default.")
@options.page()
@options.form()
@with_client
def query(client: Client, as_json: bool | None, **body: Any) -> None:
    """Show the newest version of the tasks that match all given options.

    Example: flow task query -j 202601011200000000000 -cpn intersection_0
    """
    show_with_jobs(client.post("job/task/query", given(body)), as_json, print_tasks)


@task.command()
@options.job_id(required=True)
@options.component_name(required=True)
@options.role()
@options.party_id()
@click.option("--stream", type=click.Choice(("stdout", "stderr")), default="stdout", help="stdout by default.")
@click.option("--worker", type=int, help="Number of the worker, from 0; 0 by default.")
@click.option("--attempt", type=int, help="Number of that worker's process, from 0; the newest by default.")
@options.task_version()
@click.option("--bytes", "size", type=int, help="Number of bytes from the end; 262144 by default, at most 4194304.")
@click.option("--workers-from", type=int, help="With --json: list the workers, too, from this number on.")
@click.option("-f", "--follow", "is_followed", is_flag=True, help="Follow until the worker exits, or Ctrl-C.")
@options.as_json()
@with_client
def log(client: Client, *, as_json: bool, is_followed: bool, size: int | None, **body: Any) -> None:
    """Show what a worker of a task prints, at the party that runs it.

    The output of another party's worker is shown only to the initiator of the job, and only if that party shares it.
    If a worker was replaced or the task was retried, stderr lists the available attempts and versions.

    \b
    Example: flow task log -j 202601011200000000000 -cpn train_0 --stream stderr
             flow task log -j 202601011200000000000 -cpn train_0 -f
    """
    pending = given({**body, "bytes": size})
    if is_followed:
        if as_json:
            raise click.UsageError("--json cannot be combined with -f: it shows a single reply.")
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
@options.task_version()
@click.option("-n", "--output-name", required=True, help="Name of an output of kind file.")
@click.option("-o", "--output-path", required=True, type=click.Path(dir_okay=False), help="File to write.")
@with_client
def output(client: Client, *, output_path: str, **body: Any) -> None:
    """Download a file that a task produced at this party; the task must have succeeded at all parties.

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
