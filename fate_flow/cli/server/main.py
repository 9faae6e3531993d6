"""The command `fate_flow`, for the operator of a party's server."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import click

from fate_flow import __version__
from fate_flow.cli.group import HELP, EdgeGroup, verbose_option
from fate_flow.cli.server.client_keys import client_group
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.cli.server.home_context import schema_of, upgrade_database
from fate_flow.core.model.errors import BadSettings
from fate_flow.server.engines.program_user import check_program_user
from fate_flow.server.exporting.parts import check_exports
from fate_flow.server.notifying.parts import secret_problems
from fate_flow.server.start_warnings import key_problems, readable_secrets
from fate_flow.server.worker_groups import seen_groups
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.reader import load_settings
from fate_flow.store.database import migrations


class ServerGroup(EdgeGroup):
    """A group that imports some commands on demand: they need all of a server's modules, or cryptography."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "admin", "audit", "grants", "key", "notify", "party", "verify"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "admin":
            from fate_flow.cli.server.admin import admin

            return admin
        if cmd_name == "audit":
            from fate_flow.cli.server.audit import audit
            from fate_flow.cli.server.audit_evidence import evidence
            from fate_flow.cli.server.audit_reconcile import reconcile

            audit.add_command(reconcile)
            audit.add_command(evidence)
            return audit
        if cmd_name == "verify":
            from fate_flow.cli.server.verify_file import verify

            return verify
        if cmd_name == "grants":
            from fate_flow.cli.server.grants import grants_group

            return grants_group
        if cmd_name == "key":
            from fate_flow.cli.server.keys import key_group

            return key_group
        if cmd_name == "notify":
            from fate_flow.cli.server.notify import notify_group

            return notify_group
        if cmd_name == "party":
            from fate_flow.cli.server.party import party_group

            return party_group
        return super().get_command(ctx, cmd_name)


@click.group(cls=ServerGroup, context_settings=HELP)
@verbose_option
@click.version_option(__version__, prog_name="fate_flow")
def fate_flow(verbose: bool) -> None:  # EdgeGroup reads it
    """Run the server of a party; maintain its database and configuration.

    Example: fate_flow serve -c conf/service_conf.yaml
    """


@fate_flow.command()
@conf_option
def serve(conf: Path) -> None:
    """Run the server in the foreground until SIGTERM or Ctrl-C; bin/service.sh runs it in the background.

    Example: fate_flow serve -c conf/service_conf.yaml
    """
    gc.disable()      # imports leave next to nothing to collect, and each search takes as long as a tenth of them
    from fate_flow.server.supervisor import serve as run

    gc.freeze()       # otherwise the first search visits all of it
    gc.enable()
    raise SystemExit(run(conf))


fate_flow.add_command(client_group)


@fate_flow.group()
def db() -> None:
    """Create, upgrade and check the database.

    Example: fate_flow db upgrade -c conf/service_conf.yaml
    """


@db.command()
@conf_option
def upgrade(conf: Path) -> None:
    """Upgrade the database to the schema of this release; create it if it does not exist.

    Example: fate_flow db upgrade -c conf/service_conf.yaml
    """
    settings = load_settings(conf)
    for migration in upgrade_database(settings):
        click.echo(f"applied {migration.number:04} {migration.name}")
    click.echo(f"the database of party {settings.party_id} has schema {schema_of(settings)}")


@db.command()
@conf_option
def version(conf: Path) -> None:
    """Show the schema version of the database and that of this release.

    Example: fate_flow db version -c conf/service_conf.yaml
    """
    settings = load_settings(conf)
    newest = max((one.number for one in migrations.migrations()), default=0)
    click.echo(f"the database has schema {schema_of(settings)}, this release knows {newest}")


@fate_flow.group("conf")
def conf_group() -> None:
    """Check the configuration.

    Example: fate_flow conf check -c conf/service_conf.yaml
    """


@conf_group.command()
@conf_option
def check(conf: Path) -> None:
    """Read the configuration as the server does at its start; print a line for each wrong key.

    Example: fate_flow conf check -c conf/service_conf.yaml
    """
    try:
        settings = load_settings(conf)
        check_program_user(settings)
        check_exports(settings)
        limits = seen_groups(settings)
    except BadSettings as error:
        click.echo(error.message, err=True)
        raise SystemExit(2) from error
    secrets = (*readable_secrets(settings.conf_path), *secret_problems(settings))
    for text in (*secrets, *key_problems(settings, now_on_the_wall())):
        click.echo(f"WARNING: {text}", err=True)
    click.echo(limits, err=True)
    click.echo("ok")


def main() -> None:
    os.umask(0o077)          # only the server's user may read the party's data, logs and database
    fate_flow.main(prog_name="fate_flow")


if __name__ == "__main__":
    main()
