"""How many jobs match: counted by one request after the other, so that none holds the server for long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fate_flow.cli.connection.client import Client, data_of
from fate_flow.cli.console.display import print_json
from fate_flow.cli.output.lists import is_for_people
from fate_flow.core.text.phrases import counted


def counted_jobs(client: Client, wanted: Mapping[str, Any]) -> int:
    """Return the number of jobs of this party that match."""
    number, place = 0, None
    while True:
        found = data_of(client.post("job/search/count", {**wanted, **({"from": place} if place else {})}))
        number, place = number + int(found["count"]), found["next"]
        if not place:
            return number


def print_number(number: int, as_json: bool | None) -> None:
    if is_for_people(as_json):
        click.echo(counted(number, "job"))
    else:
        print_json({"count": number})
