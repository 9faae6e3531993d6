"""How many jobs or tables match: counted by one request after the other, so that none holds the server for long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fate_flow.cli.connection.client import Client, data_of
from fate_flow.cli.console.display import print_json
from fate_flow.cli.input.options import is_typed
from fate_flow.cli.output.lists import is_for_people
from fate_flow.core.text.phrases import counted


def check_counts_all(place: str | None, what: str) -> None:
    """Raise UsageError if an option of the present command chooses a page of what is to be counted."""
    if place is not None or is_typed("limit"):
        option = "--from" if place is not None else "--limit"
        raise click.UsageError(f"{option}: does not go with --count, which counts all {what} that fit; leave it out")


def count_all(client: Client, path: str, wanted: Mapping[str, Any]) -> int:
    """Return the number of all that match at this party; the route `path` counts a part of them."""
    number, place = 0, None
    while True:
        found = data_of(client.post(path, {**wanted, **({"from": place} if place else {})}))
        number, place = number + int(found["count"]), found["next"]
        if not place:
            return number


def print_number(number: int, what: str, as_json: bool | None) -> None:
    if is_for_people(as_json):
        click.echo(counted(number, what))
    else:
        print_json({"count": number})
