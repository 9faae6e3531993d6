"""Commands of FATE's client that this server does not offer: each asks the server, which says what to use instead.

A script that tries one gets the server's answer, as with FATE's client, instead of "no such command"."""

from __future__ import annotations

from collections.abc import Mapping

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import show
from fate_flow.cli.input.options import with_client

Paths = str | Mapping[str, str]
"""The path that a command asks; if an option changes the path, a path for each such option, and "" for none of them."""

COMMANDS: Mapping[str, Mapping[str, Paths]] = {
    "component": {
        "hetero-model-merge": "component/hetero/merge", "woe-array-extract": "component/woe_array/extract",
        "woe-array-merge": "component/woe_array/merge",
    },
    "provider": {"register": "provider/register"},
    "model": {
        "load": "model/load", "bind": "model/bind", "migrate": "model/migrate",
        "homo-convert": "model/homo/convert", "homo-deploy": "model/homo/deploy",
    },
    "checkpoint": {"list": "checkpoint/list", "get": "checkpoint/get"},
}  # fmt: skip


def hidden_group(name: str) -> click.Group:
    """Return a group that has nothing else; help and completion do not show it."""
    return click.Group(name, help=_help(f"{name} {next(iter(COMMANDS[name]))}"), hidden=True)


def add_not_offered(group: click.Group, name: str) -> None:
    """Add those of the group with this name as hidden commands."""
    for command, paths in COMMANDS.get(name, {}).items():
        by_option = {"": paths} if isinstance(paths, str) else paths
        group.add_command(_asking(command, _help(f"{name} {command}"), by_option))


def _help(example: str) -> str:
    return f"Not offered here: the server says what to use instead.\n\nExample: flow {example}"


def _asking(name: str, about: str, paths: Mapping[str, str]) -> click.Command:
    @click.command(
        name, hidden=True, help=about,
        # -h alone would be a part of options such as -hids
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": ["--help"]},
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    @with_client
    def ask(client: Client, words: tuple[str, ...]) -> None:
        show(client.post(next((path for option, path in paths.items() if option in words), paths[""]), {}))

    return ask
