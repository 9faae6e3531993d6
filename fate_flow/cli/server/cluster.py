"""`bin/cluster`: one server per party on this machine, for the demo, the tests and whoever develops.

What a cluster consists of is in `cluster_plan.py`, how its servers start and end in `cluster_processes.py`. Whether a
party runs is never written down, it is asked of its home (`cli/server/service.py`).
"""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import click

from fate_flow.cli.server import service
from fate_flow.cli.server.cluster_plan import DEFAULT_BASE_PORT, DEFAULT_CORES, Cluster, ClusterError
from fate_flow.cli.server.cluster_processes import bring_up, locked, naming, start_parties, take_down, tell
from fate_flow.core.model.errors import BadRequest, FlowError
from fate_flow.core.model.grammar import check_party_id
from fate_flow.core.text.os_errors import os_error_text

NOT_ALL_RUNNING = 3


def _document(cluster: Cluster | None, *, with_running: bool) -> dict[str, Any]:
    """What is printed on stdout."""
    parties = []
    for member in cluster.members if cluster else ():
        home = cluster.home(member.party_id) if cluster else Path()
        running = service.find(home)
        party: dict[str, Any] = {
            "party_id": member.party_id,
            "url": running.url if running else member.url,
            "home": str(home),
            "pid": running.pid if running else None,
        }
        parties.append({**party, "running": running is not None} if with_running else party)
    return {"parties": parties}


def _show(cluster: Cluster | None, *, with_running: bool = True) -> None:
    click.echo(json.dumps(_document(cluster, with_running=with_running)))


def _existing(root: Path) -> Cluster:
    cluster = Cluster.read(root)
    if cluster is None:
        raise ClusterError(f"{root}: there is no cluster here; bin/cluster up makes one")
    return cluster


def _chosen(cluster: Cluster, party_ids: Sequence[str]) -> list[str]:
    """The named parties, all when none is named; each has to be in the cluster."""
    for name in party_ids:
        if name not in cluster.party_ids:
            raise click.UsageError(
                f"--party: {name} is not in {cluster.root}, which has {', '.join(cluster.party_ids)}"
            )
    return [name for name in cluster.party_ids if name in party_ids or not party_ids]


def _party_option(text: str) -> str:
    try:
        party_id = check_party_id(text, "--party")
    except BadRequest as error:
        raise click.UsageError(error.message) from error
    if party_id == "0":
        raise click.UsageError("--party: 0 is not a party id; every server takes it for itself")
    return party_id


def _parties(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    party_ids = tuple(_party_option(value) for value in values)
    twice = next((name for name in party_ids if party_ids.count(name) > 1), None)
    if twice:
        raise click.UsageError(f"--party: {twice} is named twice")
    return party_ids


def _resolved(_context: click.Context, _option: click.Parameter, value: Path) -> Path:
    return value.resolve()


def _end_on(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


class _Group(click.Group):
    """Turns our errors into one line and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        # So that a half-made cluster is taken down again.
        before = {number: signal.signal(number, _end_on) for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            return super().invoke(ctx)
        except FlowError as error:
            raise click.ClickException(error.message) from error
        except OSError as error:
            raise click.ClickException(os_error_text(error)) from error
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


dir_option = click.option(
    "--dir", "root", required=True, callback=_resolved,
    type=click.Path(file_okay=False, path_type=Path), help="Folder of the cluster; one home per party in it.",
)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Runs one server per party on this machine.

    Every command prints one JSON document on stdout, and what it is doing on stderr.
    """


@main.command()
@dir_option
@click.option("--party", "party_ids", multiple=True, callback=_parties, metavar="ID", help="A party; repeat it.")
@click.option("--cores", type=click.IntRange(0), help=f"Cores of each party; {DEFAULT_CORES} unless given.")
@click.option("--memory", type=click.IntRange(0), metavar="MB", help="Memory of each party.")
@click.option("--database", metavar="URL", help="Such as mysql://root@127.0.0.1:3306/flow_{party_id}; or SQLite.")
@click.option("--base-port", type=click.IntRange(1, 65535), help=f"{DEFAULT_BASE_PORT} unless given.")
def up(root: Path, party_ids: tuple[str, ...], **requested: Any) -> None:
    """Starts a server per party; returns when all answer.

    Parties that run are left alone. Without --party: the parties that DIR has.

    Example: bin/cluster up --dir /tmp/c --party 9999 --party 10000
    """
    _show(bring_up(root, party_ids, requested), with_running=False)


@main.command()
@dir_option
def status(root: Path) -> None:
    """Says which parties run; exit code 0 when all do, 3 otherwise.

    Example: bin/cluster status --dir /tmp/c
    """
    cluster = Cluster.read(root)
    if cluster is None:
        tell(f"{root}: there is no cluster here")
    _show(cluster)
    is_complete = cluster is not None and all(service.find(cluster.home(name)) for name in cluster.party_ids)
    raise SystemExit(0 if is_complete else NOT_ALL_RUNNING)


@main.command()
@dir_option
def down(root: Path) -> None:
    """Ends every server and every worker; data and logs stay.

    Example: bin/cluster down --dir /tmp/c
    """
    if not root.is_dir():
        raise ClusterError(f"{root}: there is no such folder")
    with locked(root):
        cluster = Cluster.read(root)
        if cluster is None:
            tell(f"{root}: there is no cluster here, nothing to take down")
        else:
            take_down(cluster, cluster.party_ids)
        _show(cluster)


@main.command()
@dir_option
@click.option("--party", "party_ids", multiple=True, required=True, callback=_parties, metavar="ID")
def kill(root: Path, party_ids: tuple[str, ...]) -> None:
    """kill -9 of a party's server, all its processes; its workers live on.

    Example: bin/cluster kill --dir /tmp/c --party 10000
    """
    cluster = _existing(root)
    with locked(root):
        for name in _chosen(cluster, party_ids):
            with naming(name):
                was_running = service.kill(cluster.home(name))
            tell(f"party {name}: {'killed' if was_running else 'was not running'}")
        _show(cluster)


@main.command()
@dir_option
@click.option("--party", "party_ids", multiple=True, callback=_parties, metavar="ID", help="All unless given.")
def start(root: Path, party_ids: tuple[str, ...]) -> None:
    """Brings a party's server back on the same home and port; one that runs is left alone.

    Example: bin/cluster start --dir /tmp/c --party 10000
    """
    with locked(_existing(root).root):
        cluster = _existing(root)
        start_parties(cluster, [name for name in _chosen(cluster, party_ids) if not service.find(cluster.home(name))])
        _show(cluster)


if __name__ == "__main__":
    main(prog_name="bin/cluster")
