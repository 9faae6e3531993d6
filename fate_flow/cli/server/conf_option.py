"""Which configuration the commands of an operator use. There is one rule for all of them:

1. `-c CONF`
2. the environment variable FATE_FLOW_CONF
3. `service_conf.yaml` or `conf/service_conf.yaml` in the current folder, if it belongs to this user or to root
4. that of the server which this user runs on this machine, if it is one
5. that of the checkout from which the command runs: `conf/service_conf.yaml`

From the third step on, the command says on stderr which file it uses.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

import fate_flow
from fate_flow.cli.connection.local_server import homes_of_local_servers
from fate_flow.cli.console.display import printable, tell
from fate_flow.engines.local.worker import read_json

VARIABLE = "FATE_FLOW_CONF"
NAME = Path("conf", "service_conf.yaml")


def conf_of_checkout() -> Path | None:
    """Return the configuration in the checkout of this package; None if the package is installed elsewhere."""
    found = Path(fate_flow.__file__).resolve().parents[1]
    return found / NAME if (found / "bin" / "service.sh").exists() else None


def find_conf() -> Path:
    """Return the configuration that no option and no variable names. Raise UsageError."""
    for found in (_of_folder, _of_running_server, conf_of_checkout):
        if (path := found()) is not None:
            tell(printable(f"configuration: {path}"))
            return path
    raise click.UsageError(
        f"there is no configuration: name it with -c, or in {VARIABLE}. Without both, the command uses {NAME.name} or "
        f"{NAME} in the current folder, or that of the server which this user runs on this machine"
    )


def _of_folder() -> Path | None:
    for path in (Path(NAME.name), NAME):
        with suppress(OSError):
            if path.stat().st_uid in (os.getuid(), 0):      # another user could name a home with programs of his own
                return path.absolute()
    return None


def _of_running_server() -> Path | None:
    found = sorted(set(_confs_of_running_servers()))
    if len(found) > 1:
        named = printable(", ".join(map(str, found)))
        raise click.UsageError(
            f"{len(found)} servers of this user run on this machine: name one with -c, or in {VARIABLE}: {named}"
        )
    return found[0] if found else None


def _confs_of_running_servers() -> Iterator[Path]:
    for home in homes_of_local_servers():
        with suppress(OSError, ValueError):
            known = read_json(home / "run" / "server.json")
            if conf := str((known or {}).get("conf") or ""):
                yield Path(conf)


def _chosen(context: click.Context, _option: click.Parameter, value: Path | None) -> Path | None:
    return value if value is not None or context.resilient_parsing else find_conf()


conf_option = click.option(
    "-c", "--conf", "conf", type=click.Path(path_type=Path), envvar=VARIABLE, callback=_chosen,
    help=f"The server's {NAME.name}. By default {VARIABLE}, the one in the current folder, or that of the server which "
    "this user runs.",
)
