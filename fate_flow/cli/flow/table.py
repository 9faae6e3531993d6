"""flow table"""

from __future__ import annotations

from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import show
from fate_flow.cli.input import options
from fate_flow.cli.input.options import given, with_client
from fate_flow.cli.input.submit_files import overlaid
from fate_flow.cli.output.lists import print_facts, print_jobs_of_table, print_sources, print_table_info, show_as


@click.group()
def table() -> None:
    """Look at, make, hide and delete the tables of this party.

    Example: flow table info -n demo -t site_a
    """


@table.command()
@options.namespace(required=True)
@options.table_name(required=True)
@options.form()
@with_client
def info(client: Client, as_json: bool | None, **body: Any) -> None:
    """Whether a table exists, and what is in it.

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
    """Deletes a table; the server looks at its namespace and name alone.

    Example: flow table delete -n demo -t site_a
    """
    show(client.post("table/delete", given(body)))


@table.command("add")
@options.conf_path()
@with_client
def add(client: Client, conf_path: str) -> None:
    """The same as `flow table bind`, for a name that is new.

    Example: flow table add -c bind.json
    """
    show(client.submit("table/add", overlaid(conf_path)))


@table.command()
@options.conf_path()
@click.option("--drop", is_flag=True, help="Replace the table when it exists; else this is refused.")
@with_client
def bind(client: Client, conf_path: str, drop: bool) -> None:
    """Makes a table of a CSV file on the server's machine, or of a table of another server; a local job reads it in.

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
    """Keeps jobs from reading a table.

    Example: flow table disable -n demo -t site_a
    """
    show(client.post("table/disable", given(body)))


@table.command()
@options.namespace()
@options.table_name()
@with_client
def enable(client: Client, **body: Any) -> None:
    """Lets jobs read a table again.

    Example: flow table enable -n demo -t site_a
    """
    show(client.post("table/enable", given(body)))


@table.command("disable-delete")
@with_client
def disable_delete(client: Client) -> None:
    """Deletes all tables that are disabled.

    Example: flow table disable-delete
    """
    show(client.post("table/disable/delete", {}))


@table.command("connector-create")
@options.conf_path()
@with_client
def connector_create(client: Client, conf_path: str) -> None:
    """A name for a file or folder of the server's machine, for the address of bind, add and data writer.

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
    """What a connector leads to.

    Example: flow table connector-query --connector-name exports
    """
    show_as(client.post("table/connector/query", body), as_json, print_facts)


@table.command("tracking-source")
@options.namespace()
@options.table_name()
@options.form()
@with_client
def tracking_source(client: Client, as_json: bool | None, **body: Any) -> None:
    """The tables that a task made a table of, and those at the beginning of the way there.

    Example: flow table tracking-source -n demo -t site_a
    """
    show_as(client.post("table/tracking/source", given(body)), as_json, print_sources)


@table.command("tracking-job")
@options.namespace()
@options.table_name()
@options.form()
@with_client
def tracking_job(client: Client, as_json: bool | None, **body: Any) -> None:
    """The jobs whose tasks made a table or handed it on.

    Example: flow table tracking-job -n demo -t site_a
    """
    show_as(client.post("table/tracking/job", given(body)), as_json, print_jobs_of_table)
