"""The listener for workers on other hosts: TLS 1.3 with a pinned key, and the deadlines and limits of the gateway."""

from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fate_flow.api.workers.staged import claim_token, staged_token
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.record.refusal_counts import Cause
from fate_flow.engines.staged.pinned import PinnedClient, ServerAt, WrongServer, pin_of
from fate_flow.gateway.application import Application
from fate_flow.gateway.peer_connection import Knows, known_to_all
from fate_flow.gateway.workers.listener import WorkerListener, limits_of_workers
from fate_flow.gateway.workers.tls import KEY_FILE, WorkerTls
from fate_flow.server.listeners.worker_tokens import WorkerTokens
from tests.kit.gateway.gateway_world import (
    OWN,
    SOCKET,
    Peer,
    RefusedCaller,
    Served,
    StubApplication,
    listening,
    released,
    request,
    seconds,
    settled,
)
from tests.kit.gateway.virtual_time import run

LIMITS = limits_of_workers(32, 1 << 20)
TOKEN = [("Authorization", "Bearer one")]


@dataclass
class Workers:
    """The listener, and the application behind it."""

    folder: Path
    application: StubApplication
    tls: WorkerTls
    refused: list[RefusedCaller]         # what was counted for the record

    async def raw(self) -> Peer:
        return Peer(*await asyncio.open_unix_connection(str(self.folder / "workers")))

    async def connect(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Peer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.maximum_version = version
        at = str(self.folder / "workers")
        return Peer(*await asyncio.open_unix_connection(at, ssl=context, server_hostname="x"))


@asynccontextmanager
async def open_world(
    listener: socket.socket | None = None, knows: Knows = known_to_all, **limits: Any
) -> AsyncIterator[Workers]:
    with tempfile.TemporaryDirectory(prefix="wl") as name:
        folder, chosen = Path(name), replace(LIMITS, **limits)
        stub, tls = StubApplication(), WorkerTls.of(folder / "keys")
        behind = await asyncio.start_unix_server(stub.serve, str(folder / SOCKET), limit=1 << 20)
        application = Application(folder, SOCKET, chosen)
        at = listening(folder / "workers") if listener is None else listener
        refused: list[RefusedCaller] = []
        listener_of_workers = WorkerListener(
            at, tls.context(), OWN, application, folder, chosen, lambda *refusal: refused.append(refusal), knows
        )
        serving = asyncio.create_task(listener_of_workers.run())
        try:
            yield Workers(folder, stub, tls, refused)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            behind.close()
            application.close()


@pytest.fixture
def tcp() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener


def test_a_worker_talks_to_the_server_with_the_pinned_key_alone(tcp: socket.socket) -> None:
    async def test() -> None:
        async with open_world(tcp) as world:
            port = tcp.getsockname()[1]
            right = PinnedClient(ServerAt.of(f"127.0.0.1:{port}", world.tls.pin), "one")
            wrong = PinnedClient(ServerAt.of(f"127.0.0.1:{port}", "sha256:" + "0" * 64), "one")
            with pytest.raises(WrongServer) as refused:
                await asyncio.to_thread(wrong.ask, "POST", "/v1/exchange/peek")
            assert f"has the key {world.tls.pin}, and this worker was told sha256:0000" in str(refused.value)
            assert world.application.served == []
            assert (await asyncio.to_thread(right.ask, "POST", "/v1/exchange/peek", {}, b"x")).status == 200
            [served] = world.application.served
            assert served.values("X-Fate-Flow-Peer") == [b"worker"]
            assert served.values("Authorization") == [b"Bearer one"]
            right.close()

    asyncio.run(test())


def test_the_key_is_made_once_and_the_pin_is_its_digest(tmp_path: Path) -> None:
    made = WorkerTls.of(tmp_path / "keys")
    assert WorkerTls.of(tmp_path / "keys").pin == made.pin
    assert (tmp_path / "keys" / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert pin_of(ssl.PEM_cert_to_DER_cert(made._certificate().decode())) == made.pin
    (tmp_path / "keys" / KEY_FILE).write_text("no key")
    with pytest.raises(BadSettings, match=KEY_FILE):
        WorkerTls.of(tmp_path / "keys")


@pytest.mark.parametrize(("address", "pin", "why"), [
    ("host", "sha256:" + "0" * 64, "not HOST:PORT"),
    ("host:1", "0" * 64, "digest of the server's key"),
    ("host:1", "sha256:" + "G" * 64, "digest of the server's key"),
])  # fmt: skip
def test_a_wrong_address_or_pin_is_named(address: str, pin: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ServerAt.of(address, pin)


def test_older_tls_and_no_tls_are_refused() -> None:
    async def test() -> None:
        async with open_world() as world:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await world.connect(ssl.TLSVersion.TLSv1_2)
            plain = await world.raw()
            await plain.send(request(head=TOKEN))
            assert not (await plain.rest()).startswith(b"HTTP")
            assert world.application.served == []

    run(test())


def test_handshake_head_and_body_have_deadlines() -> None:
    async def test() -> None:
        async with open_world() as world:
            silent, head, body = await world.raw(), await world.connect(), await world.connect()
            assert await silent.rest() == b""
            assert seconds() == pytest.approx(LIMITS.handshake_seconds, abs=1)
            await head.send(request(head=TOKEN)[:20])
            await body.send(request(body=b"x" * 100_000, head=TOKEN)[:-90_000])
            assert (await head.answer()).status == 408
            assert (await body.answer()).status == 408
            assert seconds() < 90
            assert world.application.served == []

    run(test())


def test_one_address_has_a_limit_and_too_many_connections_cost_the_oldest_without_a_request() -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def behaves(_: Served) -> Any:
            return await released(go_on)

        async with open_world(connections_of_address=2) as world:
            world.application.behaves = behaves
            kept = [await world.connect(), await world.connect()]
            for one in kept:
                await one.send(request(head=TOKEN))
            await settled()
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await world.connect()
            assert world.refused == [(Cause.CONNECTIONS, "", "", 0)]
            go_on.set()
            assert [(await one.answer()).status for one in kept] == [200, 200]
        async with open_world(connections=3) as world:
            oldest, other = await world.connect(), await world.connect()
            newest = await world.connect()
            await settled()
            assert await oldest.rest() == b""
            assert world.refused == [(Cause.CONNECTIONS, "", "", 0)]
            assert (await other.ask(head=TOKEN)).status == (await newest.ask(head=TOKEN)).status == 200

    run(test())


@pytest.mark.parametrize("limits", [{"connections": 4}, {"connections_of_address": 4}], ids=["all", "an address"])
def test_bodies_that_do_not_end_cost_their_own_connections(limits: dict[str, Any]) -> None:
    """Nobody has to show a token for them."""

    async def test() -> None:
        async with open_world(**limits) as world:
            slow = []
            for _ in range(6):
                slow.append(await world.connect())
                await slow[-1].send(request(body=b"x" * 100_000)[:-90_000])
                await settled()
            honest = await world.connect()
            assert (await honest.ask(head=TOKEN)).status == 200
            assert seconds() < LIMITS.grace_seconds           # it did not have to wait for their ends
            assert await slow[0].rest() == b""
            assert len(world.application.served) == 1
            for one in slow:
                one.close()

    run(test())


def test_a_body_without_a_token_is_not_read() -> None:
    async def test() -> None:
        tokens = WorkerTokens(lambda token: token == "one", b"secret")
        async with open_world(knows=tokens.knows) as world:
            for head in ([], [("Authorization", "Bearer two")]):
                peer = await world.connect()
                await peer.send(request(body=b"x" * 100_000, head=head)[:-90_000])
                assert (await peer.answer()).status == 401
            assert seconds() < 1
            honest = await world.connect()
            assert (await honest.ask(head=TOKEN)).status == 200
            assert len(world.application.served) == 1

    run(test())


def test_a_token_of_an_agent_counts_for_its_own_worker() -> None:
    asked: list[str] = []

    def is_session(token: str) -> bool:
        asked.append(token)
        if token == "unreadable":
            raise OSError
        return token == "one"

    tokens, own = WorkerTokens(is_session, b"secret"), staged_token(b"secret", "w1")
    assert tokens.knows("/v1/staged/w1/put?at=x", f"Bearer {own}")
    assert not tokens.knows("/v1/staged/w2/put?at=x", f"Bearer {own}")
    assert not tokens.knows("/v1/staged/w1/put?at=x", "Bearer one")
    claim = claim_token(b"secret", "w1")
    assert [tokens.knows(f"/v1/staged/{one}/redeem", f"Bearer {claim}") for one in ("w1", "w2")] == [True, False]
    assert asked == []
    assert [tokens.knows("/v1/exchange/pop", f"Bearer {one}") for one in ("one", "one", own, "unreadable", "")] == [
        True, True, False, True, False,
    ]  # fmt: skip
    assert asked == ["one", own, "unreadable"]          # what is known is not read again
