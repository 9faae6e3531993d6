"""flow key"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import show, tell
from fate_flow.cli.input import options
from fate_flow.cli.input.options import given, with_client
from fate_flow.cli.input.submit_files import overlaid, read_text
from fate_flow.cli.output.lists import print_key, show_as


@click.group()
def key() -> None:
    """Manage the public keys that check other parties' requests if authentication.site is on.

    Example: flow key query -p 10000
    """


@key.command()
@options.conf_path(required=False)
@click.option("--pem", "pem_path", type=click.Path(exists=True, dir_okay=False), help="PEM file of the key; needs -p.")
@click.option(
    "--list", "list_path", type=click.Path(exists=True, dir_okay=False), help="File of the party's key list; needs -p."
)
@options.party_id()
@click.option("--fingerprint", metavar="TEXT", help="Fingerprint of the party's root key, as its operator read it out.")
@click.option("--replaces", metavar="KEY-ID", help="Key id of the saved key that this one replaces.")
@with_client
def save(
    client: Client, conf_path: str | None, pem_path: str | None, list_path: str | None, **options: str | None
) -> None:  # fmt: skip
    """Save the key list of another party, or its public key alone. First compare the fingerprint of its root key, or
    the key id, with that party's operator.

    \b
    Example: flow key save --list 10000.keys -p 10000 --fingerprint ABCDEFG-...
             flow key save --pem 10000.pem -p 10000
             flow key save -c key.json
    key.json: {"party_id": "10000", "key": "-----BEGIN PUBLIC KEY-----\\n...\\n-----END PUBLIC KEY-----\\n"}
    To replace a saved key, name its key id: --replaces 3b1f..., or "replaces": "3b1f..." in key.json
    """
    answer = client.post("key/public/save", _key_to_save(conf_path, pem_path, list_path, options))
    show(answer)
    if list_path is not None and options["fingerprint"] is None:
        tell(
            f"Compare the fingerprint with the operator of party {options['party_id']}, for example by telephone; "
            "`fate_flow key fingerprint` prints it there."
        )


def _key_to_save(
    conf_path: str | None, pem_path: str | None, list_path: str | None, options: dict[str, str | None]
) -> dict[str, Any]:
    """Raise UsageError, BadFile."""
    if sum(one is not None for one in (conf_path, pem_path, list_path)) != 1:
        raise click.UsageError(
            "Give one of '--list' (a key list) or '--pem' (a PEM file), each with '-p', or '-c' (a JSON file)."
        )
    if conf_path is not None:
        return overlaid(conf_path, **options)
    if options["party_id"] is None:
        raise click.UsageError("Missing option '-p': the party whose key it is.")
    return {"key": read_text(str(pem_path or list_path)), **given(options)}


@key.command()
@options.party_id(required=True)
@options.form()
@with_client
def query(client: Client, as_json: bool | None, **body: Any) -> None:
    """Show the public key of a party in PEM, and its key id. Other parties save the key that is shown for this party.

    Example: flow key query -p 9999
    """
    answer = client.post("key/query", body)
    show_as(answer, as_json, partial(print_key, answer.envelope.get("key_id")))


@key.command()
@options.party_id(required=True)
@with_client
def delete(client: Client, **body: Any) -> None:
    """Delete the public key of another party: this server then refuses every request that it signs.

    Example: flow key delete -p 10000
    """
    show(client.post("key/public/delete", body))
