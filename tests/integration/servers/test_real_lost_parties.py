"""Parties that are gone, or that think so of each other: what becomes of the job at those that are left."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import yaml

from fate_flow.cli.connection.client import Client
from fate_flow.cli.connection.settings_file import find_server
from fate_flow.cli.output.progress import PlainScreen
from fate_flow.cli.output.watch import JobView, watch
from fate_flow.cli.server import service
from fate_flow.settings.client_keys import read_client_keys
from tests.kit.servers.lending import PARTIES, Servers, a_root
from tests.kit.servers.party_servers import (
    BASE_PORT,
    GUEST,
    HOST,
    OTHER,
    Cluster,
    PartyServer,
    job_of,
    running_cluster,
)
from tests.kit.site_keys import write_private_key
from tests.kit.waiting import eventually
from tests.kit.web.signed_in import signed_in

pytestmark = pytest.mark.timeout(900)

LIMITS = {
    "poll_interval": 0.3, "heartbeat_interval": 0.3, "party_silence": 10, "initiator_silence": 30, "drain_timeout": 1,
    "retry_wait": 0.3, "remote_request_timeout": 120, "idle_heartbeat_interval": 2,
}  # fmt: skip
PATIENT = {**LIMITS, "party_silence": 100, "initiator_silence": 120}
NOT_HERE = f"this server is party 7777, not {HOST}"
CUT_OFF = f"host {HOST} cannot reach guest {GUEST} ("


@pytest.fixture(scope="module")
def impatient_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Three parties that give each other up soon, but not for the pauses of a busy machine, and would wait for
    an answer for two minutes."""
    overlay: dict[str, Any] = {"limits": LIMITS, "commands": {"enabled": True, "allow": ["/bin/sh"]}}
    overlays = dict.fromkeys(PARTIES, overlay)

    def start() -> AbstractContextManager[Cluster]:
        return running_cluster(a_root(tmp_path_factory), PARTIES, base_port=BASE_PORT + 110, overlays=overlays)

    with Servers(start) as servers:
        yield servers


@pytest.fixture
def servers(impatient_servers: Servers, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with impatient_servers.lent(request.node.nodeid) as cluster:
        yield cluster


def waiting_for(path: object, *hosts: str, **parameters: Any) -> dict[str, Any]:
    """A program at each party that runs until a file is there."""
    wait = f"until test -e '{path}'; do sleep 0.1; done"
    return job_of(
        {"wait": {"module": "Command"}}, {"guest": [GUEST], "host": list(hosts)}, common={"wait": {"command": wait}},
        parameters=parameters,
    )


def seat_of(cluster: Cluster, job_id: str, party_id: str) -> dict[str, Any]:
    [seat] = cluster.guest.rows("SELECT * FROM t_seat WHERE f_job_id = ? AND f_party_id = ?", job_id, party_id)
    return seat


def listed(party: PartyServer, other: str) -> dict[str, Any]:
    """A line of `flow party list`."""
    [found] = [one for one in party.ask("party/list")["parties"] if one["party_id"] == other]
    assert isinstance(found, dict)
    return found


def tries(cluster: Cluster, party_id: str) -> int:
    """How often the initiator has asked a party that does not answer."""
    return int(listed(cluster.guest, party_id).get("failures", 0))


@dataclass(frozen=True)
class Overview:
    """The overview of a server's board, in one session."""

    url: str
    cookies: dict[str, str]

    def partner(self, party_id: str) -> str:
        """The row of a partner, as text."""
        page = requests.get(f"{self.url}/board/", cookies=self.cookies, timeout=60).text
        row = page.partition(f'<tr id="partner-{party_id}">')[2].partition("</tr>")[0]
        return " ".join(re.sub(r"<[^>]*>", " ", row).split())

    def is_known(self, party_id: str) -> bool:
        """Whether both directions of the connection to a partner are known, and good."""
        return re.search("good answers within .* good reaches this party within", self.partner(party_id)) is not None


def overview_of(server: PartyServer) -> Overview:
    key = read_client_keys(server.home)
    assert key is not None, "a cluster makes keys for its clients"
    return Overview(server.url, signed_in(server.url, key))


def problems(cluster: Cluster) -> list[str]:
    """The lines of the guest's metrics that say what is wrong with partners."""
    return [line for line in cluster.guest.raw("GET", "metrics", api="..").text.splitlines()
            if line.startswith("fate_flow_peer_problem{")]  # fmt: skip


def test_partners_that_no_job_binds_are_asked_all_the_time(servers: Cluster) -> None:
    guest = servers.guest
    board = overview_of(guest)
    for party_id in (HOST, OTHER):
        eventually(lambda party_id=party_id: board.is_known(party_id), "that a partner is known without a job")
    assert problems(servers) == []
    counted = guest.rows("SELECT f_party_id, f_heard FROM t_peer WHERE f_heard > 0")
    assert {one["f_party_id"] for one in counted} == {HOST, OTHER}, "each of them asks, too"
    servers.kill(OTHER)
    eventually(lambda: "refused does not answer for" in board.partner(OTHER), "that it is said to be away")
    assert board.is_known(HOST)
    [line] = problems(servers)
    assert line == f'fate_flow_peer_problem{{direction="to",peer="{OTHER}",problem="refused"}} 1.0'
    assert (listed(guest, OTHER)["problem"], listed(guest, HOST)["problem"]) == ("refused", "")
    printed = guest.flow("top").out
    assert f"party {OTHER}: does not answer (refused): connection refused" in printed
    servers.start(OTHER)
    eventually(lambda: board.is_known(OTHER), "that it is back")
    assert problems(servers) == []
    assert guest.rows("SELECT f_job_id FROM t_job WHERE f_status = 'running'") == []


@pytest.mark.heavy
def test_a_job_that_can_do_without_a_host_goes_on_however_long_that_stays_dead(servers: Cluster) -> None:
    cluster, go_on = servers, servers.root / "go on"
    job_id = cluster.submit(waiting_for(go_on, HOST, OTHER, min_available={"host": 1}))
    for party_id in PARTIES:
        cluster.parties[party_id].worker_of(job_id, "wait")
    cluster.kill(OTHER)
    eventually(lambda: seat_of(cluster, job_id, OTHER)["f_status"] == "stopping", "that it is given up")
    failures = tries(cluster, OTHER)
    eventually(lambda: tries(cluster, OTHER) >= failures + 2, "that it stays silent")
    assert cluster.guest.job(job_id)["f_status"] == "running"
    go_on.touch()
    for party in (cluster.guest, cluster.host):
        row = party.wait(job_id, "success")
        assert (row["f_partial"], row["f_missing_parties"]) == (1, f'["host {OTHER}"]')
    assert cluster.guest.job(job_id)["f_unconfirmed_parties"] == f'["host {OTHER}"]'
    cluster.start(OTHER)
    cluster.parties[OTHER].wait(job_id)
    cluster.check_idle()


def test_a_party_that_cannot_reach_who_asks_says_so_and_takes_no_job_of_it(servers: Cluster) -> None:
    """Asked in the name of a party whose server is dead: as when a firewall lets requests through one way alone."""
    document, host = waiting_for(servers.root / "never", HOST), servers.host
    document["job_runtime_conf"] |= {
        "initiator": {"role": "guest", "party_id": int(OTHER)}, "role": {"guest": [int(OTHER)], "host": [int(HOST)]},
    }
    body = {"dsl": document["job_dsl"], "runtime_conf": document["job_runtime_conf"], "call_back": True}
    servers.kill(OTHER)

    def error() -> str | None:
        way_back = host.from_party(OTHER, "party/intake", {"call_back": True})["data"]["way_back"]
        return None if way_back is None else str(way_back["error"])

    eventually(lambda: error() == "connection refused", "that it is noticed: a good answer holds for a while")
    said = host.from_party(OTHER, f"party/2026112212000000000000001/host/{HOST}/create", body)
    assert (said["retcode"], said["retmsg"]) == (103, f"cannot reach party {OTHER}: connection refused")
    servers.start(OTHER)
    eventually(lambda: error() is None, "that it is back: it has three seconds to answer")


@contextmanager
def configured(party: PartyServer, **sections: Any) -> Iterator[None]:
    """A server that is started meanwhile has other sections in its configuration."""
    file = party.home / "conf" / "local.service_conf.yaml"
    before = file.read_text(encoding="utf-8")
    file.write_text(yaml.safe_dump({**yaml.safe_load(before), **sections}), encoding="utf-8")
    yield
    file.write_text(before, encoding="utf-8")


class UntilItIsCutOff(PlainScreen):
    """What `flow job watch` prints. Once it says that the host is cut off, that has been so for too long."""

    def __init__(self, guest: PartyServer) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._guest = guest

    def show(self, view: JobView) -> None:
        super().show(view)
        if CUT_OFF in view.waits_for:
            self._guest.write("UPDATE t_peer SET f_cut_off_since = 1 WHERE f_cut_off_since > 0")

    def tell(self, text: str) -> None:
        self.lines.append(text)


def test_a_host_that_does_not_sign_yet_as_its_initiator_requires_is_cut_off(servers: Cluster) -> None:
    """Signatures are switched on at one side first, while a job runs."""
    guest, document = servers.guest, waiting_for(servers.root / "never", HOST)
    job_id = servers.submit(document)
    for party in (guest, servers.host):
        party.worker_of(job_id, "wait")
    for number, other in enumerate((HOST, OTHER), 2):
        key = write_private_key(guest.home / f"{other}.pem", number)
        assert guest.post("key/public/save", {"party_id": other, "key": key.public.pem})["retcode"] == 0
    write_private_key(guest.home / "keys" / "site.pem", 1)
    servers.kill(GUEST)
    guest.write("UPDATE t_scheduler SET f_steady = f_steady + 200000")       # it runs for longer than it is patient
    with configured(guest, authentication={"site": {"switch": True}}, limits=PATIENT):
        servers.start(GUEST)
        eventually(lambda: CUT_OFF in guest.ask("job/explain", {"job_id": job_id})["wait_reason"], "that it is noticed")
        [row] = guest.ask("job/list/job", {"job_id": job_id})["jobs"]
        assert CUT_OFF in row["wait_reason"]
        why = f"cannot reach party {GUEST}: not authenticated: party {GUEST} requires signed requests"
        seen = listed(guest, HOST)
        assert (seen["status"], why in seen["message"]) == ("cannot reach this party", True)
        for ask in ("job/validate", "job/submit"):
            refused = guest.post(ask, document)
            assert (refused["retcode"], f"host {HOST}: {why}" in refused["retmsg"]) == (103, True), refused
        toy = guest.flow("test", "toy", "-gid", GUEST, "-hid", HOST, code=1)
        assert f"host {HOST}: {why}" in toy.document["retmsg"]
        screen = UntilItIsCutOff(guest)
        assert watch(Client(lambda: find_server(guest.url)), job_id, screen).status == "failed"
        assert any(f": running: {CUT_OFF}" in line for line in screen.lines)
        row = guest.wait(job_id, "failed")
        assert (row["f_reason"], row["f_caused_by"]) == ("party_unreachable", f"host {HOST}")
        assert CUT_OFF in row["f_message"]
        servers.host.wait(job_id, "failed")
        servers.kill(GUEST)
    servers.start(GUEST)
    for other in (HOST, OTHER):
        guest.ask("key/public/delete", {"party_id": other})


@contextmanager
def somebody_else_at(party: PartyServer, says_who: str = "") -> Iterator[None]:
    """Another party's server answers at the address of one that is dead."""
    address = urlsplit(party.url)
    said = json.dumps({"retcode": 101, "retmsg": f"party_id: this server is party 7777, not {party.party_id}"}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            if says_who:
                self.send_header("SRC-PARTY-ID", says_who)
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None: ...

    def listening() -> ThreadingHTTPServer | None:
        """The dead server's threads may still end: until then its sockets are open."""
        with suppress(OSError):
            return ThreadingHTTPServer((str(address.hostname), int(address.port or 0)), Handler)
        return None

    server = eventually(listening, f"{party.url} to be free")
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.heavy
def test_a_party_at_whose_address_another_one_answers_is_lost(servers: Cluster) -> None:
    job_id = servers.submit(waiting_for(servers.root / "never", HOST))
    for party in (servers.guest, servers.host):
        party.worker_of(job_id, "wait")
    servers.kill(HOST)
    with somebody_else_at(servers.host):
        row = servers.guest.wait(job_id, "failed")
        assert (row["f_reason"], row["f_caused_by"]) == ("party_unreachable", f"host {HOST}")
        seen = listed(servers.guest, HOST)
        assert (seen["status"], NOT_HERE in seen["message"]) == ("does not answer", True)
    servers.start(HOST)
    servers.host.wait(job_id, "failed")


@pytest.mark.heavy
@pytest.mark.parametrize("says_who", ["7777", ""])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "after a restart of the initiator"])
def test_a_job_waits_while_another_party_answers_at_the_address_of_one(
    servers: Cluster, says_who: str, is_restarted: bool
) -> None:
    done = servers.root / "done"
    done.touch()
    servers.guest.ask("queue/hold", {"message": "one moment"})
    job_id = servers.submit(waiting_for(done, HOST))
    servers.kill(HOST)
    if is_restarted:
        servers.kill(GUEST)
        servers.start(GUEST)
    with somebody_else_at(servers.host, says_who):
        servers.guest.ask("queue/release", {})
        whose = f"another server, that of party {says_who}, answers at {servers.host.url}" if says_who else NOT_HERE
        said = eventually(
            lambda: explained if whose in (explained := waits_with(servers.guest, job_id)) else "",
            lambda: waits_with(servers.guest, job_id),
        )
        assert said.startswith(f"host {HOST} does not answer: ")
    servers.start(HOST)
    servers.wait(job_id, "success")
    done.unlink()


def waits_with(party: PartyServer, job_id: str) -> str:
    """What `flow job explain` says that a waiting job waits for."""
    found = party.ask("job/explain", {"job_id": job_id})
    assert found["status"] == "waiting", found
    return str(found["wait_reason"])


@contextmanager
def standing_still(party: PartyServer) -> Iterator[None]:
    """SIGSTOP of the whole server, not of its workers."""
    running = service.find(party.home)
    assert running is not None
    group = os.getpgid(running.pid)
    assert group != os.getpgrp()
    os.killpg(group, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(group, signal.SIGCONT)


@pytest.mark.heavy
def test_an_initiator_that_stood_still_for_too_long_is_the_cause_at_all_parties(servers: Cluster) -> None:
    job_id = servers.submit(waiting_for(servers.root / "never", HOST, OTHER))
    for party_id in PARTIES:
        servers.parties[party_id].worker_of(job_id, "wait")
    with standing_still(servers.guest):
        for party_id in (HOST, OTHER):
            servers.parties[party_id].wait(job_id, "failed")
    for row in servers.wait(job_id, "failed").values():
        assert (row["f_reason"], row["f_caused_by"]) == ("initiator_lost", f"guest {GUEST}")
    said = servers.guest.ask("job/explain", {"job_id": job_id})
    assert said["caused_by"] == f"guest {GUEST}"


@pytest.mark.heavy
def test_an_initiator_gives_a_host_up_that_stands_still_before_its_request_would_fail(servers: Cluster) -> None:
    """And not the other host first, which hears of nobody while the sender waits."""
    job_id = servers.submit(waiting_for(servers.root / "never", HOST, OTHER))
    for party_id in PARTIES:
        servers.parties[party_id].worker_of(job_id, "wait")
    with standing_still(servers.host):
        for party_id in (GUEST, OTHER):
            row = servers.parties[party_id].wait(job_id, "failed", seconds=LIMITS["remote_request_timeout"] / 2)
            assert (row["f_reason"], row["f_caused_by"]) == ("party_unreachable", f"host {HOST}")
    servers.host.wait(job_id, "failed")
