"""fate_flow key"""

from __future__ import annotations

import sys
from math import isnan
from pathlib import Path

import click

from fate_flow.cli.console.display import tell
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.cli.server.recorded_act import recorded_act
from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import MOST_NUMBER, TLS, USES, read_key_list
from fate_flow.peers.key_changes import message_key
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.site_key import ED25519, KINDS
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings

_MOST_DAYS = 3650

file_type = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("key")
def key_group() -> None:
    """Make, certify and show the keys by which other parties know this one.

    The root key signs the key list, which has the keys that the server uses: one for TLS, one for messages, and one for
    the record.

    Example: fate_flow key make -c conf/service_conf.yaml
    """


@key_group.command()
@conf_option
@click.option("--kind", type=click.Choice(KINDS), default=ED25519, help=f"Of the message key. {ED25519} by default.")
def make(conf: Path, kind: str) -> None:
    """Make the keys that are missing; print the key list for the other parties, unless this is a terminal.

    Only this user can read the files of the private keys. The command never replaces an existing key: the key with
    which an older release signed becomes the message key. You may move root.pem to a safe place afterwards; only
    `certify` and `announce` need it. To change a key later, use `announce`.

    Example: fate_flow key make -c conf/service_conf.yaml > 9999.keys
    """
    settings = load_settings(conf)
    keys = _keys(settings)
    for path in keys.make(kind):
        tell(f"made {path}")
    _print(settings, keys, with_list=not sys.stdout.isatty())


@key_group.command()
@conf_option
@click.option("--root", "root", type=file_type, help="The file of the root key, if it is not in the home.")
@click.option("--number", type=click.IntRange(1, MOST_NUMBER), help="The number of the list, instead of the next one.")
@click.option("--next-root", "next_root", type=file_type, help="A file with the root key that may sign later lists.")
def certify(conf: Path, root: Path | None, number: int | None, next_root: Path | None) -> None:
    """Sign a new key list with the keys that are in the home now; print it for the other parties.

    Run this after a change of a file, or to announce another root key. Other parties refuse keys that the newest list
    does not have: to change a key while they are connected, use `announce`.

    \b
    Example: fate_flow key certify -c conf/service_conf.yaml --root /media/safe/root.pem > 9999.keys
    """
    settings = load_settings(conf)
    keys = _keys(settings)
    keys.root()                          # a home without keys has nothing to sign
    with recorded_act(settings, "key list signed", "with another root key announced" if next_root else ""):
        keys.certify(root, number, next_root)
    _print(settings, keys)


@key_group.command()
@conf_option
@click.option("--use", "use", type=click.Choice(USES), default=TLS, help=f"Of the key. {TLS} by default.")
@click.option(
    "--days", type=click.FloatRange(0.05, _MOST_DAYS), default=7.0, help="Until the next key is used. 7 by default."
)
@click.option("--root", "root", type=file_type, help="The file of the root key, if it is not in the home.")
def announce(conf: Path, use: str, days: float, root: Path | None) -> None:
    """Make the next key of one use, and announce it in a new key list.

    Other parties fetch the list every half hour over the present key, and accept both. The server uses the next key as
    soon as its time has come, without a restart; the present one counts for a day longer. A party that was away all the
    time has to join again, or needs the list by hand. A party that has saved the message key alone needs the next one
    by hand, too.

    \b
    Example: fate_flow key announce --use message -c conf/service_conf.yaml
    """
    if isnan(days):
        raise click.BadParameter("is not a number of days", param_hint="--days")
    settings = load_settings(conf)
    keys = _keys(settings)
    keys.root()                          # a home without keys has nothing to announce
    with recorded_act(settings, "key announced", f"the next {use} key"):
        keys.announce(use, int(days * 24 * 3600 * 1000), root)
    _print(settings, keys)


@key_group.command()
@conf_option
@click.option("--pem", is_flag=True, help="Print the message key in use alone, for a party with an older release.")
def show(conf: Path, pem: bool) -> None:
    """Print the key list for the other parties.

    Example: fate_flow key show -c conf/service_conf.yaml > 9999.keys
    """
    settings = load_settings(conf)
    if not pem:
        _print(settings, _keys(settings))
        return
    key = message_key(settings.keys_dir, settings.private_key, now_on_the_wall()).public
    tell(f"key id of party {settings.party_id}: {key.key_id}")
    click.echo(key.pem, nl=False)


@key_group.command()
@conf_option
def fingerprint(conf: Path) -> None:
    """Print the fingerprint of the root key: compare it with the other party's operator, for example by telephone.

    Example: fate_flow key fingerprint -c conf/service_conf.yaml
    """
    click.echo(fingerprint_of(_keys(load_settings(conf)).root().key_id))


def _keys(settings: Settings) -> OwnKeys:
    return OwnKeys(settings.party_id, settings.keys_dir, settings.private_key, now_on_the_wall)



def _print(settings: Settings, keys: OwnKeys, *, with_list: bool = True) -> None:
    signed = keys.signed_list()
    tell(f"key list of party {settings.party_id}, number {read_key_list(signed.content).number}")
    tell(f"fingerprint of its root key: {fingerprint_of(keys.root().key_id)}")
    if with_list:
        click.echo(signed.text(), nl=False)
    else:
        tell("Parties that join get the list by themselves; fate_flow key show prints it.")
