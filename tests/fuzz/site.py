"""The server that is attacked: its processes, what they hold, its logs, and what is left behind."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import requests
import yaml

from fate_flow.cli.connection.signature import sign
from fate_flow.cli.server import service
from fate_flow.cli.server.cluster_plan import Ports
from fate_flow.engines.local.spawner import SPAWNER
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.signature import Covered, digest_of
from fate_flow.peers.signature import sign as sign_as_party
from fate_flow.peers.site_key import PrivateKey
from fate_flow.peers.tls import PeerKey, client_context, load_tls_key, public_pem
from fate_flow.settings.client_keys import ClientKeys, read_client_keys
from tests.chaos import books
from tests.chaos.parties import Party, wait_until
from tests.fuzz import party_routes
from tests.fuzz.inputs import Operation
from tests.kit.key_lists import signed_list
from tests.kit.peers.handshakes import TlsParty, tls_party
from tests.kit.servers.warm import start_server
from tests.kit.signing import signature_of_clients
from tests.kit.site_keys import private_key

OWN = party_routes.OWN
ATTACKER, HONEST, UNKNOWN, HOLDER = party_routes.CALLER, "10002", "10005", party_routes.HOLDER
PLAIN_ATTACKER, PLAIN_HONEST = party_routes.PLAIN, "10007"
PROXIED = party_routes.PROXIED
JOINED = (ATTACKER, HOLDER, HONEST, PROXIED)
NO_QUOTA = {"requests_per_second": 100_000, "requests_at_once": 1_000_000, "log_lines_per_minute": 1_000_000}
NO_QUOTAS = dict.fromkeys((ATTACKER, HOLDER, PLAIN_ATTACKER, PROXIED), NO_QUOTA)
"""The quota of requests has tests of its own; as many made-up inputs as possible are to get through."""
LIMITS = {
    "poll_interval": 1.0, "remote_request_timeout": 2.0, "submit_timeout": 3.0, "hold_seconds": 5.0,
    "ready_seconds": 10.0, "initiator_silence": 20.0, "party_silence": 15.0, "heartbeat_interval": 1.0,
    "command_keep": 20.0, "stop_grace": 1.0, "plain_hold_seconds": 5.0, "plain_silence": 20.0,
}
JOIN_SECONDS = 60.0


@dataclass(frozen=True)
class Held:
    """What one process holds."""

    name: str
    memory: int                   # bytes, its share of pages that several processes use (PSS)
    descriptors: int


@dataclass(frozen=True)
class Site:
    """A server with all kinds of listeners and client keys, and parties that have joined it, or have not."""

    party: Party
    port: int
    parties_port: int
    plain_port: int
    proxied_port: int
    keys: ClientKeys
    parties: dict[str, TlsParty]

    @property
    def own(self) -> PeerKey:
        return PeerKey.of(OWN, public_pem(load_tls_key(self.party.home / "keys" / "tls.pem").public_key()))

    def signed(self, _method: str, target: str, body: bytes) -> dict[str, str]:
        """The fields of a client with a key. A form is signed without its body, as in FATE's client."""
        at, nonce = str(time.time_ns() // 1_000_000), str(uuid4())
        signature = sign(self.keys.secret_key, at, nonce, self.keys.app_key, target, body)
        return {"TIMESTAMP": at, "NONCE": nonce, "APP_KEY": self.keys.app_key, "SIGNATURE": signature}

    def signed_by_party(self, method: str, target: str, body: bytes, party_id: str = PROXIED) -> dict[str, str]:
        """The fields of a party that asks behind a proxy, and wants a signed answer."""
        covered = Covered(method, target, digest_of(body), party_id, OWN)
        return sign_as_party(message_key(party_id), covered, int(time.time()), uuid4().hex, asks=True)

    def operations(self) -> list[Operation]:
        """The routes of clients, from the document that the server makes."""
        document = requests.get(f"{self.party.url}/v1/openapi.json", timeout=60).json()
        return [
            Operation(method, path, _schema(one)) for path, methods in sorted(document["paths"].items())
            for method, one in sorted(methods.items())
        ]

    def peer_answers(self) -> bool:
        """Whether the honest party is answered."""
        context = client_context(self.parties[HONEST].own, [self.own])
        with closing(HTTPSConnection("127.0.0.1", self.parties_port, context=context, timeout=60)) as connection:
            fields = {"SRC-PARTY-ID": HONEST, "DEST-PARTY-ID": OWN, "Content-Type": "application/json"}
            connection.request("POST", "/v1/party/heartbeat", '{"jobs": []}', fields)
            answer = connection.getresponse()
            return answer.status == 200 and b'"retcode":0' in answer.read().replace(b" ", b"")

    def plain_peer_answers(self) -> bool:
        """Whether the honest party that is known by its name alone is answered."""
        fields = {"SRC-PARTY-ID": PLAIN_HONEST, "DEST-PARTY-ID": OWN}
        url = f"http://127.0.0.1:{self.plain_port}/v1/party/heartbeat"
        answer = requests.post(url, json={"jobs": []}, headers=fields, timeout=60)
        return answer.status_code == 200 and answer.json()["retcode"] == 0

    def proxied_peer_answers(self) -> bool:
        """Whether the honest party is answered behind a proxy, where it signs."""
        path, body = "/v1/party/heartbeat", b'{"jobs": []}'
        fields = {"SRC-PARTY-ID": HONEST, "DEST-PARTY-ID": OWN, "Content-Type": "application/json"}
        fields |= self.signed_by_party("POST", path, body, HONEST)
        answer = requests.post(f"http://127.0.0.1:{self.proxied_port}{path}", data=body, headers=fields, timeout=60)
        return answer.status_code == 200 and answer.json()["retcode"] == 0

    def client_answers(self) -> bool:
        """Whether the honest client is answered."""
        auth = signature_of_clients(self.party.home)
        answer = requests.post(f"{self.party.url}/v1/job/query", json={"job_id": "1" * 21}, timeout=60, auth=auth)
        return answer.status_code == 200 and answer.json()["retcode"] == 0

    def held(self) -> dict[int, Held]:
        """By pid, the processes of the server; workers of jobs are none of them."""
        found = {}
        for one in service.server_processes(self.party.home):
            with suppress(OSError, psutil.Error):
                process = psutil.Process(one.pid)
                name = "spawner" if process.name() == SPAWNER else process.name()
                found[one.pid] = Held(name, _pss(one.pid), len(os.listdir(f"/proc/{one.pid}/fd")))
        return found

    def tracebacks(self) -> Counter[str]:
        return books.tracebacks(self.party)

    def leftovers(self) -> list[str]:
        """Rows that are not over, files that nothing needs, processes of jobs."""
        return books.unsettled({OWN: self.party}, {})

    def run_folder(self) -> set[str]:
        """Names in the folder of run files; nonces have names of their own, and are kept for their time."""
        return {path.name for path in (self.party.home / "run").iterdir()}


def message_key(party_id: str) -> PrivateKey:
    """What a joined party signs with."""
    return private_key(JOINED.index(party_id) + 1)


def _schema(operation: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    found = next(iter(content.values()), {}).get("schema", {"type": "object"})
    assert isinstance(found, dict)
    return found


def _pss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def running_site(root: Path, quotas: Mapping[str, Any] = NO_QUOTAS) -> Iterator[Site]:
    """The server, which is ended whatever happens; `root` is a new folder, `quotas` go by party."""
    home, conf, ports = root / "home", root / "service_conf.yaml", Ports()
    home.mkdir(parents=True)
    free = filter(ports.is_free, range(26_000 + os.getpid() % 400 * 5, 65_536))
    port, parties_port, plain_port, proxied_port = next(free), next(free), next(free), next(free)
    conf.write_text(yaml.safe_dump({
        "party_id": OWN, "home": str(home), "fateflow": {"http_port": port},
        "parties": {
            "listen": {"host": "127.0.0.1", "port": parties_port},
            "plain": {"listen": {"port": plain_port}, "from": [PLAIN_ATTACKER, PLAIN_HONEST]},
            "behind_proxy": {"port": proxied_port},
        },
        "authentication": {"site": {"switch": True}, "client": {"switch": True}},
        "quotas": {"parties": quotas}, "limits": LIMITS, "log": {"sql": False},
    }))
    conf.chmod(0o600)
    OwnKeys(OWN, home / "keys", home / "keys" / "message.pem", now_ms).make()
    try:
        start_server(conf, home)
        keys = read_client_keys(home)
        assert keys is not None
        party = Party(OWN, f"http://127.0.0.1:{port}", home, conf, "")
        tls = {one: tls_party(one, clock=now_ms) for one in (*JOINED, UNKNOWN)}
        site = Site(party, port, parties_port, plain_port, proxied_port, keys, tls)
        for name in JOINED:
            text = signed_list(name, 1, message_key(name), tls=site.parties[name]).text()
            answer = party.post("key/public/save", {"party_id": name, "key": text})
            assert answer["retcode"] == 0, answer
        assert wait_until(lambda: _is_let_in(site), JOIN_SECONDS), "the parties are not let in"
        yield site
    finally:
        service.kill(home)
        ports.close()


def _is_let_in(site: Site) -> bool:
    try:
        return site.peer_answers()
    except OSError:
        return False
