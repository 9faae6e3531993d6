"""flow component, and the same commands as flow tracking"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import print_json, refuse, show
from fate_flow.cli.input import options
from fate_flow.cli.input.options import given, with_client
from fate_flow.cli.output.description import print_description
from fate_flow.cli.output.lists import (
    print_components,
    print_facts,
    print_metric_values,
    print_metrics,
    print_offered_components,
    print_output_tables,
    show_as,
)
from fate_flow.cli.output.named_jobs import show_of_job
from fate_flow.cli.output.unpacked import downloaded, fetch_file, fetch_folder, folder_in


@click.group()
def component() -> None:
    """Show the parameters, metrics and outputs of a component of a job.

    Example: flow component parameters -j 202601011200000000000 -r guest -p 9999 -cpn intersection_0
    """


@click.group()
def tracking() -> None:
    """The same as `flow component`.

    Example: flow tracking parameters -j 202601011200000000000 -r guest -p 9999 -cpn intersection_0
    """


def _command(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that adds a command to both groups."""

    def added(function: Callable[..., Any]) -> click.Command:
        command = click.command(name)(function)
        component.add_command(command)
        tracking.add_command(command)
        return command

    return added


@_command("list")
@options.job_id()
@options.form()
@with_client
def list_components(client: Client, as_json: bool | None, **body: Any) -> None:
    """List the components of a job; without a job, those that this server can run.

    \b
    Example: flow component list -j 202601011200000000000
             flow component list
    """
    if body["job_id"] is None:
        show_as(client.post("component/get", {}), as_json, print_offered_components)
        return
    show_of_job(client.post("tracking/component/list", body), body["job_id"], as_json, print_components)


@component.command("desc")
@click.argument("name")
@options.form()
@with_client
def describe(client: Client, as_json: bool | None, name: str) -> None:
    """Show what a component takes and gives: its roles, parameters, inputs and outputs.

    \b
    Example: flow component desc Intersection
             flow component desc fate.psi
    """
    show_as(client.post("component/describe", {"component": name}), as_json, print_description)


@component.command("metric-delete")
@click.option("-d", "--date", "model", help="All finished jobs of this day, YYYYMMDD; -j is then ignored.")
@options.job_id()
@with_client
def metric_delete(client: Client, **body: Any) -> None:
    """Delete the metrics of a finished job, or of all finished jobs of a day.

    Example: flow component metric-delete -j 202601011200000000000
    """
    show(client.post("tracking/component/metric/delete", given(body)))


@_command("parameters")
@options.one_seat
@options.form()
@with_client
def parameters(client: Client, as_json: bool | None, **body: Any) -> None:
    """Show the parameters of a component at one party.

    Example: flow component parameters -j 202601011200000000000 -r guest -p 9999 -cpn intersection_0
    """
    show_of_job(client.post("tracking/component/parameters", body), body["job_id"], as_json, print_facts)


@_command("metrics")
@options.one_seat
@options.form()
@with_client
def metrics(client: Client, as_json: bool | None, **body: Any) -> None:
    """List the names of a component's metrics.

    Example: flow component metrics -j 202601011200000000000 -r guest -p 9999 -cpn intersection_0
    """
    show_of_job(client.post("tracking/component/metrics", body), body["job_id"], as_json, print_metrics)


@_command("metric-all")
@options.one_seat
@options.task_version()
@options.form()
@with_client
def metric_all(client: Client, as_json: bool | None, **body: Any) -> None:
    """Show the metrics of a component with their values.

    Example: flow component metric-all -j 202601011200000000000 -r guest -p 9999 -cpn intersection_0
    """
    show_of_job(client.post("tracking/component/metric/all", given(body)), body["job_id"], as_json, print_metric_values)


@_command("output-data")
@options.one_seat
@options.output_path(required=True)
@options.limit(-1, "Maximum number of rows; all rows by default.")
@with_client
def output_data(client: Client, **body: Any) -> None:
    """Download the output tables of a component.

    They are written to OUTPUT_PATH/job_<id>_<component>_<role>_<party>_output_data.

    Example: flow component output-data -j 202601011200000000000 -r guest -p 9999 -cpn intersection_0 -o .
    """
    name = f"job_{body['job_id']}_{body['component_name']}_{body['role']}_{body['party_id']}_output_data"
    folder = folder_in(body["output_path"], name)
    answer = fetch_folder(client, "GET", "tracking/component/output/data/download", body, folder)
    if answer is not None:
        refuse(answer)
    print_json(downloaded(folder, "Download"))


@_command("output-data-table")
@options.one_seat
@options.task_version()
@options.form()
@with_client
def output_data_table(client: Client, as_json: bool | None, **body: Any) -> None:
    """List the names of a component's output tables.

    Example: flow component output-data-table -j 202601011200000000000 -r guest -p 9999 -cpn intersection_0
    """
    answer = client.post("tracking/component/output/data/table", given(body))
    show_of_job(answer, body["job_id"], as_json, print_output_tables)


@_command("output-model")
@options.one_seat
@options.task_version()
@with_client
def output_model(client: Client, **body: Any) -> None:
    """Show the models of a component, by its outputs; of a folder, only its digest and size (flow model export).

    Example: flow component output-model -j 202601011200000000000 -r guest -p 9999 -cpn train_0
    """
    show(client.post("tracking/component/output/model", given(body)))


@_command("get-summary")
@options.one_seat
@click.option(
    "-o", "--output-path", type=click.Path(exists=True, file_okay=False), help="Folder to write the summary file into."
)
@options.form()
@with_client
def get_summary(client: Client, as_json: bool | None, output_path: str | None, **body: Any) -> None:
    """Print the summary of a component, or write it to a file.

    \b
    Example: flow component get-summary -j 202601011200000000000 -r guest -p 9999 -cpn intersection_0
             flow component get-summary -j 202601011200000000000 -r guest -p 9999 -cpn intersection_0 -o .
    """
    if output_path is not None and as_json is not None:
        raise click.UsageError("--json and --table cannot be combined with -o: they format what is printed")
    if output_path is None:
        show_of_job(client.post("tracking/component/summary/download", body), body["job_id"], as_json, print_facts)
        return
    name = f"summary_{body['component_name']}_{datetime.now():%Y%m%d%H%M%S}.json"
    target = folder_in(output_path, name)
    body |= {"filename": name, "output_path": str(target)}
    fetch_file(client, "tracking/component/summary/download", body, target)
    stored = f"The summary of component <{body['component_name']}> has been stored successfully."
    print_json({"retcode": 0, "retmsg": f"{stored} File path is: {target}."})
