"""fate_flow client"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from fate_flow.cli.console.display import print_table, tell
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.cli.server.recorded_act import recorded_act
from fate_flow.core.access.client_roles import ALL_ROLES, names_of, roles_named
from fate_flow.core.model.errors import Conflict, NotFound
from fate_flow.core.model.grammar import shown
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.people import (
    Client,
    add_client,
    newest_of,
    read_people,
    renew_client,
    revoke_client,
    with_owner,
)
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings

_ROLE = click.Choice(names_of(ALL_ROLES))


@click.group("client")
def client_group() -> None:
    """Make, show and revoke the keys of people and robots that send requests to this server.

    These commands work on the home of the server, whether it runs or not; a running server follows at the next request.
    Run them as the user of the server. What each client role may do: docs/reference/api.md.

    Example: fate_flow client add anna --role submit -c conf/service_conf.yaml
    """


@client_group.command()
@conf_option
@click.argument("name", metavar="NAME")
@click.option("--role", "roles", type=_ROLE, multiple=True, required=True, help="A client role; may be repeated.")
def add(conf: Path, name: str, roles: Sequence[str]) -> None:
    """Make the key of a new client and print it. The secret key is not shown again.

    NAME is a short id, such as anna or nightly-robot. Job histories, logs and approvals show it, also at the other
    parties of a job. It never names anybody else later.

    \b
    Example: fate_flow client add anna --role submit --role approve -c conf/service_conf.yaml
    """
    settings = _settings(conf)
    with recorded_act(settings, "new client requested", f"client {shown(name)}: {' '.join(roles)}"):
        made = add_client(settings.shared, name, roles_named(roles), now_on_the_wall())
    _print(settings, made)


@client_group.command()
@conf_option
@click.argument("name", metavar="NAME")
@click.option("--role", "roles", type=_ROLE, multiple=True, help="A client role, instead of the present ones.")
def renew(conf: Path, name: str, roles: Sequence[str]) -> None:
    """Make another key for a known client, perhaps with other roles, and print it; the present key is revoked.

    \b
    Example: fate_flow client renew anna -c conf/service_conf.yaml
             fate_flow client renew anna --role submit --role operate -c conf/service_conf.yaml
    """
    settings = _settings(conf)
    text = f"client {shown(name)}: {' '.join(roles) or 'the same roles'}"
    with recorded_act(settings, "new key of a client requested", text):
        made = renew_client(settings.shared, name, roles_named(roles) if roles else None, now_on_the_wall())
    _print(settings, made)


@client_group.command()
@conf_option
@click.argument("name", metavar="NAME")
def revoke(conf: Path, name: str) -> None:
    """Revoke the key of a client: the server refuses it from the next request on.

    The client `owner` has the key of the configuration, or of keys/clients.yaml in the server's home. Without it,
    `flow` on this machine needs the key of another client (flow init --app-key KEY --secret-key SECRET).

    Example: fate_flow client revoke anna -c conf/service_conf.yaml
    """
    settings = _settings(conf)
    with recorded_act(settings, "revocation of a client requested", f"client {shown(name)}"):
        revoke_client(settings.shared, name, settings.client_keys, now_on_the_wall())
    tell(f"the key of {name} is revoked")


@client_group.command("list")
@conf_option
def list_clients(conf: Path) -> None:
    """List all clients, with their roles; no secrets.

    Example: fate_flow client list -c conf/service_conf.yaml
    """
    rows = ((one.name, " ".join(names_of(one.roles)), *_since(one)) for one in newest_of(_clients(_settings(conf))))
    print_table(("client", "client roles", "since", "revoked"), sorted(rows))


@client_group.command()
@conf_option
@click.argument("name", metavar="NAME")
def show(conf: Path, name: str) -> None:
    """Show the keys that a client has and had, oldest first; no secrets.

    Example: fate_flow client show anna -c conf/service_conf.yaml
    """
    found = [one for one in _clients(_settings(conf)) if one.name == name]
    if not found:
        raise NotFound(f"there is no client {shown(name)}; fate_flow client list shows all")
    print_table(
        ("app key", "client roles", "since", "revoked"),
        [(one.app_key, " ".join(names_of(one.roles)), *_since(one)) for one in found],
    )


def _settings(conf: Path) -> Settings:
    """Return the settings of a server whose clients sign. Raise BadSettings, Conflict."""
    settings = load_settings(conf)
    if not settings.clients_sign:
        raise Conflict(
            "clients of this server need not sign their requests, so keys would have no effect: set "
            "authentication.client.switch to true and restart the server"
        )
    return settings


def _clients(settings: Settings) -> tuple[Client, ...]:
    return with_owner(read_people(settings.shared), settings.client_keys)


def _since(client: Client) -> tuple[str, str]:
    return _day(client.made), _day(client.revoked)


def _day(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).isoformat(" ", "seconds") if at else ""


def _print(settings: Settings, client: Client) -> None:
    tell(
        f"client {client.name} of party {settings.party_id}: {', '.join(names_of(client.roles))}. Send the key over a "
        f"channel that nobody else reads; the secret key is not shown again. {client.name} runs: flow init "
        f"--ip ADDRESS --port {settings.http_port} --app-key KEY --secret-key SECRET"
    )
    click.echo(f"app_key: {client.app_key}\nsecret_key: {client.secret_key}")
