"""Streams between the workers of a task at three real servers that know each other by their keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import yaml

from tests.kit.servers.lending import PARTIES
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, OTHER, Cluster, PartyServer, running_cluster
from tests.kit.servers.programs import PYTHON, printed, python
from tests.kit.servers.warm import WARM
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

RULES = {"enabled": True, "allow": [PYTHON], "share_logs": True}
SIZE = 3_000_000

LISTENS = f"""
import hashlib, os, socket
host, port = os.environ["FATE_FLOW_LISTEN_FL"].split(":")
listener = socket.create_server((host, int(port)))
for _ in range(2):
    sock, _ = listener.accept()
    digest, size = hashlib.sha256(), 0
    while data := sock.recv(65536):
        digest.update(data)
        size += len(data)
    assert size == {SIZE}, size
    sock.sendall(digest.hexdigest().encode())
    sock.close()
"""
"""Reads a stream of each host to its end, and answers with the digest of what it read."""

CONNECTS = f"""
import hashlib, os, socket

def place(name):
    host, _, port = os.environ[name].partition(":")
    assert host.startswith("127."), host
    return host, int(port)

def all_of(sock):
    found = b""
    while data := sock.recv(65536):
        found += data
    return found

sent = os.urandom({SIZE})
with socket.create_connection(place("FATE_FLOW_PORT_FL")) as sock:
    sock.sendall(sent)
    sock.shutdown(socket.SHUT_WR)
    assert all_of(sock) == hashlib.sha256(sent).hexdigest().encode()
print("the guest has all")
if os.environ["FATE_FLOW_PARTY_ID"] == "{HOST}":
    sock, _ = socket.create_server(place("FATE_FLOW_LISTEN_MESH")).accept()
    print("from the other host:", all_of(sock).decode())
else:
    with socket.create_connection(place("FATE_FLOW_PORT_MESH_HOST_{HOST}")) as sock:
        sock.sendall(b"hello")
"""
"""Sends a stream to the guest; one host sends one to the other, too."""

PORTS = {
    "fl": {"listen": ["guest"], "connect": ["host"]},
    "mesh": {"listen": [f"host {HOST}"], "connect": [f"host {OTHER}"]},
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("servers") / "with streams"
    shared = {"commands": RULES, "record": {"switch": True}}
    overlays: dict[str, dict[str, Any]] = {party_id: dict(shared) for party_id in PARTIES}
    overlays[HOST]["permission"] = {"switch": True, "component": True}
    with running_cluster(root, PARTIES, base_port=BASE_PORT + 120, overlays=overlays, over_tls=True) as cluster:
        grant(cluster, {"in": ["Command"], "out": ["Command"]})
        yield cluster


def grant(cluster: Cluster, streams: Mapping[str, list[str]]) -> None:
    """Let the guest's jobs have these streams at the host, and no others."""
    host = cluster.parties[HOST]
    file, conf = host.home / "grants.yaml", json.loads((host.home / "run/server.json").read_text())["conf"]
    granted = {"version": 1, "parties": {int(GUEST): {"components": ["*"], "streams": dict(streams)}}}
    file.write_text(yaml.safe_dump(granted), encoding="utf-8")
    done = WARM.run("fate_flow", "grants", "apply", "-f", str(file), "-c", conf)
    assert done.code == 0, done.out + done.err


@pytest.fixture(autouse=True)
def idle_afterwards(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.check_idle()
    folders = [one.home / "run/streams" for one in cluster.parties.values()]
    eventually(lambda: not any(list(one.iterdir()) for one in folders), "every stream to be counted")


def job(guest: str, host: str, ports: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "version": 1, "initiator": f"guest {GUEST}", "parties": {"guest": [GUEST], "host": [HOST, OTHER]},
        "resources": {"cores": 1},
        "tasks": {"train": {
            "component": "Command", "ports": ports or PORTS, "at": {
                "guest": {"parameters": {"command": python(guest)}}, "host": {"parameters": {"command": python(host)}},
            }, **more,
        }},
    }  # fmt: skip


def submitted(cluster: Cluster, folder: Path, document: Mapping[str, Any]) -> str:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return eventually(lambda: accepted(cluster, path), "all parties to reach each other")


def accepted(cluster: Cluster, path: Path) -> str:
    answer = cluster.guest.post("job/submit", {"job_file": path.read_text(encoding="utf-8")})
    return str(answer["jobId"]) if answer["retcode"] == 0 else ""


def test_workers_of_three_parties_reach_each_other(cluster: Cluster, tmp_path: Path) -> None:
    job_id = submitted(cluster, tmp_path, job(LISTENS, CONNECTS))
    followed = cluster.guest.flow("job", "log", "-j", job_id, "-f")
    cluster.wait(job_id, "success")
    assert {
        f"train host-{HOST} | the guest has all", f"train host-{HOST} | from the other host: hello",
        f"train host-{OTHER} | the guest has all",
    } <= set(followed.out.splitlines()), "all parties share what their workers print"
    assert followed.err.splitlines()[-1] == f"job {job_id}: success"
    assert "from the other host: hello" in json.dumps(printed(cluster.parties[HOST], job_id))
    digest = 64
    expected = {
        GUEST: {
            f"port fl with host {HOST}: 1 stream, {digest} bytes sent, {SIZE} received",
            f"port fl with host {OTHER}: 1 stream, {digest} bytes sent, {SIZE} received",
        },
        HOST: {
            f"port fl with guest {GUEST}: 1 stream, {SIZE} bytes sent, {digest} received",
            f"port mesh with host {OTHER}: 1 stream, 0 bytes sent, 5 received",
        },
        OTHER: {
            f"port fl with guest {GUEST}: 1 stream, {SIZE} bytes sent, {digest} received",
            f"port mesh with host {HOST}: 1 stream, 5 bytes sent, 0 received",
        },
    }

    def found() -> dict[str, set[str]]:
        return {party_id: counts(cluster, party_id, job_id) for party_id in PARTIES}

    eventually(lambda: found() == expected, lambda: f"the counts, not {found()}")
    at_guest, at_host, at_other = (recorded(cluster, party_id, job_id) for party_id in (GUEST, HOST, OTHER))
    for host_id, at in ((HOST, at_host), (OTHER, at_other)):
        for here, there in (("received", "sent"), ("sent", "received")):
            [one] = at_guest["fl", f"host {host_id}", here]
            assert [one] == at["fl", f"guest {GUEST}", there]
            assert one["bytes"] == (SIZE if here == "received" else digest)
    hello = [{"bytes": 5, "sha256": sha256(b"hello").hexdigest()}]
    assert at_host["mesh", f"host {OTHER}", "received"] == at_other["mesh", f"host {HOST}", "sent"] == hello


def recorded(cluster: Cluster, party_id: str, job_id: str) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """By port, other seat and direction, what the record of a party says of each stream."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in cluster.parties[party_id].rows(
        "SELECT f_content, f_text FROM t_record_entry WHERE f_kind = 'exchange' AND f_job_id = ?", job_id
    ):
        entry = json.loads(row["f_content"])
        if "port" in entry:
            found.setdefault((entry["port"], entry["other"], entry["direction"]), []).extend(
                json.loads(row["f_text"])["listed"]
            )
    return found


def counts(cluster: Cluster, party_id: str, job_id: str) -> set[str]:
    """What this party's history says of the streams, without how long they were open."""
    statement = "SELECT f_message AS text FROM t_history WHERE f_job_id = ? AND f_level = 'stream'"
    return {str(row["text"]).rpartition(",")[0] for row in cluster.parties[party_id].rows(statement, job_id)}


HOLDS = """
import contextlib, os, socket
host, port = os.environ["FATE_FLOW_LISTEN_FL"].split(":")
listener = socket.create_server((host, int(port)))
kept = []
while True:
    kept.append(listener.accept()[0])
    with contextlib.suppress(OSError):
        kept[-1].sendall(b"here")
"""
"""Keeps all connections. Its gateway may be killed right after it has connected: such a connection is reset already."""

COMES_BACK = """
import os, socket, time

def connected():
    while True:
        try:
            sock = socket.create_connection((host, int(port)))
            if sock.recv(4) == b"here":
                return sock
        except OSError:
            time.sleep(0.05)

host, port = os.environ["FATE_FLOW_PORT_FL"].split(":")
number = 0
while True:
    sock, number = connected(), number + 1
    print("connected", number, flush=True)
    try:
        assert sock.recv(1) == b"", "data that nobody has sent"
        raise SystemExit("the stream has ended, and not with an error")
    except ConnectionResetError:
        print("reset", number, flush=True)
"""
"""Connects again whenever its stream is reset, and says so."""


@pytest.mark.heavy
def test_listeners_come_back_after_a_gateway_was_killed_and_end_with_the_job(
    cluster: Cluster, tmp_path: Path
) -> None:  # fmt: skip
    ports = {"fl": {"listen": ["guest"], "connect": ["host"]}}
    job_id = submitted(cluster, tmp_path, job(HOLDS, COMES_BACK, ports))
    host = cluster.parties[HOST]
    eventually(partial(has_said, host, job_id, "connected 1"), "the first stream")
    for times, party_id in ((2, GUEST), (3, HOST)):
        gateway_of(cluster.parties[party_id]).kill()
        eventually(partial(has_said, host, job_id, f"connected {times}"), "a stream after a gateway was killed")
    cluster.guest.ask("job/stop", {"job_id": job_id})
    cluster.wait(job_id, "canceled")


def said_of(cluster: Cluster, job_id: str) -> str:
    """What became of the job and what its workers have printed, for a test that has waited for something else."""
    said = {one: printed(party, job_id) for one, party in cluster.parties.items()}
    return f"{cluster.guest.job(job_id)}\n{said}"


def has_said(party: PartyServer, job_id: str, line: str) -> bool:
    """Whether the worker of this party has printed this line."""
    answer = party.post("task/log", {"job_id": job_id, "component_name": "train", "stream": "stdout"})
    said = answer.get("data") or {}            # without a worker yet, there is no log
    return f"{line}\n" in said.get("text", "")


@pytest.mark.heavy
def test_a_revoked_grant_ends_the_streams_of_a_running_task(cluster: Cluster, tmp_path: Path) -> None:
    ports = {"fl": {"listen": ["guest"], "connect": ["host"]}}
    job_id = submitted(cluster, tmp_path, job(HOLDS, COMES_BACK, ports))
    host, other = cluster.parties[HOST], cluster.parties[OTHER]
    try:
        for one in (host, other):
            eventually(partial(has_said, one, job_id, "connected 1"), "the first stream")
        grant(cluster, {"in": ["Command"]})
        eventually(partial(has_said, host, job_id, "reset 1"), "the end of the stream")
        said = f"were ended: host {HOST} has not granted party {GUEST}: outgoing streams of component Command"
        eventually(lambda: any(said in line for line in host.log("fate_flow", "fate_flow_detect.log")), said)
        assert not has_said(host, job_id, "connected 2")
        assert not has_said(other, job_id, "reset 1")           # whose grants are its own
    finally:
        grant(cluster, {"in": ["Command"], "out": ["Command"]})
    cluster.guest.ask("job/stop", {"job_id": job_id})
    cluster.wait(job_id, "canceled")


def gateway_of(party: PartyServer) -> psutil.Process:
    """The process of this server that other parties reach: the one that listens at neither of its other ports."""
    said = json.loads((party.home / "run/server.json").read_text(encoding="utf-8"))
    others = {urlsplit(said[key]).port for key in ("url", "worker_url")}

    def found() -> psutil.Process | None:
        for child in psutil.Process(said["pid"]).children():
            with suppress(psutil.Error):
                listens = {one.laddr.port for one in child.net_connections("tcp") if one.status == psutil.CONN_LISTEN}
                if listens and not listens & others:
                    return child
        return None

    return eventually(found, "the process of the gateway")
