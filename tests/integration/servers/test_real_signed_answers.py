"""Two servers that require signed answers of each other, with a proxy between them that ends the TLS and reads all
messages: what it leaves as it is counts, and nothing else does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fate_flow.cli.connection.signature import Signature
from fate_flow.cli.server.cluster_plan import Ports
from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import MESSAGE, key_id_of, read_key_list
from fate_flow.core.wire.v1.paths import INTAKE
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.signature import digest_of
from fate_flow.peers.site_key import load_private_key
from tests.kit.servers.changing_proxy import ChangingProxy, Replied, Sent
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, running_cluster, toy
from tests.kit.servers.programs import PYTHON, printed, python
from tests.kit.tls import Authority
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

PARTIES = (GUEST, HOST)
AUTHENTICATION = {
    "client": {"switch": True, "http_app_key": "our-clients", "http_secret_key": "secret-of-all"},
    "site": {"switch": True},
}


@dataclass
class Between:
    """Both servers, and the proxy in front of each."""

    cluster: Cluster
    proxies: Mapping[str, ChangingProxy]

    def seen(self) -> str:
        """What the guest says of the host, which it asks through the proxy."""
        [found] = self.cluster.guest.ask("party/list", {})["parties"]
        return f"{found['status']}: {found['message']}"


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Between]:
    folder = tmp_path_factory.mktemp("servers")
    root, authority = folder / "behind proxies", Authority(folder)
    proxies = {party_id: ChangingProxy(authority.server_context()) for party_id in PARTIES}
    keys = {party_id: own_keys(root / party_id / "keys", party_id) for party_id in PARTIES}
    overlays: dict[str, dict[str, Any]] = {}
    ports = Ports()
    free = filter(ports.is_free, range(26000 + os.getpid() % 400 * 5, 65536))
    behind = {party_id: next(free) for party_id in PARTIES}
    for party_id, other in (PARTIES, PARTIES[::-1]):
        keys[party_id].make()
        overlays[party_id] = {
            "authentication": AUTHENTICATION, "parties": {"behind_proxy": {"port": behind[party_id]}},
            "permission": {"switch": False}, "commands": {"enabled": True, "allow": [PYTHON], "share_logs": True},
            "routes": {other: {"url": proxies[other].url, "ca": str(authority.file), "signed_answers": True}},
        }
    try:
        with running_cluster(root, PARTIES, base_port=BASE_PORT + 170, overlays=overlays) as cluster:
            for party_id, other in (PARTIES, PARTIES[::-1]):
                party, text = cluster.parties[party_id], keys[other].signed_list().text()
                party._session.auth = Signature("our-clients", "secret-of-all")
                proxies[party_id].target = behind[party_id]
                body = {"party_id": other, "key": text, "fingerprint": fingerprint_of(keys[other].root().key_id)}
                assert party.post("key/public/save", body)["data"] == "save success"
            found = Between(cluster, proxies)
            eventually(lambda: found.seen() == "answers: ", found.seen)
            yield found
    finally:
        for proxy in proxies.values():
            proxy.close()
        ports.close()


def own_keys(folder: Path, party_id: str) -> OwnKeys:
    return OwnKeys(party_id, folder, folder / "message.pem", lambda: time.time_ns() // 1_000_000)


def test_a_job_runs_through_a_proxy_that_changes_nothing(between: Between) -> None:
    job_id = between.cluster.run(toy())
    assert between.cluster.guest.metrics(job_id, "toy_0")
    for party_id, proxy in between.proxies.items():
        tasks = [one for one in proxy.passed if job_id in one.to.target or job_id.encode() in one.to.body]
        assert tasks
        for one in tasks:
            assert 'tag="fate_flow-request"' in one.to.head["signature-input"]
            assert 'tag="fate_flow-answer"' in one.head["signature-input"], one
            assert one.head["src-party-id"] == party_id
    assert any("/exchange/deliver/" in one.to.target for proxy in between.proxies.values() for one in proxy.passed)
    between.cluster.check_idle()


LISTENS = """
import os, socket
host, _, port = os.environ["FATE_FLOW_LISTEN_FL"].partition(":")
sock, _ = socket.create_server((host, int(port))).accept()
count = 0
while data := sock.recv(65536):
    count += len(data)
sock.sendall(str(count).encode())
sock.close()
"""
CONNECTS = """
import os, socket
host, _, port = os.environ["FATE_FLOW_PORT_FL"].partition(":")
with socket.create_connection((host, int(port))) as sock:
    sock.sendall(bytes(1_000_000))
    sock.shutdown(socket.SHUT_WR)
    print("arrived:", sock.recv(100).decode())
"""


def test_streams_pass_a_proxy_if_it_upgrades_connections(between: Between) -> None:
    document = {
        "version": 1, "initiator": f"guest {GUEST}", "parties": {"guest": [GUEST], "host": [HOST]},
        "tasks": {"train": {
            "component": "Command", "ports": {"fl": {"listen": ["guest"], "connect": ["host"]}},
            "at": {"guest": {"parameters": {"command": python(LISTENS)}},
                   "host": {"parameters": {"command": python(CONNECTS)}}},
        }},
    }  # fmt: skip
    guest, body = between.cluster.guest, {"job_file": yaml.safe_dump(document)}
    why = (f"host {HOST}: port fl of train: host {HOST} does not reach guest {GUEST}: the request to upgrade the "
           "connection has not arrived: a proxy in between has removed it")
    for path in ("job/validate", "job/submit"):
        assert why in str(guest.post(path, body)["retmsg"])
    between.proxies[GUEST].upgrades = True
    assert guest.post("job/validate", body)["retcode"] == 0
    job_id = between.cluster.submit(body)
    between.cluster.wait(job_id, "success")
    assert "arrived: 1000000" in printed(between.cluster.parties[HOST], job_id)
    between.cluster.check_idle()


def with_head(message: Any, **changed: str) -> Any:
    """The message with other headers; an empty value removes one."""
    head = message.head | {name.replace("_", "-"): value for name, value in changed.items()}
    return replace(message, head={name: value for name, value in head.items() if value})


UNSIGNED = "its answer is not signed, as routes.10000.signed_answers requires (HTTP status "
OTHER = "signature: does not match its answer to this request"
FORGED = b'{"retcode": 0, "retmsg": "success", "data": {}}'

OF_REQUESTS: dict[str, tuple[Callable[[Sent], Sent], str]] = {
    "method": (lambda sent: replace(sent, method="PUT"), f"{UNSIGNED}404"),
    "path": (
        lambda sent: replace(sent, target="/v1/party/heartbeat"), f"{UNSIGNED}200, says: signature: does not match"),
    "query": (lambda sent: replace(sent, target=f"{sent.target}?a=1"), "says: signature: does not match this request"),
    "body": (lambda sent: replace(sent, body=b"{}"), "says: Content-Digest: is not the digest of the body"),
    "no signature": (
        lambda sent: with_head(sent, signature="", signature_input=""), "says: party 10000 requires signed requests"),
    "downgrade to requests alone": (
        lambda sent: with_head(sent, signature_input=sent.head["signature-input"].replace("-request", "")),
        "says: party 10000 requires signed requests"),
}  # fmt: skip
OF_ANSWERS: dict[str, tuple[Callable[[Replied], Replied], str]] = {
    "status": (lambda replied: replace(replied, status=201), OTHER),
    "body": (lambda replied: replace(replied, body=FORGED), "Content-Digest: is not that of its answer"),
    "body and digest": (
        lambda replied: with_head(replace(replied, body=FORGED), content_digest=digest_of(FORGED)), OTHER),
    "party": (lambda replied: with_head(replied, src_party_id=GUEST), OTHER),
    "no signature": (
        lambda replied: with_head(replied, signature="", signature_input=""), f"{UNSIGNED}200, says: success"),
    "its own answer": (lambda replied: Replied(200, {}, FORGED, replied.to), f"{UNSIGNED}200, says: success"),
    "its own error": (lambda replied: Replied(502, {}, b"Bad Gateway", replied.to), f"{UNSIGNED}502, says: Bad Ga"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "why"), OF_REQUESTS.values(), ids=list(OF_REQUESTS))
def test_a_changed_request_is_refused_and_its_answer_does_not_count(
    between: Between, change: Callable[[Sent], Sent], why: str
) -> None:
    proxy = between.proxies[HOST]
    proxy.change_request = lambda sent: change(sent) if sent.target.endswith(INTAKE) else sent
    try:
        assert between.seen().startswith("does not answer: ")
        eventually(lambda: why in between.seen(), between.seen)      # and not that it has not answered in time
    finally:
        proxy.leave_as_it_is()
    eventually(lambda: between.seen() == "answers: ", between.seen)


@pytest.mark.parametrize(("change", "why"), OF_ANSWERS.values(), ids=list(OF_ANSWERS))
def test_a_changed_answer_does_not_count(
    between: Between, change: Callable[[Replied], Replied], why: str
) -> None:
    proxy = between.proxies[HOST]
    proxy.change_answer = lambda replied: change(replied) if replied.to.target.endswith(INTAKE) else replied
    try:
        eventually(lambda: why in between.seen(), between.seen)
    finally:
        proxy.leave_as_it_is()
    eventually(lambda: between.seen() == "answers: ", between.seen)


def test_an_answer_counts_for_its_own_request_alone(between: Between) -> None:
    proxy = between.proxies[HOST]
    eventually(lambda: between.seen() == "answers: ", between.seen)
    earlier = next(one for one in reversed(proxy.passed) if one.to.target.endswith(INTAKE))
    proxy.change_answer = lambda replied: earlier if replied.to.target.endswith(INTAKE) else replied
    try:
        eventually(lambda: OTHER in between.seen(), between.seen)
    finally:
        proxy.leave_as_it_is()


def test_what_the_proxy_sends_again_is_refused(between: Between) -> None:
    """And the refusal of the second does not count as one of the first."""
    proxy = between.proxies[HOST]
    proxy.sends_twice = True
    try:
        said = f"{UNSIGNED}200, says: nonce: a request with this nonce was already accepted)"
        eventually(lambda: said in between.seen(), between.seen)
    finally:
        proxy.leave_as_it_is()
    eventually(lambda: between.seen() == "answers: ", between.seen)


def test_an_announced_message_key_takes_over_without_a_restart(between: Between) -> None:
    keys = own_keys(between.cluster.parties[HOST].home / "keys", HOST)
    present = load_private_key(keys.message_file).public.key_id

    def signed_with() -> str:
        """The id of the key that has signed the newest answer of the host; the answer counted."""
        if between.seen() != "answers: ":
            return ""
        found = next(one for one in reversed(between.proxies[HOST].passed) if one.to.target.endswith(INTAKE))
        return found.head["signature-input"].partition('keyid="')[2][:64]

    eventually(lambda: signed_with() == present, signed_with)
    key_list = read_key_list(keys.announce(MESSAGE, 1000).content)
    body = {"party_id": HOST, "key": keys.signed_list().text()}
    assert between.cluster.guest.post("key/public/save", body)["data"] == "update success"
    following = key_id_of(key_list.valid(MESSAGE, 0)[1])
    eventually(lambda: signed_with() == following, signed_with)
    between.cluster.run(toy())          # also the requests of the host are signed with it
    between.cluster.check_idle()


def test_a_command_counts_only_with_a_signed_answer(between: Between) -> None:
    """A proxy that accepts a job in the name of the host is not believed; without it the job runs."""
    proxy = between.proxies[HOST]
    proxy.change_answer = lambda replied: Replied(200, {"src-party-id": HOST}, FORGED, replied.to)
    try:
        refused = between.cluster.guest.submit(toy())
        assert refused["retcode"] != 0
        assert UNSIGNED in refused["retmsg"]
    finally:
        proxy.leave_as_it_is()
    job_id = eventually(lambda: between.cluster.guest.submit(toy()).get("jobId"), "the host to be asked again")
    between.cluster.wait(job_id, "success")
    between.cluster.check_idle()
