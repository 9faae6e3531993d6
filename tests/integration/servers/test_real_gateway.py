"""A real server with a listener for other parties: who gets through, to what, and what is left when processes end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import requests
import yaml

from fate_flow.cli.server import service
from fate_flow.cli.server.cluster_plan import Ports
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.signature import SIGNATURE, Covered, digest_of, sign
from fate_flow.peers.tls import PeerKey, client_context, load_tls_key, public_pem, server_context
from tests.kit.attacks.attacked_server import create_body, new_job_id, reader
from tests.kit.key_lists import signed_list
from tests.kit.peers.handshakes import TlsParty, tls_party
from tests.kit.peers.tls_peer import TlsPeer
from tests.kit.servers.party_servers import PartyServer
from tests.kit.servers.warm import WARM, start_server
from tests.kit.site_keys import private_key
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

HEARTBEAT = "/v1/party/heartbeat"
DELETED, REVOKED = ("10003", "10005", "10009"), ("10006", "10007", "10008")
"""Parties whose keys stop counting; one more each time this machine was too busy for a process to look in time."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Gatewayed:
    """A server of party 9999 with a gateway, and parties that may know it."""

    home: Path
    conf: Path
    port: int
    server: PartyServer
    parties: dict[str, TlsParty]
    servers: dict[str, TlsPeer]              # of parties, where this one sends its requests

    @property
    def own(self) -> PeerKey:
        return PeerKey.of("9999", public_pem(load_tls_key(self.home / "keys" / "tls.pem").public_key()))

    def without_tls(self, listener: str) -> int:
        """The port of `plain` or `behind_proxy`."""
        found = yaml.safe_load(self.conf.read_text())["parties"][listener]
        return int(found.get("listen", found)["port"])

    def join(self, party_id: str, number: int = 1) -> None:
        """Store the key list of this party."""
        text = signed_list(party_id, number, private_key(int(party_id[-1])), tls=self.parties[party_id]).text()
        self.server.ask("key/public/save", {"party_id": party_id, "key": text})

    def context(self, party_id: str) -> ssl.SSLContext:
        return client_context(self.parties[party_id].own, [self.own])

    def connection(self, party_id: str) -> HTTPSConnection:
        return HTTPSConnection("127.0.0.1", self.port, context=self.context(party_id), timeout=60)

    def ask(
        self, party_id: str, path: str = HEARTBEAT, head: Mapping[str, str] | None = None, body: object = None
    ) -> tuple[int, dict[str, object]]:
        with closing(self.connection(party_id)) as connection:
            return asked(connection, party_id, path, head, body)

    def is_let_in(self, party_id: str) -> bool:
        try:
            return self.ask(party_id)[1].get("retcode") == 0
        except (OSError, HTTPException):
            return False

    def processes(self, name: str) -> list[psutil.Process]:
        """The processes of this server that hold this socket."""
        held = self.port if name == "gateway" else int(self.server.url.rpartition(":")[2])
        members = [psutil.Process(one.pid) for one in service.server_processes(self.home)]
        listening = [
            one for one in members
            if any(found.laddr.port == held and found.status == psutil.CONN_LISTEN for found in one.net_connections())
        ]
        return [one for one in listening if one.pid != service.find(self.home).supervisor.pid]


def asked(
    connection: HTTPSConnection, party_id: str, path: str = HEARTBEAT, head: Mapping[str, str] | None = None,
    body: object = None,
) -> tuple[int, dict[str, object]]:
    fields = {"SRC-PARTY-ID": party_id, "DEST-PARTY-ID": "9999", "Content-Type": "application/json", **(head or {})}
    connection.request("POST", path, json.dumps({"jobs": []} if body is None else body), fields)
    answer = connection.getresponse()
    content = answer.read()
    return answer.status, json.loads(content) if content else {}


def write_conf(folder: Path, ports: Ports, routes: Mapping[str, str] | None = None) -> tuple[Path, Path, int, int]:
    """The home and the configuration of a server that is not started yet, with its ports."""
    home = folder / ("a long path " * 9).strip()            # the path of a Unix socket has at most 107 bytes
    home.mkdir(parents=True)
    free = filter(ports.is_free, range(24000 + os.getpid() % 400 * 5, 65536))
    port, parties, plain, proxied = next(free), next(free), next(free), next(free)
    conf = folder / "service_conf.yaml"
    listen = {"host": "127.0.0.1", "port": parties}
    conf.write_text(yaml.safe_dump({
        "party_id": "9999", "home": str(home), "fateflow": {"http_port": port},
        "parties": {
            "listen": listen, "behind_proxy": {"port": proxied},
            "plain": {"listen": {"port": plain}, "from": ["10004"]},
        },
        "authentication": {"site": {"switch": True}, "client": {"switch": True}},
        "quotas": {"parties": {"10004": {"requests_per_second": 1, "requests_at_once": 3}}},
        "routes": {party_id: {"url": url} for party_id, url in (routes or {}).items()},
    }))
    return home, conf, port, parties


@pytest.fixture(scope="module")
def gatewayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gatewayed]:
    ports = Ports()
    parties = {one: tls_party(one, clock=now_ms) for one in map(str, range(10000, 10010))}
    servers = {one: TlsPeer(server_context(parties[one].own, [])) for one in (*DELETED, *REVOKED)}
    routes = {one: server.url for one, server in servers.items()}
    home, conf, port, parties_port = write_conf(tmp_path_factory.mktemp("gateway"), ports, routes)
    OwnKeys("9999", home / "keys", home / "keys" / "message.pem", now_ms).make()
    try:
        start_server(conf, home)
        server = PartyServer("9999", f"http://127.0.0.1:{port}", home)
        found = Gatewayed(home, conf, parties_port, server, parties, servers)
        for party_id, one in servers.items():
            one.context = server_context(parties[party_id].own, [found.own])
        for party_id in ("10000", "10001"):
            found.join(party_id)
        eventually(lambda: found.is_let_in("10000") and found.is_let_in("10001"), "the parties to be let in")
        yield found
    finally:
        service.kill(home)
        ports.close()
        for one in servers.values():
            one.close()


def test_a_party_with_a_known_key_reaches_routes_of_parties_and_none_of_clients(gatewayed: Gatewayed) -> None:
    with closing(gatewayed.connection("10000")) as connection:
        assert asked(connection, "10000")[1]["retcode"] == 0
        for path in ("/v1/version/get", "/v1/job/query", "/v1/party/list", "/v1/key/query", "/index.html", "/v2/x"):
            connection.request("POST", path, "{}", {"SRC-PARTY-ID": "10000"})
            refusal = connection.getresponse()
            assert (refusal.status, refusal.read()) == (404, f"'{path}': other parties have no such route".encode())
        assert asked(connection, "10000")[1]["retcode"] == 0           # the same connection
    assert any('POST /v1/party/heartbeat HTTP/1.1" 200' in line and line_address(line) == "127.0.0.1"
               for line in gatewayed.server.log("fate_flow", "fate_flow_access.log"))


def line_address(line: str) -> str:
    return line.rpartition(" - - [")[0].rpartition(" ")[2] if " - - [" in line else ""


def test_a_party_speaks_for_nobody_else_whatever_its_headers_say(gatewayed: Gatewayed) -> None:
    status, answer = gatewayed.ask("10000", head={"SRC-PARTY-ID": "10001"})
    assert (status, answer["retcode"]) == (200, 109)
    identity = f"10001 {gatewayed.parties['10001'].peer.key_id}"
    for name in ("X-Fate-Flow-Peer", "X_FATE_FLOW_PEER", "x-fate_flow-peer"):
        status, answer = gatewayed.ask("10000", head={"SRC-PARTY-ID": "10001", name: identity})
        assert (status, answer["retcode"]) == (200, 109)
        assert "the connection belongs to party 10000" in str(answer["retmsg"])
        assert gatewayed.ask("10000", head={name: identity})[1]["retcode"] == 0


def test_the_identity_of_a_connection_means_nothing_on_the_port_of_clients(gatewayed: Gatewayed) -> None:
    identity = f"10000 {gatewayed.parties['10000'].peer.key_id}"
    answer = requests.post(
        f"{gatewayed.server.url}{HEARTBEAT}", json={"jobs": []}, timeout=60,
        headers={"SRC-PARTY-ID": "10000", "DEST-PARTY-ID": "9999", "X-Fate-Flow-Peer": identity},
    ).json()
    assert answer["retcode"] == 109
    assert "requires signed requests" in answer["retmsg"]


def test_a_plain_v1_peer_is_let_in_by_its_name_at_its_own_listener(gatewayed: Gatewayed) -> None:
    clients, plain = urlsplit(gatewayed.server.url).port or 0, gatewayed.without_tls("plain")
    assert said(plain, "10004").json()["retcode"] == 0
    assert [said(plain, one).json()["retcode"] for one in ("10000", "10005")] == [109, 109]
    assert said(clients, "10004").json()["retcode"] == 109
    assert said(plain, "10004", "/v1/job/query").status_code == 404


def test_a_stranger_is_not_let_in_and_the_log_says_so(gatewayed: Gatewayed) -> None:
    assert not gatewayed.is_let_in("10002")
    with pytest.raises((OSError, HTTPException)):
        requests.post(f"http://127.0.0.1:{gatewayed.port}{HEARTBEAT}", json={}, timeout=60)
    eventually(lambda: any("refused 127.0.0.1: no TLS connection" in line
                           for line in gatewayed.server.log("fate_flow", "fate_flow_stat.log")), "the line")


def seconds_until_ended(gatewayed: Gatewayed, party_id: str, end: Callable[[], float]) -> float:
    """How long the connections with a party stay open in both directions after its key has stopped counting, by the
    log of the processes that end them. `end` returns that moment."""
    gatewayed.join(party_id)
    eventually(lambda: gatewayed.is_let_in(party_id), "the party to be let in")
    theirs = gatewayed.servers[party_id]
    with closing(gatewayed.connection(party_id)) as connection, closing(gatewayed.connection("10000")) as other:
        for one, its in ((connection, party_id), (other, "10000")):
            assert asked(one, its)[1]["retcode"] == 0

        def is_kept() -> bool:
            """Our server has seen the new key when it has asked the party, and keeps that connection."""
            gatewayed.server.ask("party/list")
            return bool(theirs.clients - set(theirs.ended))

        eventually(is_kept, "a connection that is kept")
        ended = end()
        assert connection.sock.recv(1) == b""           # nothing was sent: the gateway ends it by itself
        eventually(lambda: theirs.clients <= set(theirs.ended), "the end of our own connections")
        assert not gatewayed.is_let_in(party_id)
        assert asked(other, "10000")[1]["retcode"] == 0
    begin = f"the key of party {party_id} is no longer valid: "
    lines = [one for one in gatewayed.server.log("fate_flow", "fate_flow_stat.log") if begin in one]
    assert {one.rpartition(begin)[2] for one in lines} == {
        "its connection is ended", "the connection to its server is ended",
    }  # fmt: skip
    times = [one.partition("] [")[2].partition("]")[0] for one in lines]
    return max(datetime.strptime(one, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp() for one in times) - ended


def test_a_key_that_is_deleted_ends_its_open_connections(gatewayed: Gatewayed) -> None:
    def delete() -> float:
        gatewayed.server.ask("key/public/delete", {"party_id": party_id})
        return time.time()

    for party_id in DELETED:
        if seconds_until_ended(gatewayed, party_id, delete) < 1:
            return
    pytest.fail("connections stay open for more than a second")


def test_a_party_that_is_revoked_has_no_open_connection_a_second_later(gatewayed: Gatewayed) -> None:
    def revoke() -> float:
        reason = "the contract has ended"
        done = WARM.run("fate_flow", "party", "revoke", party_id, "--reason", reason, "-c", str(gatewayed.conf))
        assert done.code == 0, done.err
        [row] = gatewayed.server.rows("SELECT f_state_at FROM t_party_key WHERE f_party_id = ?", party_id)
        return float(row["f_state_at"]) / 1000

    for party_id in REVOKED:
        if seconds_until_ended(gatewayed, party_id, revoke) < 1:
            return
    pytest.fail("connections stay open for more than a second")


def test_clients_are_served_while_a_peer_floods(gatewayed: Gatewayed) -> None:
    slow = []
    try:
        for _ in range(64):
            found = gatewayed.context("10000").wrap_socket(
                socket.create_connection(("127.0.0.1", gatewayed.port), timeout=60)
            )
            found.sendall(
                b"POST /v1/party/batch HTTP/1.1\r\nHost: x\r\nSRC-PARTY-ID: 10000\r\nContent-Length: 100000\r\n\r\nx"
            )
            slow.append(found)
        assert gatewayed.server.ask("version/get") is not None
        assert gatewayed.is_let_in("10001")
    finally:
        for one in slow:
            one.close()


def test_half_requests_at_the_port_of_clients_hold_up_nobody(gatewayed: Gatewayed) -> None:
    check_half_requests(gatewayed, urlsplit(gatewayed.server.url).port or 0)


@pytest.mark.parametrize("listener", ["plain", "behind_proxy"])
def test_half_requests_at_a_listener_without_tls_hold_up_nobody(gatewayed: Gatewayed, listener: str) -> None:
    check_half_requests(gatewayed, gatewayed.without_tls(listener))


def check_half_requests(gatewayed: Gatewayed, port: int) -> None:
    """Clients and parties are answered beside half requests, and each of these has an end."""
    head = b"POST /v1/party/heartbeat HTTP/1.1\r\nHost: localhost\r\n"
    half = []
    try:
        for part in (head, head + b"Content-Length: 100\r\n\r\n{"):
            for _ in range(30):        # together more than the server has threads
                half.append(socket.create_connection(("127.0.0.1", port), timeout=60))
                half[-1].sendall(part)
        assert gatewayed.server.ask("version/get") is not None
        assert gatewayed.is_let_in("10000")
        assert said(gatewayed.without_tls("plain"), "10004").json()["retcode"] == 0
        assert {one.recv(12) for one in half} == {b"HTTP/1.1 408"}
    finally:
        for one in half:
            one.close()


def test_behind_a_proxy_only_signed_requests_of_parties_are_taken(gatewayed: Gatewayed) -> None:
    port = gatewayed.without_tls("behind_proxy")
    assert said(port, "10000", "/v1/job/query").status_code == 404
    for party_id in ("10000", "10004", "10005"):
        answer = said(port, party_id, identity=f"{party_id} {gatewayed.parties['10000'].peer.key_id}").json()
        assert (answer["retcode"], "requires signed requests" in answer["retmsg"]) == (109, True)
    body = b'{"jobs": []}'
    covered = Covered("POST", HEARTBEAT, digest_of(body), "10000", "9999")
    fields = sign(private_key(0), covered, now_ms() // 1000, "n" * 24, asks=True)
    head = {"SRC-PARTY-ID": "10000", "DEST-PARTY-ID": "9999", **fields}
    signed = requests.post(f"http://127.0.0.1:{port}{HEARTBEAT}", data=body, headers=head, timeout=60)
    assert (signed.json()["retcode"], SIGNATURE in signed.headers) == (0, True)


def said(port: int, party_id: str, path: str = HEARTBEAT, identity: str = "plain") -> requests.Response:
    """The answer to an unsigned request without TLS."""
    head = {"SRC-PARTY-ID": party_id, "DEST-PARTY-ID": "9999", "X-Fate-Flow-Peer": identity}
    return requests.post(f"http://127.0.0.1:{port}{path}", json={"jobs": []}, headers=head, timeout=60)


def test_a_party_that_asks_faster_than_its_quota_is_refused_and_others_are_served(gatewayed: Gatewayed) -> None:
    gatewayed.join("10004")
    eventually(lambda: gatewayed.is_let_in("10004"), "the party to be let in")
    request = b"POST /v1/party/heartbeat HTTP/1.1\r\nHost: x\r\nSRC-PARTY-ID: 10004\r\nContent-Length: 2\r\n\r\n{}"
    flood = []
    try:
        context = gatewayed.context("10004")
        for _ in range(40):            # before any request: a busy machine takes a second for each
            sock = socket.create_connection(("127.0.0.1", gatewayed.port), timeout=60)
            flood.append(context.wrap_socket(sock))
        for one in flood:
            one.sendall(request)
        assert gatewayed.is_let_in("10001")
        assert gatewayed.server.ask("version/get") is not None
        refusal = next(answer for one in flood if (answer := one.recv(65536)).startswith(b"HTTP/1.1 429 "))
        assert b"party 10004 sends more requests to party 9999 than it may, at most 1 (quotas.parties.10004." in refusal
    finally:
        for one in flood:
            one.close()
    info = gatewayed.server.ask("server/info", {})
    assert (info["takes_new"], info["free_disk"] > info["least_free_disk"] > 0) == (True, True)


def test_a_gateway_that_is_killed_is_started_again_and_leaves_nothing(gatewayed: Gatewayed) -> None:
    [killed] = gatewayed.processes("gateway")
    connection = gatewayed.connection("10000")
    assert asked(connection, "10000")[1]["retcode"] == 0
    killed.send_signal(signal.SIGKILL)
    assert connection.sock.recv(1) == b""
    assert gatewayed.server.ask("version/get") is not None
    eventually(lambda: gatewayed.is_let_in("10000"), "the party to be let in again")
    [another] = gatewayed.processes("gateway")
    assert another.pid != killed.pid
    connection.close()


def test_the_gateway_reaches_an_application_that_was_started_again(gatewayed: Gatewayed) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        arbiter = min(gatewayed.processes("http"), key=lambda process: process.create_time())
        arbiter.send_signal(number)
        eventually(partial(has_ended, arbiter), "its end")
        eventually(lambda: gatewayed.is_let_in("10000"), "the party to be let in again")


def test_only_the_servers_user_reaches_the_socket_behind_the_gateway(gatewayed: Gatewayed) -> None:
    path = gatewayed.home / "run" / "parties.sock"
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended, also if it goes while it is looked at."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE or not process.is_running()
    except psutil.NoSuchProcess:
        return True


def is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_server_that_stops_leaves_neither_process_nor_socket_and_starts_again(tmp_path: Path) -> None:
    ports = Ports()
    home, conf, port, parties_port = write_conf(tmp_path, ports)
    conf.write_text(yaml.safe_dump({**yaml.safe_load(conf.read_text()), "record": {"switch": True}}))
    OwnKeys("9999", home / "keys", home / "keys" / "message.pem", now_ms).make()
    try:
        for number in (signal.SIGKILL, signal.SIGTERM):
            running = start_server(conf, home)
            with pytest.raises(requests.ConnectionError):
                requests.post(f"http://127.0.0.1:{parties_port}{HEARTBEAT}", json={}, timeout=60)
            assert said(port, "10000").json()["retcode"] == 109
            members = service.server_processes(home)
            assert running.supervisor.send(number)
            eventually(lambda: not any(one.is_alive() for one in members), "the end of all processes")  # noqa: B023
            # A process counts as ended as soon as its first thread has; the others hold its sockets a moment longer.
            eventually(lambda: is_refused(parties_port), "the port to be free")
        server = PartyServer("9999", f"http://127.0.0.1:{port}", home)
        refused = server.rows("SELECT f_content, f_text FROM t_record_entry WHERE f_kind = 'refused'")
        # Those of the server that was stopped; what was killed may have lost its last minute.
        found = {(json.loads(one["f_content"]).get("cause"), one["f_text"]) for one in refused}
        assert found == {("handshake", "127.0.0.1"), (None, "")}
        assert not (home / "run" / "parties.sock").exists()
        assert sorted(path.name for path in (home / "run").iterdir() if path.name.startswith("tmp")) == []
    finally:
        service.kill(home)
        ports.close()


def test_below_the_watermark_of_its_disk_a_server_takes_nothing_new_and_goes_on(tmp_path: Path) -> None:
    ports = Ports()
    home, conf, port, parties_port = write_conf(tmp_path, ports)
    conf.write_text(yaml.safe_dump({        # who was granted nothing is told nothing of the disk
        **yaml.safe_load(conf.read_text()), "limits": {"least_free_disk": 2**60}, "permission": {"switch": False},
    }))
    OwnKeys("9999", home / "keys", home / "keys" / "message.pem", now_ms).make()
    try:
        start_server(conf, home)
        server = PartyServer("9999", f"http://127.0.0.1:{port}", home)
        full = Gatewayed(home, conf, parties_port, server, {"10000": tls_party("10000", clock=now_ms)}, {})
        full.join("10000")
        eventually(lambda: full.is_let_in("10000"), "the party to be let in")
        job_id = new_job_id()
        body = create_body(job_id, reader("10000", "any", {"host": ["9999"]}))
        _, said = full.ask("10000", f"/v1/party/{job_id}/host/9999/create", body=body)
        assert said["retcode"] == 507
        assert "takes nothing new now: its disk is nearly full" in str(said["retmsg"])
        assert not re.search(r"\d+ (bytes|MiB)", str(said["retmsg"])), "another party learns no sizes"
        refused = server.submit(reader("9999", "any", {}))
        assert (refused["retcode"], "MiB have to stay free" in refused["retmsg"]) == (507, True), refused
        assert server.rows("SELECT f_job_id FROM t_job") == []
        assert full.is_let_in("10000")
        assert server.ask("server/info", {})["takes_new"] is False
    finally:
        service.kill(home)
        ports.close()


@pytest.mark.heavy
def test_a_server_without_keys_for_its_gateway_says_what_to_do(tmp_path: Path) -> None:
    ports = Ports()
    _, conf, _, _ = write_conf(tmp_path, ports)
    written = yaml.safe_load(conf.read_text())
    conf.write_text(yaml.safe_dump({
        **written, "parties": {"listen": written["parties"]["listen"]}, "authentication": {"client": {"switch": False}},
    }))
    done = subprocess.run(
        [Path(sys.executable).with_name("fate_flow"), "serve", "-c", conf], capture_output=True, text=True, timeout=120,
        check=False,
    )
    ports.close()
    assert done.returncode == 1
    assert "parties.listen: " in done.stderr
    assert "there is no private key of this party: fate_flow key make -c CONF" in done.stderr
    assert "Traceback" not in done.stderr
