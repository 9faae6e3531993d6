"""flow table"""

from __future__ import annotations

from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import show
from fate_flow.cli.input import options
from fate_flow.cli.input.options import given, with_client
from fate_flow.cli.input.submit_files import overlaid
from fate_flow.cli.output.counts import check_counts_all, count_all, print_number
from fate_flow.cli.output.lists import print_facts, print_rows, print_sources, print_table_info, show_as
from fate_flow.cli.output.lists_of_jobs import print_jobs_of_table, print_tables
from fate_flow.cli.output.named_jobs import show_with_jobs


@click.group()
def table() -> None:
    """Show, create, disable and delete the tables of this party.

    Example: flow table info -n demo -t site_a
    """


@table.command("list")
@options.limit()
@click.option(
    "--origin", type=click.Choice(("upload", "output", "writer", "table_bind")), default="upload",
    help="Tables that were uploaded, made by tasks, written by Writer, or bound; upload by default.",
)
@options.namespace()
@click.option("--from", "place", metavar="PLACE", help="Go on from the place that the page before has named.")
@click.option("--count", "is_count", is_flag=True, help="Only count them, all that fit; not with --from or --limit.")
@options.form()
@with_client
def list_tables(
    client: Client, as_json: bool | None, limit: int, place: str | None, is_count: bool, **wanted: Any
) -> None:
    """List the newest tables of this party.

    \b
    Example: flow table list -l 30
             flow table list --origin output -n output_202601011200000000000_reader_0_0
             flow table list --origin table_bind --count
    """
    wanted = given(wanted)
    if is_count:
        check_counts_all(place, "tables")
        print_number(count_all(client, "table/search/count", wanted), "table", as_json)
    else:
        answer = client.post("table/search", given({**wanted, "limit": limit, "from": place}))
        show_with_jobs(answer, as_json, print_tables)


@table.command()
@options.namespace(required=True)
@options.table_name(required=True)
@options.form()
@with_client
def info(client: Client, as_json: bool | None, **body: Any) -> None:
    """Show whether a table exists, its columns and its number of rows.

    Example: flow table info -n demo -t site_a
    """
    show_as(client.post("table/table_info", body), as_json, print_table_info)


@table.command()
@options.namespace()
@options.table_name()
@options.job_id()
@options.role()
@options.party_id()
@options.component_name()
@with_client
def delete(client: Client, **body: Any) -> None:
    """Delete a table. The server uses only the namespace and the name.

    Example: flow table delete -n demo -t site_a
    """
    show(client.post("table/delete", given(body)))


@table.command("add")
@options.conf_path()
@with_client
def add(client: Client, conf_path: str) -> None:
    """Like `flow table bind`, but the name must be new.

    Example: flow table add -c bind.json
    """
    show(client.submit("table/add", overlaid(conf_path)))


@table.command()
@options.namespace(required=True)
@options.table_name(required=True)
@options.form()
@with_client
def preview(client: Client, as_json: bool | None, **body: Any) -> None:
    """Show the first 100 rows of a table; `flow data download` has all.

    Example: flow table preview -n demo -t site_a
    """
    show_as(client.post("table/preview", body), as_json, print_rows)


@table.command()
@options.conf_path()
@click.option("--drop", is_flag=True, help="Replace an existing table, which is refused otherwise.")
@with_client
def bind(client: Client, conf_path: str, drop: bool) -> None:
    """Create a table from a CSV file on the server's machine, or from MySQL.

    A local job reads the data into this party's storage.

    \b
    Example: flow table bind -c bind.json
    bind.json: {"engine": "PATH", "address": {"path": "/data/site_a.csv"}, "namespace": "demo", "name": "site_a"}
    or, with a connector of the server's configuration:
               {"engine": "MYSQL", "address": {"connector_name": "warehouse", "name": "site_a"}, "id_column": "id",
                "namespace": "demo", "name": "site_a"}
    """
    show(client.submit("table/bind", overlaid(conf_path, drop=drop)))


@table.command()
@options.namespace()
@options.table_name()
@with_client
def disable(client: Client, **body: Any) -> None:
    """Forbid jobs to read a table.

    Example: flow table disable -n demo -t site_a
    """
    show(client.post("table/disable", given(body)))


@table.command()
@options.namespace()
@options.table_name()
@with_client
def enable(client: Client, **body: Any) -> None:
    """Allow jobs to read a disabled table again.

    Example: flow table enable -n demo -t site_a
    """
    show(client.post("table/enable", given(body)))


@table.command("disable-delete")
@with_client
def disable_delete(client: Client) -> None:
    """Delete all disabled tables.

    Example: flow table disable-delete
    """
    show(client.post("table/disable/delete", {}))


@table.command("connector-create")
@options.conf_path()
@with_client
def connector_create(client: Client, conf_path: str) -> None:
    """Name a file or folder of the server's machine, for bind, add and data writer.

    \b
    Example: flow table connector-create -c connector.json
    connector.json: {"connector_name": "exports", "engine": "PATH", "connector_info": {"path": "/data/exports"}}
    """
    show(client.post("table/connector/create", overlaid(conf_path)))


@table.command("connector-query")
@click.option("--connector-name", required=True, help="Name of a connector.")
@options.form()
@with_client
def connector_query(client: Client, as_json: bool | None, **body: Any) -> None:
    """Show what a connector refers to.

    Example: flow table connector-query --connector-name exports
    """
    show_as(client.post("table/connector/query", body), as_json, print_facts)


@table.command("tracking-source")
@options.namespace()
@options.table_name()
@options.form()
@with_client
def tracking_source(client: Client, as_json: bool | None, **body: Any) -> None:
    """Show the tables from which a task made this table, and the first tables of that chain.

    Example: flow table tracking-source -n demo -t site_a
    """
    show_as(client.post("table/tracking/source", given(body)), as_json, print_sources)


@table.command("tracking-job")
@options.namespace()
@options.table_name()
@options.form()
@with_client
def tracking_job(client: Client, as_json: bool | None, **body: Any) -> None:
    """List the jobs whose tasks produced a table, read it or passed it on, and the models that they made from it.

    Example: flow table tracking-job -n demo -t site_a
    """
    show_with_jobs(client.post("table/tracking/job", given(body)), as_json, print_jobs_of_table)
