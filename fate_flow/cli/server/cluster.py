"""`bin/cluster`: one server per party on this machine, for the demo, the tests and developers.

`cluster_plan.py` has the contents of a cluster, `cluster_keys.py` makes its parties known to each other, and
`cluster_processes.py` starts and ends its servers. No file records whether a party runs: `cli/server/service.py` finds
that out from the party's home.
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
    """Return the document to print on stdout."""
    parties = []
    for member in cluster.members if cluster else ():
        home = cluster.home(member.party_id) if cluster else Path()
        running = service.find(home)
        party: dict[str, Any] = {
            "party_id": member.party_id,
            "url": running.url if running else member.url,
            "gateway": member.gateway,
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
        raise ClusterError(f"{root}: there is no cluster here; bin/cluster up creates one")
    return cluster


def _chosen(cluster: Cluster, party_ids: Sequence[str]) -> list[str]:
    """Return the named parties, all if none is named. Raise UsageError for a party that is not in the cluster."""
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
        raise click.UsageError("--party: 0 is not a party id here: every server uses it for local jobs")
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
    """A group that turns our errors into one line and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        # On a signal, too, a half-started cluster is taken down again.
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
    """Run one server per party on this machine.

    Every command prints one JSON document on stdout, and its progress on stderr.
    """


@main.command()
@dir_option
@click.option("--party", "party_ids", multiple=True, callback=_parties, metavar="ID", help="A party; may be repeated.")
@click.option("--cores", type=click.IntRange(0), help=f"Cores of each party; {DEFAULT_CORES} by default.")
@click.option("--memory", type=click.IntRange(0), metavar="MB", help="Memory of each party.")
@click.option("--database", metavar="URL", help="SQLite by default; or mysql://root@127.0.0.1:3306/flow_{party_id}")
@click.option("--base-port", type=click.IntRange(1, 65535), help=f"First port to try; {DEFAULT_BASE_PORT} by default.")
@click.option("--plain", is_flag=True, default=None, help="Without keys and TLS: for tests of plain v1.")
def up(root: Path, party_ids: tuple[str, ...], **requested: Any) -> None:
    """Start a server per party; return when all answer.

    Each party gets keys, and the key lists of all others: their servers speak mutual TLS. Running parties are left
    alone. Without --party, the parties of the cluster in DIR are started.

    Example: bin/cluster up --dir /tmp/c --party 9999 --party 10000
    """
    _show(bring_up(root, party_ids, requested), with_running=False)


@main.command()
@dir_option
def status(root: Path) -> None:
    """Show which parties run; exit with code 0 if all do, else 3.

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
    """End every server and every worker; keep data and logs.

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
    """Kill all processes of a party's server with SIGKILL; its workers stay alive.

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
@click.option("--party", "party_ids", multiple=True, callback=_parties, metavar="ID", help="A party; all by default.")
def start(root: Path, party_ids: tuple[str, ...]) -> None:
    """Start a party's server again with the same home and port; a running server is left alone.

    Example: bin/cluster start --dir /tmp/c --party 10000
    """
    with locked(_existing(root).root):
        cluster = _existing(root)
        start_parties(cluster, [name for name in _chosen(cluster, party_ids) if not service.find(cluster.home(name))])
        _show(cluster)


if __name__ == "__main__":
    main(prog_name="bin/cluster")
