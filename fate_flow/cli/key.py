"""flow key"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from fate_flow.cli import options
from fate_flow.cli.client import Client
from fate_flow.cli.display import show
from fate_flow.cli.lists import print_key, show_as
from fate_flow.cli.options import with_client
from fate_flow.cli.submit_files import overlaid


@click.group()
def key() -> None:
    """Public keys of parties, which their requests are checked with where authentication.site is on.

    Example: flow key query -p 10000
    """


@key.command()
@options.conf_path()
@with_client
def save(client: Client, conf_path: str) -> None:
    """Saves the public key of another party. Compare its id with that party's operator first.

    \b
    Example: flow key save -c key.json
    key.json: {"party_id": "10000", "key": "-----BEGIN PUBLIC KEY-----\\n...\\n-----END PUBLIC KEY-----\\n"}
    Another key of that party is replaced only when its id stands there, too: "replaces": "3b1f..."
    """
    show(client.post("key/public/save", overlaid(conf_path)))


@key.command()
@options.party_id(required=True)
@options.form()
@with_client
def query(client: Client, as_json: bool | None, **body: Any) -> None:
    """The public key of a party, in PEM, and its id; of the own party, what others have to save.

    Example: flow key query -p 9999
    """
    answer = client.post("key/query", body)
    show_as(answer, as_json, partial(print_key, answer.envelope.get("key_id")))


@key.command()
@options.party_id(required=True)
@with_client
def delete(client: Client, **body: Any) -> None:
    """Deletes the public key of another party: nothing that it signs is believed any more.

    Example: flow key delete -p 10000
    """
    show(client.post("key/public/delete", body))
