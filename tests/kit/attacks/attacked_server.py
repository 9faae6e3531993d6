"""A server with everything on that guards it, and the parties around it: the test holds the keys of all of them.

Its gateway is what other parties reach. Grants are required, programs may run, the quotas of the hostile party are
small. Nobody but the server is real: a peer that it calls agrees to everything, sends what a test wants, or is a man in
the middle.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPSConnection
from itertools import count
from pathlib import Path
from typing import Any, Self

import psutil
import requests
import yaml

from fate_flow.cli.server import service
from fate_flow.cli.server.cluster_plan import Ports
from fate_flow.core.wire.v1.extensions import EXTENSIONS
from fate_flow.engines.local.engine import living_workers
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.site_key import PrivateKey
from fate_flow.peers.tls import PeerKey, client_context, load_tls_key, public_pem, server_context
from tests.kit.key_lists import signed_list
from tests.kit.peers.handshakes import TlsParty, tls_party
from tests.kit.peers.hostile_server import HostileServer, Script, answer, once
from tests.kit.peers.tls_peer import TlsPeer
from tests.kit.servers.changing_proxy import ChangingProxy
from tests.kit.servers.home_files import paths_below
from tests.kit.servers.party_servers import Answer, PartyServer, csv_text, job_of
from tests.kit.servers.warm import WARM, start_server
from tests.kit.site_keys import private_key
from tests.kit.tls import Authority
from tests.kit.waiting import eventually

OWN = "9999"
HONEST = "10000"         # has jobs here, and takes part in jobs of this server
HOSTILE = "10001"        # joined, with valid keys and few grants
OF_P256 = "10002"        # joined, with a tls key of ECDSA
REVOKED = "10003"        # was joined with such a key
WRONG = "10004"          # joined; its server answers what a test wants
REPLACED = "10005"       # joined; at its address answers the server of the hostile party
KEYLESS = "10006"        # joined; at its address answers a server with a key that nobody knows
STRANGER = "10007"       # nobody knows its key
PLAIN = "10008"          # is believed by its name at the port for plain v1

JOINED = (HONEST, HOSTILE, OF_P256, REVOKED, WRONG, REPLACED, KEYLESS)
HEARTBEAT = "party/heartbeat"
QUOTAS = {"unfinished_jobs": 3, "document_bytes": 20_000, "spool_share": 0.01}
"""Those of the hostile party."""
CORES = 60               # more than jobs that run during all tests hold
SPOOL_BYTES = 8 << 20
SLEEPER = {"command": ["/bin/sh", "-c", "exec sleep 600"]}

_ESTABLISHED, _CLOSE_WAIT = "01", "08"
_OF_TIME = ("time", "date", "_at", "seen", "since")
_COME_AND_GO = ("run/nonces/", "run/alive", "run/peers.json", "fate_flow.sqlite")

RIGHT = once(answer(b'{"retcode": 0, "retmsg": "success", "data": {}}', "200 OK", "Connection: close"))
"""An answer of a server that is as it should be."""

NUMBERS = count(time.time_ns() // 1000)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def message_key(party_id: str) -> PrivateKey:
    """What this party signs requests with."""
    return private_key(int(party_id[-1]) + 1)


def new_job_id() -> str:
    return f"20260101{next(NUMBERS)}"


def program(initiator: str, others: Mapping[str, list[str]], **parameters: object) -> dict[str, Any]:
    """A job with one program at all its parties, as the task `toy_0`."""
    roles = {"guest": [initiator], **others}
    return job_of({"toy_0": {"module": "Command"}}, roles, common={"toy_0": parameters or SLEEPER})


def reader(initiator: str, table: str, roles: Mapping[str, list[str]] | None = None) -> dict[str, Any]:
    """A job that reads this table of the server."""
    wanted = {"toy_0": {"table": {"namespace": "it", "name": table}}}
    reads = {"toy_0": {"module": "Reader", "output": {"data": ["raw"]}}}
    return job_of(reads, {"guest": [initiator], **(roles or {"host": [OWN]})}, common=wanted)


def create_body(job_id: str, document: Mapping[str, Any], **more: object) -> dict[str, Any]:
    conf = document["job_runtime_conf"]
    return {
        "job_id": job_id, "dsl": document["job_dsl"], "runtime_conf": conf, "train_runtime_conf": {},
        "roles": conf["role"], "initiator_role": "guest", "initiator_party_id": str(conf["initiator"]["party_id"]),
        "extensions": EXTENSIONS, "incarnations": {"toy_0": "ab" * 16}, **more,
    }


def agrees(body: bytes) -> Answer:
    """What a peer says that does whatever it is asked."""
    asked = json.loads(body)
    one = {"retcode": 0, "retmsg": "success", "data": {"extensions": EXTENSIONS, "components": {}, "ended": {}}}
    return {**one, "data": [one for _ in asked["commands"]]} if "commands" in asked else one


@dataclass
class AttackedServer:
    """The server, what runs there, and the parties around it."""

    home: Path
    conf: Path
    server: PartyServer
    port: int                                # of the gateway
    plain_port: int
    proxied_port: int                        # of `parties.behind_proxy`
    parties: dict[str, TlsParty]
    peers: dict[str, TlsPeer]                # by the party that the server means to call
    wrong: list[Script]                      # the last one is what the server of WRONG sends
    wrong_server: HostileServer
    proxy: ChangingProxy                     # ends the TLS in front of one of the listeners without TLS
    proxy_authority: Path                    # vouches for it
    _contexts: dict[str, ssl.SSLContext] = field(default_factory=dict)
    _kept: dict[tuple[str, int], HTTPSConnection] | None = None        # by party and thread

    @property
    def client_port(self) -> int:
        return int(self.server.url.rpartition(":")[2])

    @property
    def own(self) -> PeerKey:
        return PeerKey.of(OWN, public_pem(load_tls_key(self.home / "keys" / "tls.pem").public_key()))

    @staticmethod
    def clock() -> int:
        return now_ms()

    # ------------------------------------------------------------------ over the gateway

    def context(self, party_id: str) -> ssl.SSLContext:
        if party_id not in self._contexts:
            self._contexts[party_id] = client_context(self.parties[party_id].own, [self.own])
        return self._contexts[party_id]

    def connected(self, party_id: str = "", source: str = "127.0.0.1", context: ssl.SSLContext | None = None) -> Any:
        """A connection of this party to the gateway from this address; without a party and a context, without TLS."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=90, source_address=(source, 0))
        if context is None and not party_id:
            return sock
        try:
            return (context or self.context(party_id)).wrap_socket(sock)
        except BaseException:
            sock.close()
            raise

    def raw(self, party_id: str, path: str, body: object = None, **head: str) -> tuple[int, bytes]:
        """The status and the text of the answer to a POST."""
        fields = {"SRC-PARTY-ID": party_id, "DEST-PARTY-ID": OWN, "Content-Type": "application/json"}
        fields |= {name.replace("_", "-"): value for name, value in head.items()}
        content = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        if self._kept is not None:
            return self._sent_on_kept(party_id, f"/v1/{path}", content, fields)
        with closing(self._https(party_id)) as connection:
            return _answered(connection, f"/v1/{path}", content, fields)

    def _https(self, party_id: str) -> HTTPSConnection:
        return HTTPSConnection("127.0.0.1", self.port, context=self.context(party_id), timeout=90)

    @contextmanager
    def kept_connections(self) -> Iterator[None]:
        """Inside, a thread sends a party's requests on one connection, and makes another one when it has to."""
        self._kept = {}
        try:
            yield
        finally:
            for connection in self._kept.values():
                connection.close()
            self._kept = None

    def _sent_on_kept(self, party_id: str, path: str, content: bytes, fields: Mapping[str, str]) -> tuple[int, bytes]:
        assert self._kept is not None
        key = (party_id, threading.get_ident())
        if key in self._kept:
            try:
                return _answered(self._kept[key], path, content, fields)
            except OSError:             # the server has closed it meanwhile: the next one has to be answered
                self._kept.pop(key).close()
        self._kept[key] = self._https(party_id)
        return _answered(self._kept[key], path, content, fields)

    def ask(self, party_id: str, path: str, body: object = None, **head: str) -> Answer:
        """The envelope that this party gets."""
        status, text = self.raw(party_id, path, body, **head)
        found = json.loads(text)
        assert isinstance(found, dict), (status, text)
        return found

    def exchanged(self, party_id: str, data: bytes, source: str = "127.0.0.1") -> bytes:
        """All that comes back on a connection whose sender ends after these bytes."""
        with self.connected(party_id, source) as connection:
            with suppress(OSError):          # it is refused before it has sent everything
                connection.sendall(data)
                socket.socket.shutdown(connection, socket.SHUT_WR)
            return all_of(connection)

    def begin(self, caller: str, job_id: str, document: Mapping[str, Any], seat: str = f"host/{OWN}") -> None:
        """Let a party begin its job here, by hand, as far as its task."""
        place = f"party/{job_id}/{seat}"
        for verb in ("create", "status/waiting", "resource/apply", "start"):
            answer = self.ask(caller, f"{place}/{verb}", create_body(job_id, document) if verb == "create" else {})
            assert answer["retcode"] == 0, (verb, answer)
        assert self.ask(caller, task_path(job_id, "start", seat))["retcode"] == 0

    def end(self, caller: str, job_id: str, seat: str = f"host/{OWN}") -> None:
        for verb in ("stop/canceled", "status/canceled"):
            self.ask(caller, f"party/{job_id}/{seat}/{verb}")

    def await_program(self, job_id: str) -> None:
        """Wait until the program of a job runs here, and the database says so."""
        def states() -> list[Any]:
            workers = self.server.rows("SELECT f_status FROM t_worker WHERE f_job_id = ?", job_id)
            return [one["f_status"] for one in workers] + [one["f_party_status"] for one in self.server.tasks(job_id)]

        eventually(lambda: states() == ["running", "running"], states)

    # ------------------------------------------------------------------ what is seen of it

    def is_served(self, party_id: str, source: str = "127.0.0.1") -> bool:
        """Whether a signed heartbeat of this party is answered."""
        try:
            with closing(self.connected(party_id, source)) as connection:
                connection.sendall(
                    f"POST /v1/{HEARTBEAT} HTTP/1.1\r\nHost: x\r\nSRC-PARTY-ID: {party_id}\r\n"
                    "Content-Length: 12\r\nConnection: close\r\n\r\n".encode() + b'{"jobs": []}'
                )
                return b'"retcode":0' in all_of(connection).replace(b" ", b"")
        except (OSError, HTTPException):
            return False

    def serves_honest_ones(self) -> bool:
        """Whether the honest party and a client are answered. The party comes from an address of its own."""
        return self.is_served(HONEST, "127.0.0.7") and self.server.post("version/get")["retcode"] == 0

    def plain_peer_is_served(self) -> bool:
        head = {"SRC-PARTY-ID": PLAIN, "DEST-PARTY-ID": OWN}
        url = f"http://127.0.0.1:{self.plain_port}/v1/{HEARTBEAT}"
        return bool(requests.post(url, json={"jobs": []}, headers=head, timeout=90).json()["retcode"] == 0)

    def connections(self) -> int:
        """How many the gateway has, also of those whose other end is closed already."""
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(
            line[1].endswith(f":{self.port:04X}") and line[3] in (_ESTABLISHED, _CLOSE_WAIT) and line[9] != "0"
            for line in lines
        )

    def seen(self, party_id: str) -> str:
        """What `flow party list` says of a party, which the server asks meanwhile."""
        [found] = [one for one in self.server.ask("party/list", {})["parties"] if one["party_id"] == party_id]
        return f"{found['status']}: {found['message']}"

    def rows(self, job_id: str) -> list[Any]:
        """What is stored about a job, but for times and signs of life."""
        return [
            sorted(
                ({key: value for key, value in row.items() if not key.endswith(_OF_TIME)}
                 for row in self.server.rows(f"SELECT * FROM {table} WHERE f_job_id = ?", job_id)), key=repr,
            )
            for table in ("t_job", "t_task", "t_seat", "t_worker", "t_job_binding")
        ]  # fmt: skip

    def files(self) -> set[str]:
        """All files below the home but those that come and go by themselves."""
        found = {path.relative_to(self.home).as_posix() for path in paths_below(self.home)}
        return {name for name in found if not name.startswith(_COME_AND_GO)}

    def await_nothing_new(self, before: set[str]) -> None:
        """Wait until there is no file that was not there before, but of jobs that are here."""
        def left() -> set[str]:
            jobs = [row["f_job_id"] for row in self.server.rows("SELECT f_job_id FROM t_job")]
            return {name for name in self.files() - before if not any(job_id in name for job_id in jobs)}

        eventually(lambda: not left(), lambda: f"nothing new: {left()}")

    def log(self, name: str) -> list[str]:
        return self.server.log("fate_flow", name)

    def memory(self) -> int:
        """Bytes that the processes of the server have in memory."""
        total = 0
        for one in service.server_processes(self.home):
            with suppress(psutil.Error):
                total += psutil.Process(one.pid).memory_info().rss
        return total


def task_path(job_id: str, verb: str, seat: str = f"host/{OWN}", kind: str = "party") -> str:
    return f"{kind}/{job_id}/toy_0/{job_id}_toy_0/0/{seat}/{verb}"


def _answered(
    connection: HTTPSConnection, path: str, content: bytes, fields: Mapping[str, str]
) -> tuple[int, bytes]:  # fmt: skip
    connection.request("POST", path, content, fields)
    answer = connection.getresponse()
    return answer.status, answer.read()


def all_of(connection: Any) -> bytes:
    """What comes until the other side ends."""
    found = b""
    with suppress(OSError):
        while piece := connection.recv(65536):
            found += piece
    return found


class Listener:
    """A port of this machine, and how often somebody has connected to it: where no request may lead."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._socket.setblocking(False)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def count(self) -> int:
        found = 0
        with suppress(BlockingIOError):
            while True:
                self._socket.accept()[0].close()
                found += 1
        return found


# ---------------------------------------------------------------------- its start


@contextmanager
def attacked_server(root: Path) -> Iterator[AttackedServer]:
    home, conf, ports = root / "home", root / "service_conf.yaml", Ports()
    home.mkdir(parents=True)
    free = filter(ports.is_free, range(29_000 + os.getpid() % 400 * 5, 65_536))
    port, gateway, plain, proxied = next(free), next(free), next(free), next(free)
    OwnKeys(OWN, home / "keys", home / "keys" / "message.pem", now_ms).make()
    own = PeerKey.of(OWN, public_pem(load_tls_key(home / "keys" / "tls.pem").public_key()))
    parties = {one: tls_party(one, ecdsa=one in (OF_P256, REVOKED), clock=now_ms) for one in (*JOINED, STRANGER)}
    shown = {one: one for one in (HONEST, HOSTILE)} | {REPLACED: HOSTILE, KEYLESS: STRANGER}
    peers = {one: TlsPeer(server_context(parties[who].own, [own])) for one, who in shown.items()}
    for one in peers.values():
        one.answers = agrees
    wrong: list[Script] = [RIGHT]
    wrong_server = HostileServer(lambda: wrong[-1](), context=server_context(parties[WRONG].own, [own]))
    authority = Authority(root)
    proxy = ChangingProxy(authority.server_context())
    proxy.target = proxied
    urls = {**{one: peer.url for one, peer in peers.items()}, WRONG: wrong_server.url}
    conf.write_text(yaml.safe_dump(_configuration(home, (port, gateway, plain, proxied), urls)))
    conf.chmod(0o600)
    try:
        start_server(conf, home)
        server = PartyServer(OWN, f"http://127.0.0.1:{port}", home)
        found = AttackedServer(
            home, conf, server, gateway, plain, proxied, parties, peers, wrong, wrong_server, proxy,
            authority.file,
        )
        _prepare(found)
        yield found
        eventually(lambda: not living_workers(home / "jobs"), "the end of all programs")
    finally:
        for closed in (*peers.values(), wrong_server, proxy):
            closed.close()
        service.kill(home)
        ports.close()


def _configuration(home: Path, ports: tuple[int, int, int, int], urls: Mapping[str, str]) -> dict[str, Any]:
    port, gateway, plain, proxied = ports
    return {
        "party_id": OWN, "home": str(home), "fateflow": {"http_port": port},
        "parties": {
            "listen": {"host": "127.0.0.1", "port": gateway}, "plain": {"listen": {"port": plain}, "from": [PLAIN]},
            "behind_proxy": {"port": proxied},
        },
        "authentication": {"site": {"switch": True}, "client": {"switch": True}},
        "routes": {party_id: {"url": url} for party_id, url in urls.items()},
        "permission": {"switch": True, "component": True, "dataset": True},
        "commands": {"enabled": True, "allow": ["/bin/sh", sys.executable], "as_root": True},
        "fate_on_standalone": {"standalone": {"cores_per_node": CORES}},
        "quotas": {"parties": {HOSTILE: QUOTAS}},
        "limits": {
            "initiator_silence": 3000.0, "heartbeat_interval": 1.0, "spool_max_bytes": SPOOL_BYTES, "stop_grace": 1.0,
        },
        "log": {"sql": False},
    }  # fmt: skip


def _prepare(found: AttackedServer) -> None:
    """Let the parties join, revoke one of them, and give the others tables and grants."""
    for party_id in JOINED:
        text = signed_list(party_id, 1, message_key(party_id), tls=found.parties[party_id]).text()
        found.server.ask("key/public/save", {"party_id": party_id, "key": text})
    for name in ("open", "secret"):
        found.server.has_table(name, csv_text(["id", "x"], {"a": [1], "b": [2]}))
    opened = {"namespace": "it", "name": "open"}
    for party_id, component, dataset in (
        (HONEST, "*", "*"), (HOSTILE, ["Reader"], opened), (OF_P256, ["Reader"], opened),
    ):  # fmt: skip
        found.server.ask("permission/grant", {"party_id": party_id, "component": component, "dataset": dataset})
    eventually(lambda: all(found.is_served(one) for one in JOINED), "the parties to be let in")
    done = WARM.run("fate_flow", "party", "revoke", REVOKED, "--reason", "it attacks", "-c", str(found.conf))
    assert done.code == 0, done.err
    eventually(lambda: not found.is_served(REVOKED), "the party to be refused")
