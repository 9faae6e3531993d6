"""fate_flow key"""

from __future__ import annotations

from pathlib import Path

import click

from fate_flow.cli.console.display import tell
from fate_flow.peers.site_key import ED25519, KINDS, PublicKey, load_private_key, make_private_key
from fate_flow.settings.reader import load_settings

conf_option = click.option(
    "-c", "--conf", "conf", required=True, type=click.Path(path_type=Path), help="The server's service_conf.yaml."
)


@click.group("key")
def key_group() -> None:
    """Make and show the key with which this party signs its requests to other parties.

    Example: fate_flow key make -c conf/service_conf.yaml
    """


@key_group.command()
@conf_option
@click.option("--kind", type=click.Choice(KINDS), default=ED25519, help=f"{ED25519} by default.")
def make(conf: Path, kind: str) -> None:
    """Make the private key; print the public key for the other parties.

    Only this user can read the file of the private key. The command never replaces an existing key. The server reads
    the key when it starts.

    Example: fate_flow key make -c conf/service_conf.yaml > 9999.pem
    """
    settings = load_settings(conf)
    key = make_private_key(settings.private_key, kind)
    tell(f"made {settings.private_key}")
    _print(settings.party_id, key.public)


@key_group.command()
@conf_option
def show(conf: Path) -> None:
    """Print the public key and its key id.

    Example: fate_flow key show -c conf/service_conf.yaml
    """
    settings = load_settings(conf)
    _print(settings.party_id, load_private_key(settings.private_key).public)


def _print(party_id: str, key: PublicKey) -> None:
    tell(f"key id of party {party_id}: {key.key_id}")
    click.echo(key.pem, nl=False)
