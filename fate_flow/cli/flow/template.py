"""flow template"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import print_json, refuse
from fate_flow.cli.input import options
from fate_flow.cli.input.options import given, with_client
from fate_flow.cli.output.unpacked import downloaded, fetch_folder


@click.group()
def template() -> None:
    """Download example configurations, DSLs and data.

    Example: flow template download -o .
    """


@template.command()
@click.option("--min-data", type=int, help="Sent to the server as in FATE; no effect, since all example data is small.")
@options.output_path(required=True)
@with_client
def download(client: Client, **body: Any) -> None:
    """Download example configurations, DSLs and a little data into OUTPUT_PATH/template.

    Example: flow template download -o .
    """
    folder = Path(body["output_path"]).absolute()
    answer = fetch_folder(client, "POST", "template/download", given(body), folder)
    if answer is not None:
        refuse(answer)
    print_json(downloaded(folder))
