"""A party without a port for others: it dials, and both directions work over connections that it keeps open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import yaml

from fate_flow.cli.server import service
from tests.kit.servers.party_servers import GUEST, HOST, PartyServer, toy
from tests.kit.servers.programs import PYTHON, printed, python
from tests.kit.servers.strangers import PARTIES, SECONDS, Strangers, strangers_at
from tests.kit.servers.warm import WARM, start_server
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

PROGRAMS = {"commands": {"enabled": True, "allow": [PYTHON], "share_logs": True, "as_root": True}}


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    with strangers_at(tmp_path_factory.mktemp("dialing"), 29500, host_dials=True, more=PROGRAMS) as strangers:
        inviting = strangers.invite()
        assert inviting.stdout is not None
        done = strangers.join(inviting.stdout.readline())
        assert done.code == 0, done.out + done.err
        shown, said = inviting.communicate(timeout=SECONDS)
        assert inviting.returncode == 0, shown + said
        assert "10000 without a port: it keeps connections to the other party open" in shown
        assert f"{GUEST} -> {HOST}: reaches it" in shown
        eventually(lambda: refused_for_lack_of_a_grant(strangers), "the host to refuse what it has not granted")
        granted = {"src_party_id": GUEST, "src_role": "guest", "privilege_component": "*"}
        strangers.servers[HOST].ask("permission/grant/privilege", granted)
        yield strangers


def refused_for_lack_of_a_grant(strangers: Strangers) -> bool:
    """Whether the host, which dials, refuses the guest's job: other machines may reach it."""
    message = str(strangers.servers[GUEST].post("job/submit", toy())["retmsg"])
    return f"host {HOST} has not granted party {GUEST}: component SecureAddExample" in message


def runs(joined: Strangers) -> list[str]:
    """A job of the guest with the host, and one of the host with the guest, succeed. Return their ids."""
    job_ids = []
    of_host = toy()
    of_host["job_runtime_conf"] |= {
        "initiator": {"role": "guest", "party_id": int(HOST)}, "role": {"guest": [int(HOST)], "host": [int(GUEST)]},
    }
    for initiator, document in ((GUEST, toy()), (HOST, of_host)):
        server = joined.servers[initiator]
        answer = eventually(partial(accepted, server, document), "both parties to accept a job")
        job_ids.append(str(answer["jobId"]))
        server.wait(job_ids[-1], "success")
    return job_ids


def accepted(server: PartyServer, document: Mapping[str, Any]) -> dict[str, Any] | None:
    answer = server.post("job/submit", document)
    return answer if answer["retcode"] == 0 else None


def seen_at_guest(joined: Strangers) -> dict[str, object]:
    """What the guest lists of the host; nothing in the second after it has joined."""
    found = [one for one in joined.servers[GUEST].ask("party/list")["parties"] if one["party_id"] == HOST]
    return dict(found[0]) if found else {}


def test_jobs_run_in_both_directions(joined: Strangers) -> None:
    before = joined.wires[GUEST].count()
    job_ids = runs(joined)
    assert joined.wires[GUEST].count() > before + 10_000
    assert joined.wires[GUEST].readable(*job_ids, "toy_0") == []
    assert seen_at_guest(joined)["url"] == f"dialed://{HOST}"

    def over_tls() -> dict[str, str]:
        keys: Any = seen_at_guest(joined)["keys"]
        return {way: seen["tls"] for way, seen in keys["contacts"].items()}

    eventually(lambda: over_tls() == {"from": "TLSv1.3", "to": "TLSv1.3"}, over_tls)    # noted beside the requests
    keys: Any = seen_at_guest(joined)["keys"]
    assert keys["contacts"]["to"]["key_id"] in keys["tls_keys"]


BOTH_WAYS = """
import os, socket

def place(name):
    host, _, port = os.environ[name].partition(":")
    return host, int(port)

def all_of(sock):
    found = b""
    while data := sock.recv(65536):
        found += data
    return found

listener = socket.create_server(place("FATE_FLOW_LISTEN_" + %r))
with socket.create_connection(place("FATE_FLOW_PORT_" + %r)) as sock:
    sock.sendall(bytes(2_000_000))
    sock.shutdown(socket.SHUT_WR)
    sock2, _ = listener.accept()
    sock2.sendall(str(len(all_of(sock2))).encode())
    sock2.close()
    print("arrived:", all_of(sock).decode())
"""
"""Sends two megabytes to the other party, counts what that sends, and prints how much has arrived there."""


def grant(joined: Strangers, streams: Mapping[str, list[str]]) -> None:
    """Let the guest's jobs have all components and these streams at the host."""
    file = joined.confs[HOST].with_name("grants.yaml")
    granted = {"version": 1, "parties": {int(GUEST): {"components": ["*"], "streams": dict(streams)}}}
    file.write_text(yaml.safe_dump(granted), encoding="utf-8")
    done = WARM.run("fate_flow", "grants", "apply", "-f", str(file), "-c", str(joined.confs[HOST]))
    assert done.code == 0, done.out + done.err


def test_streams_are_opened_in_both_directions(joined: Strangers) -> None:
    grant(joined, {})
    guest, host = joined.servers[GUEST], joined.servers[HOST]
    document = {
        "version": 1, "initiator": f"guest {GUEST}", "parties": {"guest": [GUEST], "host": [HOST]},
        "tasks": {"train": {
            "component": "Command",
            "ports": {"there": {"listen": ["host"], "connect": ["guest"]},
                      "back": {"listen": ["guest"], "connect": ["host"]}},
            "at": {
                "guest": {"parameters": {"command": python(BOTH_WAYS % ("BACK", "THERE"))}},
                "host": {"parameters": {"command": python(BOTH_WAYS % ("THERE", "BACK"))}},
            },
        }},
    }  # fmt: skip
    body = {"job_file": yaml.safe_dump(document)}
    refused = str(guest.post("job/validate", body)["retmsg"])
    assert f"host {HOST} has not granted party {GUEST}: incoming streams of component Command, outgoing" in refused
    grant(joined, {"in": ["Command"], "out": ["Command"]})
    eventually(lambda: guest.post("job/validate", body)["retcode"] == 0, lambda: guest.post("job/validate", body))
    # A party that does not answer in time takes nothing: it is asked again.
    job_id = str(eventually(partial(accepted, guest, body), "both parties to accept a job")["jobId"])
    guest.wait(job_id, "success")
    for server in (guest, host):
        assert "arrived: 2000000" in printed(server, job_id)


@pytest.mark.heavy
def test_connections_are_made_again_after_either_server_was_killed(joined: Strangers) -> None:
    for party_id in PARTIES:
        home = joined.servers[party_id].home
        assert service.kill(home)
        if party_id == HOST:
            eventually(lambda: "keeps no connection" in str(seen_at_guest(joined).get("message")), "the end of it")
        start_server(joined.confs[party_id], home)
        runs(joined)


HOLDS = """
import os, socket, time
host, _, port = os.environ["FATE_FLOW_LISTEN_FL"].partition(":")
sock, _ = socket.create_server((host, int(port))).accept()
sock.sendall(b"here")
time.sleep(600)
"""
IS_RESET = """
import os, socket, time
host, _, port = os.environ["FATE_FLOW_PORT_FL"].partition(":")
sock = socket.create_connection((host, int(port)))
assert sock.recv(4) == b"here"
print("connected", flush=True)
try:
    print("ended", sock.recv(1), flush=True)
except ConnectionResetError:
    print("reset", flush=True)
time.sleep(600)
"""


def test_a_party_that_was_deleted_keeps_no_connection(joined: Strangers) -> None:
    guest = joined.servers[GUEST]
    eventually(lambda: seen_at_guest(joined).get("status") == "answers", "the host to answer")
    document = {
        "version": 1, "initiator": f"guest {GUEST}", "parties": {"guest": [GUEST], "host": [HOST]},
        "tasks": {"train": {
            "component": "Command", "ports": {"fl": {"listen": ["host"], "connect": ["guest"]}},
            "at": {"guest": {"parameters": {"command": python(IS_RESET)}},
                   "host": {"parameters": {"command": python(HOLDS)}}},
        }},
    }  # fmt: skip
    grant(joined, {"in": ["Command"]})
    answer = eventually(
        partial(accepted, guest, {"job_file": yaml.safe_dump(document)}), "both parties to accept a job"
    )

    def has_said(line: str) -> bool:
        asked = {"job_id": str(answer["jobId"]), "component_name": "train", "stream": "stdout"}
        return line in (guest.post("task/log", asked).get("data") or {}).get("text", "").splitlines()

    eventually(lambda: has_said("connected"), "a stream")
    guest.ask("key/public/delete", {"party_id": HOST})
    # Whichever of its processes notices first: the host does not answer, or has no address any more.
    eventually(lambda: seen_at_guest(joined).get("status") != "answers", "the connections to end")
    said = f"no connection is kept open to 127.0.0.1: party {GUEST}: no TLS connection (it accepts none of our keys"
    host = joined.servers[HOST]
    eventually(lambda: any(said in line for line in host.log("fate_flow", "fate_flow_stat.log")), "the host to say so")
    eventually(lambda: has_said("reset"), "the stream to end")
