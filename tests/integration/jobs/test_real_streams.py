"""Streams between the workers of a task at three real servers that know each other by their keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit.servers.lending import PARTIES
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, OTHER, Cluster, running_cluster
from tests.kit.servers.programs import PYTHON, printed, python
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
    overlays = {party_id: {"commands": RULES} for party_id in PARTIES}
    with running_cluster(root, PARTIES, base_port=BASE_PORT + 120, overlays=overlays, over_tls=True) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def idle_afterwards(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.check_idle()
    assert [one for party in cluster.parties.values() for one in (party.home / "run/streams").iterdir()] == []


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
    cluster.wait(job_id, "success")
    assert "from the other host: hello" in json.dumps(printed(cluster.parties[HOST], job_id))
