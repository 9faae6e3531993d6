"""Servers that have keys and have never heard of each other, for tests that join them.

Their addresses are those of recorders, which pass everything on to the gateways.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fate_flow.cli.server import service
from fate_flow.cli.server.cluster_plan import Ports
from fate_flow.peers.own_keys import OwnKeys
from tests.kit.servers.party_servers import GUEST, HOST, PartyServer
from tests.kit.servers.warm import WARM, Done, start_server
from tests.kit.servers.wire_recorder import WireRecorder

PARTIES = (GUEST, HOST)
SECONDS = 300


@dataclass
class Strangers:
    """The servers of the parties, their configurations and keys, the addresses of their gateways, and what passes
    there."""

    servers: dict[str, PartyServer]
    confs: dict[str, Path]
    addresses: dict[str, str]
    keys: dict[str, OwnKeys]
    wires: dict[str, WireRecorder]

    def run(self, party_id: str, *arguments: str, given: str = "") -> Done:
        """Run a command of `fate_flow party`."""
        conf = str(self.confs[party_id])
        return WARM.run("fate_flow", "party", *arguments, "-c", conf, seconds=SECONDS, given=given)

    def audit(self, party_id: str, *arguments: str) -> Done:
        """Run a command of `fate_flow audit`."""
        return WARM.run("fate_flow", "audit", *arguments, "-c", str(self.confs[party_id]), seconds=SECONDS)

    def invite(self, invited: str = HOST) -> subprocess.Popen[str]:
        """Let the guest invite another party; the first line of the output is the invitation. The environment has the
        configuration."""
        return subprocess.Popen(
            [Path(sys.executable).with_name("fate_flow"), "party", "invite", "--for", invited], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**os.environ, "FATE_FLOW_CONF": str(self.confs[GUEST])},
        )  # fmt: skip

    def join(self, text: str, invited: str = HOST) -> Done:
        """Let the invited party join, with the text on standard input."""
        return self.run(invited, "join", given=text)


@contextmanager
def strangers_at(
    root: Path, first_port: int, *, party_ids: Sequence[str] = PARTIES, host_dials: bool = False,
    more: Mapping[str, Any] | None = None,
) -> Iterator[Strangers]:  # fmt: skip
    """`first_port`: from where on free ports are looked for. `host_dials`: the host has no port for other parties.
    `more`: sections of all configurations."""
    ports = Ports()
    free = filter(ports.is_free, range(first_port + os.getpid() % 400 * 8, 65536))
    servers, confs, addresses, keys, wires = {}, {}, {}, {}, {}
    try:
        for party_id in party_ids:
            home, conf, port, parties = root / party_id, root / f"{party_id}.yaml", next(free), next(free)
            wires[party_id] = wire = WireRecorder(parties)
            addresses[party_id] = f"https://127.0.0.1:{wire.port}"
            listen = {"listen": {"host": "127.0.0.1", "port": parties}, "address": addresses[party_id]}
            conf.write_text(yaml.safe_dump({
                "party_id": party_id, "home": str(home), "fateflow": {"http_port": port},
                "parties": {"dial": True} if host_dials and party_id == HOST else listen,
                "authentication": {"client": {"switch": True}}, **(more or {}),
            }))
            home.mkdir()
            keys[party_id] = own = OwnKeys(
                party_id, home / "keys", home / "keys" / "message.pem", lambda: time.time_ns() // 1_000_000
            )
            own.make()
            start_server(conf, home)
            servers[party_id] = PartyServer(party_id, f"http://127.0.0.1:{port}", home)
            confs[party_id] = conf
        yield Strangers(servers, confs, addresses, keys, wires)
    finally:
        for party_id in party_ids:
            service.kill(root / party_id)
        for wire in wires.values():
            wire.close()
        ports.close()
