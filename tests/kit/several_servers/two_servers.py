"""A party with two servers, behind one address, and a partner with one server."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import yaml

from fate_flow.cli.server import service
from fate_flow.cli.server.cluster_plan import Ports
from tests.kit.servers.party_servers import GUEST, HOST, Cluster, PartyServer, running_cluster
from tests.kit.servers.warm import EXECUTED_SPAWNER, WARM
from tests.kit.waiting import eventually

FIRST, SECOND = "one", "two"


@dataclass
class OneAddress:
    """Leads connections to the port of a server that schedules, as a proxy with a health check does; while none says
    that it schedules, to any that accepts connections. `prefers`: the port of a server that gets them in any case.
    `leads_to`: another port of a server, by the one where it is asked whether it schedules."""

    backends: Sequence[int]
    prefers: int = 0
    leads_to: Mapping[int, int] = field(default_factory=dict)
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=128))

    def __post_init__(self) -> None:
        self.place = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"http://{self.place}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            for port in self._in_order():
                target = ("127.0.0.1", self.leads_to.get(port, port))
                with suppress(ConnectionError), socket.create_connection(target, timeout=5) as server:
                    _splice(client, server)
                    return

    def _in_order(self) -> list[int]:
        return sorted(self.backends, key=lambda port: (port != self.prefers, not is_chosen(port)))


def is_chosen(port: int) -> bool:
    """Whether the server at this port says that it schedules."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        try:
            connection.request("GET", "/schedules")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False


def _splice(one: socket.socket, other: socket.socket) -> None:
    one.settimeout(None)
    other.settimeout(None)
    ends = {one: other, other: one}
    while True:
        for ready in select.select(list(ends), [], [])[0]:
            data = ready.recv(65536)
            if not data:
                return
            ends[ready].sendall(data)


@dataclass
class TwoServers:
    """The guest has two servers, `one` and `two`."""

    cluster: Cluster
    confs: Mapping[str, Path]
    homes: Mapping[str, Path]
    ports: Mapping[str, int]
    address: OneAddress

    @property
    def guest(self) -> PartyServer:
        """The party behind its one address."""
        return self.cluster.guest

    @property
    def host(self) -> PartyServer:
        return self.cluster.host

    def kill(self, name: str) -> None:
        """kill -9 of all processes of a server; its workers live on."""
        assert service.kill(self.homes[name])

    def start(self, name: str) -> None:
        done = WARM.run("bin/service.sh", "start", "-c", str(self.confs[name]), more=EXECUTED_SPAWNER)
        assert done.code == 0, done.err

    @property
    def chosen(self) -> str:
        """The server that schedules; waits for one that says so."""
        return eventually(
            lambda: next((name for name, port in self.ports.items() if is_chosen(port)), ""), "one that schedules"
        )

    def other(self, name: str) -> str:
        return next(one for one in self.homes if one != name)

    def run_everywhere(self) -> None:
        """Start what does not run."""
        for name, home in self.homes.items():
            if service.find(home) is None:
                self.start(name)


@contextmanager
def two_servers(
    root: Path, database: str, base_port: int, more: Mapping[str, Any] | None = None
) -> Iterator[TwoServers]:
    """The servers; the guest's files are those of its shared home. `more`: what both of its servers are configured
    with, and that of the host is not. Their listeners for workers on other hosts have one address, too."""
    shared, second, claimed = root / "shared", root / "second", Ports()
    free = filter(claimed.is_free, range(base_port + 60, 65536))
    ports = {FIRST: next(free), SECOND: next(free)}
    listeners = {port: next(free) for port in ports.values()}
    with (
        closing(claimed),
        closing(OneAddress(tuple(ports.values()))) as address,
        closing(OneAddress(tuple(ports.values()), leads_to=listeners)) as of_workers,
    ):
        of_guest = {
            **(more or {}),
            "servers": {"name": FIRST, "shared_home": str(shared)},
            "fateflow": _listening(ports[FIRST], listeners[ports[FIRST]], of_workers.place),
        }
        overlays: dict[str, Any] = {GUEST: of_guest, HOST: {"routes": {GUEST: {"url": address.url}}}}
        conf = second / "conf" / "service_conf.yaml"
        try:
            with running_cluster(root, (GUEST, HOST), database, base_port, overlays, has_many_jobs=True) as cluster:
                own = _listening(ports[SECOND], listeners[ports[SECOND]], of_workers.place)
                _write_second(cluster, conf, second, own)
                cluster.parties[GUEST] = PartyServer(
                    GUEST, address.url, shared, database.replace("{party_id}", GUEST)
                )  # fmt: skip
                homes = {FIRST: root / GUEST, SECOND: second}
                confs = {FIRST: root / GUEST / "conf" / "service_conf.yaml", SECOND: conf}
                found = TwoServers(cluster, confs, homes, ports, address)
                found.start(SECOND)
                try:
                    yield found
                finally:
                    service.kill(second)
        finally:
            service.kill(second)


def _listening(port: int, of_workers: int, address: str) -> dict[str, Any]:
    return {"http_port": port, "worker_listen": {"host": "127.0.0.1", "port": of_workers, "address": address}}


def _write_second(cluster: Cluster, conf: Path, home: Path, listening: Mapping[str, Any]) -> None:
    first = cluster.root / GUEST / "conf"
    document = yaml.safe_load((first / "service_conf.yaml").read_text(encoding="utf-8"))
    overlay = yaml.safe_load((first / "local.service_conf.yaml").read_text(encoding="utf-8"))
    document |= overlay
    document["home"] = str(home)
    document["fateflow"] = {"host": "127.0.0.1", **listening}
    document["servers"] = {**overlay["servers"], "name": SECOND}
    conf.parent.mkdir(parents=True)
    with open(os.open(conf, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
        json.dump(document, file)
