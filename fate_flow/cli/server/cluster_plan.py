"""The contents of a cluster: parties, ports and options; and the plan from one cluster to the next.

`DIR/cluster.json` has them. The configurations of the servers are generated from it, but only when it changes: an edit
by hand survives `down` and `up`.

The ports of all parties are chosen before the first configuration is written, since each configuration has the ports of
the other parties. Until the servers listen on them, the command claims the port numbers as names of abstract sockets.
Such a name exists once per machine, leaves no file and vanishes with the process. So two commands that create clusters
at the same time do not choose the same ports.
"""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import click
import yaml

from fate_flow.core.model.errors import FlowError
from fate_flow.engines.local.worker import write_atomically

HOST = "127.0.0.1"
DEFAULT_CORES = 20
DEFAULT_BASE_PORT = 9380
PARTY_PORTS_ABOVE = 10      # distance of the gateways' ports from the base port
WORKER_PORTS_ABOVE = 100    # the same of the workers' ports


class ClusterError(FlowError):
    """The cluster cannot be created or changed as requested."""


@dataclass(frozen=True)
class Options:
    """The options that all servers of a cluster share."""

    cores: int = DEFAULT_CORES
    memory: int | None = None        # MB per party; None: the server's default
    database: str | None = None      # URL with {party_id}; None: SQLite in the home
    base_port: int = DEFAULT_BASE_PORT
    plain: bool = False              # no gateways: the parties use each other's port of clients, without TLS


@dataclass(frozen=True)
class Member:
    """A party of the cluster and the ports of its server."""

    party_id: str
    http_port: int
    worker_port: int
    party_port: int = 0              # of its gateway; 0: it has none

    @property
    def url(self) -> str:
        """Return the address for clients."""
        return f"http://{HOST}:{self.http_port}"

    @property
    def gateway(self) -> str | None:
        return f"https://{HOST}:{self.party_port}" if self.party_port else None

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(filter(None, (self.http_port, self.worker_port, self.party_port)))


@dataclass(frozen=True)
class Cluster:
    """The contents of `DIR/cluster.json`."""

    root: Path
    options: Options
    members: tuple[Member, ...]

    @classmethod
    def read(cls, root: Path) -> Self | None:
        """Return the cluster in this folder; None if there is none. Raise ClusterError for a damaged file."""
        path = root / "cluster.json"
        if not path.exists():
            return None
        try:
            document = json.loads(path.read_bytes())
            members = tuple(Member(**member) for member in document["parties"])
            # A cluster of an earlier release has no keys.
            return cls(root, Options(**{"plain": True, **document["options"]}), members)
        except (KeyError, TypeError, ValueError) as error:
            raise ClusterError(f"{path}: is damaged; remove the folder or name another --dir") from error

    def write(self) -> None:
        document = {"parties": [asdict(member) for member in self.members], "options": asdict(self.options)}
        write_atomically(self.root / "cluster.json", json.dumps(document, indent=1) + "\n", mode=0o600)

    @property
    def party_ids(self) -> tuple[str, ...]:
        return tuple(member.party_id for member in self.members)

    def home(self, party_id: str) -> Path:
        return self.root / party_id

    def conf_path(self, party_id: str) -> Path:
        return self.home(party_id) / "conf" / "service_conf.yaml"

    def conf(self, member: Member) -> dict[str, Any]:
        """Return the server configuration of one party."""
        options = self.options
        engine: dict[str, int] = {"cores_per_node": options.cores, "nodes": 1}
        if options.memory is not None:
            engine["memory_per_node"] = options.memory
        conf: dict[str, Any] = {
            "party_id": member.party_id,
            "home": str(self.home(member.party_id)),
            "fateflow": {"host": HOST, "http_port": member.http_port, "worker_port": member.worker_port},
        }
        if options.database is not None:
            conf["database"] = {"url": options.database.replace("{party_id}", member.party_id)}
        conf["fate_on_standalone"] = {"standalone": engine}
        if os.geteuid() == 0:      # a cluster is for trying things on this machine, as whoever started it
            conf["commands"] = {"as_root": True}
        if member.party_port:
            conf["parties"] = {"listen": {"host": HOST, "port": member.party_port}}
        others = [other for other in self.members if other != member]
        conf["routes"] = {other.party_id: {"url": other.gateway or other.url} for other in others}
        return conf

    def write_conf(self, member: Member) -> None:
        path = self.conf_path(member.party_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        head = "# Written by bin/cluster; the checkout's conf/service_conf.yaml explains the keys.\n"
        # It may hold a password.
        write_atomically(path, head + yaml.safe_dump(self.conf(member), sort_keys=False), mode=0o600)


def plan(
    root: Path,
    before: Cluster | None,
    party_ids: Sequence[str],
    pending_requests: dict[str, Any],
    running: Sequence[str],
    is_free: Callable[[int], bool],
) -> Cluster:
    """Return the cluster that `up` has to start: the existing one, changed as requested.

    Running parties keep everything. The others keep their ports unless another program uses them. Raise UsageError,
    ClusterError.
    """
    if before is None and not party_ids:
        raise click.UsageError("--party: name at least one, as in --party 9999 --party 10000")
    if before and party_ids and set(party_ids) != set(before.party_ids):
        raise ClusterError(
            f"--party: {', '.join(party_ids)} requested, but the cluster in {root} has {', '.join(before.party_ids)};"
            " take down and remove that cluster, or name another --dir"
        )
    known = before.options if before else Options()
    options = replace(known, **{name: value for name, value in pending_requests.items() if value is not None})
    if before and options.plain != known.plain:
        raise ClusterError(
            f"--plain: the parties of the cluster in {root} know each other by keys; take down and remove that cluster,"
            " or name another --dir"
        )
    if before and running and options != before.options:
        changed = next(name for name, value in asdict(options).items() if value != getattr(known, name))
        raise ClusterError(
            f"--{changed.replace('_', '-')}: the running cluster in {root} has {getattr(known, changed)};"
            f" take it down first (bin/cluster down --dir {root})"
        )
    names = before.party_ids if before else tuple(party_ids)
    _check_database(options.database, names)
    if before and options.base_port == before.options.base_port:
        return replace(before, options=options, members=_kept_members(before, running, is_free))
    return Cluster(root, options, _new_members(names, options, is_free))


def choose_ports(count: int, base: int, is_free: Callable[[int], bool]) -> list[int]:
    """Return the first free ports from the base on. Raise ClusterError if there are too few."""
    found: list[int] = []
    for port in range(base, 65536):
        if len(found) == count:
            break
        if is_free(port):
            found.append(port)
    if len(found) < count:
        raise ClusterError(f"--base-port: {count} free ports are needed from {base} on, there are {len(found)}")
    return found


def _check_database(template: str | None, party_ids: Sequence[str]) -> None:
    if template and len(party_ids) > 1 and "{party_id}" not in template:
        raise click.UsageError(
            f"--database: {len(party_ids)} parties cannot share one database; put {{party_id}} into the URL,"
            " as in mysql://root@127.0.0.1:3306/flow_{party_id}"
        )


def _new_members(
    party_ids: Sequence[str], options: Options, is_free: Callable[[int], bool]
) -> tuple[Member, ...]:
    base, count = options.base_port, len(party_ids)
    http_ports = choose_ports(count, base, is_free)
    if options.plain:
        party_ports, last = [0] * count, http_ports[-1]
    else:
        party_ports = choose_ports(count, max(base + PARTY_PORTS_ABOVE, http_ports[-1] + 1), is_free)
        last = party_ports[-1]
    worker_ports = choose_ports(count, max(base + WORKER_PORTS_ABOVE, last + 1), is_free)
    return tuple(map(Member, party_ids, http_ports, worker_ports, party_ports))


def _kept_members(
    before: Cluster, running: Sequence[str], is_free: Callable[[int], bool]
) -> tuple[Member, ...]:
    for member in before.members:
        if member.party_id in running:
            continue
        taken = next((port for port in member.ports if not is_free(port)), None)
        if taken is None:
            continue
        if not running:
            return _new_members(before.party_ids, before.options, is_free)
        raise ClusterError(
            f"party {member.party_id}: another program uses port {taken}, and the running parties"
            f" {', '.join(running)} have it in their routes; take the cluster down, so that up can choose other ports"
        )
    return before.members


class Ports:
    """Free ports of this machine, claimed until this is closed."""

    def __init__(self) -> None:
        self._claims: dict[int, socket.socket] = {}

    def is_free(self, port: int) -> bool:
        """Claim the port if no program listens there and no other command has claimed it; return whether it is ours."""
        if port in self._claims:
            return True
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0fate_flow/port/{port}")
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((HOST, port))
        except OSError as error:
            claim.close()
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
        self._claims[port] = claim
        return True

    def close(self) -> None:
        for claim in self._claims.values():
            claim.close()
