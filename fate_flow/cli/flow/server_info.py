"""flow server, flow service, flow top"""

from __future__ import annotations

import sys
import time

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import show
from fate_flow.cli.input import options
from fate_flow.cli.input.options import with_client
from fate_flow.cli.output.lists import print_facts, print_sections, show_as


@click.group()
def server() -> None:
    """Show the versions and the state of the server; compare its configuration with its files.

    Example: flow server versions
    """


@server.command()
@options.form()
@with_client
def versions(client: Client, as_json: bool | None) -> None:
    """Show the versions of the server, its API, Python, and the compatible FATE release.

    Example: flow server versions
    """
    show_as(client.post("server/version/get", {}), as_json, print_facts)


@server.command()
@options.form()
@with_client
def info(client: Client, as_json: bool | None) -> None:
    """Show whether the server takes new jobs, uploads and messages, and how much of its disk is free.

    It takes none while less of the disk is free than limits.least_free_disk.

    Example: flow server info
    """
    show_as(client.post("server/info", {}), as_json, print_facts)


@server.command()
@with_client
def reload(client: Client) -> None:
    """Show whether the configuration files changed since the server started.

    A change takes effect only after a restart.

    Example: flow server reload
    """
    show(client.post("server/reload", {}))


@click.group()
def service() -> None:
    """Show the server's configuration.

    Example: flow service registry
    """


@service.command()
@options.form()
@with_client
def registry(client: Client, as_json: bool | None) -> None:
    """Show the sections of the server's configuration, without keys, passwords and folders.

    Example: flow service registry
    """
    show_as(client.post("server/service/get", {}), as_json, print_sections)


@click.command()
@click.option("--once", is_flag=True, help="Print the overview once, as also in a pipe.")
@click.option(
    "--seconds", type=click.FloatRange(0.5, 3600), default=2.0, help="Time between two looks; 2 by default.",
)
@with_client
def top(client: Client, once: bool, seconds: float) -> None:
    """Show what this party does, over and over: free cores, what runs, what waits and why, what failed lately, and
    which parties do not answer. Ctrl-C ends it.

    \b
    Example: flow top
             flow top --once
    """
    from fate_flow.cli.output.overview import Looks, lines_of, show_live
    from fate_flow.cli.output.watch import INTERRUPTED

    with Looks(client, lambda: time.time_ns() // 1_000_000) as looks:
        if once or not sys.stdout.isatty():
            for line in lines_of(looks.take(waits=True), None, None):
                click.echo(line.text)
            return
        try:
            show_live(looks, seconds, client.pause)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
