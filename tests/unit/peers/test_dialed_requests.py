"""Requests to parties that keep connections open at the own gateway, and to hosts whose names look like theirs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from fate_flow.core.wire.v1.envelope import headers
from fate_flow.peers.dialed import open_line, read_wanted
from fate_flow.peers.network_errors import describe_network_error
from fate_flow.peers.peer_http import PeerHttp
from fate_flow.peers.pinned import PinnedParties, SeenTls
from fate_flow.server.listeners.listening import listen_at
from tests.kit.peers.hostile_server import SUCCESS, HostileServer, answer, once

SECONDS = 60.0
SEEN = SeenTls("TLSv1.3", "ab" * 32)


class OwnGateway:
    """A gateway at which party 10000 keeps connections open; its server gives the same answer to each request."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.wanted: list[str] = []
        self._listener = listen_at(path)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                self._serve(self._listener.accept()[0])

    def _serve(self, sock: socket.socket) -> None:
        with sock, sock.makefile("rwb") as stream:
            self.wanted.append(read_wanted(stream.readline()))
            is_there = self.wanted[-1] == "10000"
            stream.write(open_line(SEEN) if is_there else b"it keeps no connection open now\n")
            stream.flush()
            while is_there and stream.readline() not in (b"\r\n", b""):
                pass
            stream.write(b"".join(once(answer(SUCCESS))()) if is_there else b"")

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[OwnGateway]:
    one = OwnGateway(tmp_path / "dialed.sock")
    yield one
    one.close()


def post(http: PeerHttp, url: str, to: str = "10000") -> int:
    return http.post(f"{url}/v1/x", b"", headers("9999", to), seconds=SECONDS, most_bytes=1000).status


def no_keys(_: str) -> None:
    """No key list is stored of any party."""


def pinned(reached: Callable[[str, SeenTls], None]) -> PinnedParties:
    def own() -> Any:
        raise AssertionError("the gateway makes the TLS connections")

    return PinnedParties(own, no_keys, lambda: 0, reached)


def test_a_party_that_dials_counts_as_reached_with_what_its_connection_was(gateway: OwnGateway) -> None:
    reached: list[tuple[str, SeenTls]] = []
    http = PeerHttp(pinned=pinned(lambda *seen: reached.append(seen)), dialed=gateway.path)
    assert post(http, "dialed://10000") == 200
    assert reached == [("10000", SEEN)]
    with pytest.raises(requests.RequestException) as error:
        post(http, "dialed://10001", "10001")
    assert describe_network_error(error.value) == "it keeps no connection open now"
    assert (reached, gateway.wanted) == ([("10000", SEEN)], ["10000", "10001"])
    http.close()


@pytest.mark.parametrize("host", ["party-b.bank.example", "party-10000"])
def test_a_host_may_have_a_name_that_begins_like_that_of_a_party(
    host: str, gateway: OwnGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo

    def local(name: str, *more: Any, **named: Any) -> Any:
        return resolve("127.0.0.1" if name == host else name, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", local)
    server, http = HostileServer(once(answer(SUCCESS))), PeerHttp(dialed=gateway.path)
    try:
        assert post(http, f"http://{host}:{server.port}") == 200
        assert (server.accepted, gateway.wanted) == (1, [])
    finally:
        http.close()
        server.close()


def test_without_a_gateway_no_party_that_dials_is_looked_for_elsewhere() -> None:
    with pytest.raises(requests.RequestException, match="dialed://10000"):
        post(PeerHttp(), "dialed://10000")
