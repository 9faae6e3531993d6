"""flow key"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import show
from fate_flow.cli.input import options
from fate_flow.cli.input.options import given, with_client
from fate_flow.cli.input.submit_files import overlaid, read_text
from fate_flow.cli.output.lists import print_key, show_as


@click.group()
def key() -> None:
    """Public keys of parties, which their requests are checked with where authentication.site is on.

    Example: flow key query -p 10000
    """


@key.command()
@options.conf_path(required=False)
@click.option("--pem", "pem_path", type=click.Path(exists=True, dir_okay=False), help="The key, a PEM file; needs -p.")
@options.party_id()
@click.option("--replaces", metavar="KEY-ID", help="Id of the key that it takes the place of, where one is saved.")
@with_client
def save(client: Client, conf_path: str | None, pem_path: str | None, **options: str | None) -> None:
    """Saves the public key of another party. Compare its id with that party's operator first.

    \b
    Example: flow key save --pem 10000.pem -p 10000
             flow key save -c key.json
    key.json: {"party_id": "10000", "key": "-----BEGIN PUBLIC KEY-----\\n...\\n-----END PUBLIC KEY-----\\n"}
    Another key of that party is replaced only when its id is named, too: --replaces, or "replaces": "3b1f..."
    """
    show(client.post("key/public/save", _key_to_save(conf_path, pem_path, options)))


def _key_to_save(conf_path: str | None, pem_path: str | None, options: dict[str, str | None]) -> dict[str, Any]:
    """Raises UsageError, BadFile."""
    if (conf_path is None) is (pem_path is None):
        raise click.UsageError("Either '--pem' (the key in PEM) with '-p', or '-c' (a JSON file that has both).")
    if conf_path is not None:
        return overlaid(conf_path, **options)
    if options["party_id"] is None:
        raise click.UsageError("Missing option '-p': whose key is in the file of '--pem'.")
    return {"key": read_text(str(pem_path)), **given(options)}


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
