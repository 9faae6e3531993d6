"""The command `flow`: the client of a party's server.

Results go to stdout, as JSON in the shape of the genuine FATE Flow client; messages and progress go to stderr.
The exit codes are those of `cli/group.py`.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from importlib import import_module
from io import TextIOWrapper

import click

from fate_flow import __version__
from fate_flow.cli.connection.client import Client
from fate_flow.cli.connection.profiles import checked_profile
from fate_flow.cli.connection.settings_file import server_of
from fate_flow.cli.flow import not_offered
from fate_flow.cli.group import HELP, EdgeGroup, verbose_option

_FLOW, _CLI = "fate_flow.cli.flow", "fate_flow.cli"
_MODULES = {
    "audit": f"{_CLI}.audit.flow_audit", "completion": f"{_FLOW}.completion", "component": f"{_FLOW}.component",
    "data": f"{_FLOW}.data", "init": f"{_FLOW}.init", "job": f"{_FLOW}.job", "key": f"{_FLOW}.key",
    "model": f"{_FLOW}.model", "notify": f"{_CLI}.notify.flow_notify", "party": f"{_FLOW}.party",
    "privilege": f"{_FLOW}.privilege", "provider": f"{_FLOW}.provider", "queue": f"{_FLOW}.queue",
    "resource": f"{_FLOW}.resource", "server": f"{_FLOW}.server_info", "service": f"{_FLOW}.server_info",
    "table": f"{_FLOW}.table", "tag": f"{_FLOW}.model", "task": f"{_FLOW}.task", "template": f"{_FLOW}.template",
    "test": f"{_FLOW}.toy", "top": f"{_FLOW}.server_info", "tracking": f"{_FLOW}.component",
}  # fmt: skip
"""By command, the module that has it, under its name."""


class FlowGroup(EdgeGroup):
    """A group that imports a command when it is asked for; only help needs all of them."""

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """All commands, for whoever walks over them."""
        for name in self.list_commands(None):
            self.get_command(None, name)
        return self._imported

    @commands.setter
    def commands(self, commands: MutableMapping[str, click.Command]) -> None:
        self._imported = commands            # click's constructor sets it

    def list_commands(self, ctx: click.Context | None) -> list[str]:  # noqa: ARG002  # click's own signature
        return sorted({*_MODULES, *not_offered.COMMANDS})

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self._imported:
            if cmd_name in _MODULES:
                command: click.Command = getattr(import_module(_MODULES[cmd_name]), cmd_name)
            elif cmd_name in not_offered.COMMANDS:
                command = not_offered.hidden_group(cmd_name)
            else:
                return None
            if isinstance(command, click.Group):
                not_offered.add_not_offered(command, cmd_name)
            self._imported[cmd_name] = command
        return self._imported[cmd_name]


@click.group(cls=FlowGroup, context_settings=HELP)
@click.option(
    "--server", envvar="FATE_FLOW_SERVER", metavar="URL", help="Use this server instead of the one that init stored."
)
@click.option(
    "--profile", envvar="FATE_FLOW_PROFILE", metavar="NAME", callback=checked_profile,
    help="Use the server that init stored under this name.",
)
@verbose_option
@click.version_option(__version__, prog_name="flow")
@click.pass_context
def flow(ctx: click.Context, server: str | None, profile: str | None, verbose: bool) -> None:  # noqa: ARG001  # read there
    """Run federated jobs through the server of a party.

    \b
    Exit codes: 0 success, 1 refused or the job failed, 2 wrong usage, 3 no server answers, 130 interrupted.
    Example: flow init --ip 127.0.0.1 --port 9380
             flow job submit -c conf.json -d dsl.json --watch
    """
    if ctx.obj is None:
        ctx.obj = Client(lambda: server_of(ctx))


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    flow.main(prog_name="flow")


if __name__ == "__main__":
    main()
