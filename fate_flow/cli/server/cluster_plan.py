"""What a cluster consists of: parties, ports and options, and how they become another cluster.

It is written once, in `DIR/cluster.json`. The servers' configurations follow from it and are written from it, but only
when it changes: an edit by hand survives `down` and `up`.

Ports are chosen for all parties before the first configuration is written, since each names the ports of the
others. While they are being chosen and until the servers hold them, their numbers are claimed as names of
abstract sockets: those are one per machine, leave no file and vanish with the process, so two commands that
make clusters at the same time do not choose the same ones.
"""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import click
import yaml

from fate_flow.core.model.errors import FlowError
from fate_flow.engines.local.worker import read_json, write_atomically

HOST = "127.0.0.1"
DEFAULT_CORES = 20
DEFAULT_BASE_PORT = 9380
WORKER_PORTS_ABOVE = 100    # workers' ports begin so far above the base port


class ClusterError(FlowError):
    """The cluster cannot be made or changed as asked."""


@dataclass(frozen=True)
class Options:
    """What the servers of a cluster have in common."""

    cores: int = DEFAULT_CORES
    memory: int | None = None        # MB a party; None: what the server takes by default
    database: str | None = None      # URL with {party_id}; None: SQLite in the home
    base_port: int = DEFAULT_BASE_PORT


@dataclass(frozen=True)
class Member:
    """A party of the cluster and the ports of its server."""

    party_id: str
    http_port: int
    worker_port: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.http_port}"


@dataclass(frozen=True)
class Cluster:
    """What `DIR/cluster.json` says."""

    root: Path
    options: Options
    members: tuple[Member, ...]

    @classmethod
    def read(cls, root: Path) -> Self | None:
        """None when there is no cluster in this folder."""
        path = root / "cluster.json"
        if not path.exists():
            return None
        try:
            document = read_json(path) or {}
            members = tuple(Member(**member) for member in document["parties"])
            return cls(root, Options(**document["options"]), members)
        except (KeyError, TypeError) as error:
            raise ClusterError(f"{path}: is damaged; take the folder away or name another one") from error

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
        """The server configuration of one party."""
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
        conf["routes"] = {other.party_id: {"url": other.url} for other in self.members if other != member}
        return conf

    def write_conf(self, member: Member) -> None:
        path = self.conf_path(member.party_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        head = "# Written by bin/cluster; what the keys mean is told in the checkout's conf/service_conf.yaml.\n"
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
    """The cluster that `up` has to bring about: what is there and what is asked for, made one.

    Running parties keep everything; the others keep their ports as long as nobody else took them.
    """
    if before is None and not party_ids:
        raise click.UsageError("--party: name at least one, as in --party 9999 --party 10000")
    if before and party_ids and set(party_ids) != set(before.party_ids):
        raise ClusterError(
            f"--party: {', '.join(party_ids)} asked, but the cluster in {root} has {', '.join(before.party_ids)};"
            " take down and remove that one, or name another --dir"
        )
    known = before.options if before else Options()
    options = replace(known, **{name: value for name, value in pending_requests.items() if value is not None})
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
    return Cluster(root, options, _new_members(names, options.base_port, is_free))


def choose_ports(count: int, base: int, is_free: Callable[[int], bool]) -> list[int]:
    """The first free ports from the base on."""
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
    party_ids: Sequence[str], base: int, is_free: Callable[[int], bool]
) -> tuple[Member, ...]:
    http_ports = choose_ports(len(party_ids), base, is_free)
    worker_ports = choose_ports(len(party_ids), max(base + WORKER_PORTS_ABOVE, http_ports[-1] + 1), is_free)
    return tuple(map(Member, party_ids, http_ports, worker_ports))


def _kept_members(
    before: Cluster, running: Sequence[str], is_free: Callable[[int], bool]
) -> tuple[Member, ...]:
    for member in before.members:
        if member.party_id in running:
            continue
        taken = next((port for port in (member.http_port, member.worker_port) if not is_free(port)), None)
        if taken is None:
            continue
        if not running:
            return _new_members(before.party_ids, before.options.base_port, is_free)
        raise ClusterError(
            f"party {member.party_id}: port {taken} is taken by another program, and the running parties"
            f" {', '.join(running)} have it in their routes; take the cluster down to give it other ports"
        )
    return before.members


class Ports:
    """Ports of this machine that are free, and claimed until this is closed."""

    def __init__(self) -> None:
        self._claims: dict[int, socket.socket] = {}

    def is_free(self, port: int) -> bool:
        """Whether nobody listens there and no other command has chosen it; claims it when so."""
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
