"""fate_flow grants"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from fate_flow.cli.console.display import one_line, print_json, tell
from fate_flow.cli.input.options import login_name
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.cli.server.home_context import home_context
from fate_flow.core.access.limits import described
from fate_flow.core.model.errors import FlowError
from fate_flow.core.model.grammar import check_party_id
from fate_flow.core.text.phrases import counted
from fate_flow.jobspec.grants_file import schema_text
from fate_flow.server.grants_file import load_grants
from fate_flow.services.use_cases.grants import GrantChange, GrantFiles, GrantsInForce
from fate_flow.settings.reader import load_settings

DIFFERS, TROUBLE = 1, 2
_LONGEST_NAME = 100

file_option = click.option(
    "-f", "--file", "file", required=True, type=click.Path(path_type=Path), help="The file of grants."
)


@click.group("grants")
def grants_group() -> None:
    """Decide by a file what jobs of other parties may use here.

    The commands work directly on the party's database, whether the server runs or not. Run them as the user of the
    server. docs/reference/grants.md describes the file.

    Example: fate_flow grants diff -f grants.yaml
    """


@grants_group.command()
@conf_option
@file_option
@click.option("--by", metavar="NAME", help="Who changes the grants, for the record; by default the user of this shell.")
@click.option("--dry-run", is_flag=True, help="Do the same as diff.")
def apply(conf: Path, file: Path, by: str | None, dry_run: bool) -> None:
    """Give each party in the file exactly the grants that the file says, all at once; print what has changed.

    Parties that the file does not name keep their grants. Running workers go on; the next worker that needs what was
    revoked does not start. Exit code 2: nothing was changed, because the file or the database is wrong.

    Example: fate_flow grants apply -f grants.yaml
    """
    if dry_run:
        _exit_with_difference(conf, file)
        return
    who = by if by is not None else login_name()
    if not who.strip() or len(who) > _LONGEST_NAME:
        raise click.BadParameter(f"is not a name of 1 to {_LONGEST_NAME} characters", param_hint="--by")
    with _exit_with_trouble(), _files(conf) as (files, own, modules):
        found = files.apply(load_grants(file, modules, own), one_line(who))
    _print_changes(found)


@grants_group.command()
@conf_option
@file_option
def diff(conf: Path, file: Path) -> None:
    """Print what `apply` would change, and change nothing.

    Exit code 0: nothing, 1: something, 2: the file or the database is wrong.

    Example: fate_flow grants diff -f grants.yaml
    """
    _exit_with_difference(conf, file)


@grants_group.command()
@conf_option
@click.option("-p", "--party-id", "party_id", metavar="ID", help="Show only the grants of this party.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(conf: Path, party_id: str | None, as_json: bool) -> None:
    """Show what each party was granted, who applied a file last, and what was used of it in the last 24 hours.

    Example: fate_flow grants show
    """
    settings = load_settings(conf)
    with home_context(settings) as context:
        found = GrantFiles(context).in_force()
    if party_id is not None:
        wanted = check_party_id(party_id, "--party-id")
        found = {one: grants for one, grants in found.items() if one == wanted}
    if as_json:
        print_json({one: _as_json(grants) for one, grants in found.items()})
        return
    if not settings.permission.is_on:
        tell("no grants are required here (permission.switch): what is not granted is allowed, too; limits hold")
    for one, grants in found.items():
        _print_party(one, grants)
    if not found:
        click.echo("nothing is granted")


@grants_group.command()
def schema() -> None:
    """Print the JSON Schema of the file, for editors.

    Example: fate_flow grants schema > grants.schema.json
    """
    click.echo(schema_text(), nl=False)


def _exit_with_difference(conf: Path, file: Path) -> None:
    with _exit_with_trouble(), _files(conf) as (files, own, modules):
        found = files.changes(load_grants(file, modules, own))
    _print_changes(found)
    if found:
        raise SystemExit(DIFFERS)


@contextmanager
def _exit_with_trouble() -> Iterator[None]:
    try:
        yield
    except FlowError as error:
        tell(f"Error: {error.message}")
        raise SystemExit(TROUBLE) from error


@contextmanager
def _files(conf: Path) -> Iterator[tuple[GrantFiles, str, tuple[str, ...]]]:
    """Yield the use cases, the id of this party, and the names of its components."""
    with home_context(load_settings(conf)) as context:
        yield GrantFiles(context), context.party_id, tuple(context.modules)


def _print_changes(found: tuple[GrantChange, ...]) -> None:
    for one in found:
        click.echo(one_line(one))
    if not found:
        tell("nothing differs")


def _print_party(party_id: str, found: GrantsInForce) -> None:
    grants = found.grants
    applied = f"file applied by {grants.by} at {_time(grants.at)}" if grants.at else "no file was applied"
    click.echo(one_line(f"party {party_id} ({applied})"))
    uses = {str(table): count for table, count in found.uses.items()}
    for text in described(grants).values() or ("nothing",):
        used = next((f", used {counted(n, 'time')}" for name, n in uses.items() if text.startswith(f"{name} (")), "")
        click.echo(f"  {one_line(text)}{used}")


def _as_json(found: GrantsInForce) -> dict[str, Any]:
    grants = found.grants
    return {
        "grants": list(described(grants).values()),
        "used_in_24_hours": {str(table): count for table, count in found.uses.items()},
        "by": grants.by,
        "at": _time(grants.at) if grants.at else None,
    }


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).isoformat(" ", "seconds")
