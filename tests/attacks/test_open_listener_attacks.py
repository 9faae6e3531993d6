"""The listeners without TLS: of peers that speak plain v1, and of a proxy that has ended it. Whoever reaches them is
nobody by that."""

from __future__ import annotations

import json
import re
import socket
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from tests.kit.attacks.attacked_server import (
    HEARTBEAT,
    HONEST,
    HOSTILE,
    OWN,
    PLAIN,
    STRANGER,
    AttackedServer,
    all_of,
)
from tests.kit.gateway.framing_inputs import CLEAN, REFUSED
from tests.kit.servers.party_servers import Answer

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(params=["plain", "behind_proxy"])
def port(attacked: AttackedServer, request: pytest.FixtureRequest) -> int:
    return attacked.plain_port if request.param == "plain" else attacked.proxied_port


def exchanged(port: int, data: bytes, source: str = "127.0.0.1") -> bytes:
    with socket.create_connection(("127.0.0.1", port), 90, (source, 0)) as connection:
        with suppress(OSError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        return all_of(connection)


def post(port: int, path: str, body: object, **head: str) -> tuple[int, bytes]:
    content = json.dumps(body).encode()
    fields = {"Host": "x", "Connection": "close", "Content-Length": str(len(content)), **head}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    text = exchanged(port, f"POST /v1/{path} HTTP/1.1\r\n{lines}\r\n".encode() + content)
    first, _, rest = text.partition(b"\r\n\r\n")
    return int(first.split()[1]), rest


def asked(port: int, path: str, body: object, **head: str) -> Answer:
    found: Any = json.loads(post(port, path, body, **head)[1])
    assert isinstance(found, dict)
    return found


def test_no_header_makes_a_caller_somebody(attacked: AttackedServer, port: int) -> None:
    """Neither those of the gateway, which it writes itself, nor a name that needs a key."""
    key_id = attacked.parties[HONEST].peer.key_id
    values = (f"{HONEST} {key_id}", f"{PLAIN} {key_id}", "plain", "proxy", f"stranger {attacked.own.key_id}", "")
    for name in ("X-Fate-Flow-Peer", "X_FATE_FLOW_PEER", "x-fate_flow-peer", "X-Fate-Flow-Tls", "X-Fate-Flow-Address"):
        for value in values:
            for source in (HONEST, HOSTILE, STRANGER, OWN, "0", "", f"0{HONEST}"):
                head = {"SRC-PARTY-ID": source, "DEST-PARTY-ID": OWN, name: value}
                said = asked(port, HEARTBEAT, {"jobs": []}, **head)
                assert said["retcode"] == 109, (name, value, source, said)
        head = {"SRC-PARTY-ID": PLAIN, "DEST-PARTY-ID": OWN, name: values[0]}
        assert asked(attacked.plain_port, HEARTBEAT, {"jobs": []}, **head)["retcode"] == 0
        assert asked(attacked.proxied_port, HEARTBEAT, {"jobs": []}, **head)["retcode"] == 109


def test_no_route_of_clients_or_strangers_is_there(attacked: AttackedServer, port: int) -> None:
    for path in ("job/query", "party/list", "key/query", "key/public/save", "party/join", "server/info", "x"):
        assert post(port, path, {}, **{"SRC-PARTY-ID": PLAIN})[0] == 404, path


def test_a_plain_peer_has_no_part_in_the_jobs_of_others(attacked: AttackedServer, job_here: str) -> None:
    before = attacked.rows(job_here)
    for path in (f"party/{job_here}/host/{OWN}/stop/canceled", f"party/{job_here}/host/{OWN}/status/failed"):
        said = asked(attacked.plain_port, path, {}, **{"SRC-PARTY-ID": PLAIN, "DEST-PARTY-ID": OWN})
        assert said["retcode"] == 108, said
    assert attacked.rows(job_here) == before


def test_two_readings_of_one_request_are_refused_here_as_well(attacked: AttackedServer, port: int) -> None:
    for table in (REFUSED, {name: (data, 404) for name, data in CLEAN.items()}):
        for name, (data, status) in table.items():
            found = re.findall(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n", exchanged(port, data))
            assert found == [b"%d" % status], name
    assert not any("stolen" in line for line in attacked.log("fate_flow_access.log"))


def test_more_connections_than_there_may_be_silence_nobody(attacked: AttackedServer, port: int) -> None:
    """Half of them have sent a part of a head, each with another invented name."""
    with ExitStack() as stack:
        for number in range(300):
            address = ("127.0.0.1", port)
            found = stack.enter_context(socket.create_connection(address, 90, (f"127.0.4.{number % 60 + 1}", 0)))
            if number % 2:
                with suppress(OSError):            # it was ended for a newer one
                    found.sendall(f"POST /v1/{HEARTBEAT} HTTP/1.1\r\nHost: x\r\nSRC-PARTY-ID: {number}\r\n".encode())
        assert attacked.serves_honest_ones()
        assert attacked.plain_peer_is_served()
        assert post(port, "x", {})[0] == 404
