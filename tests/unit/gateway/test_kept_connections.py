"""Connections of the gateway to the application: kept while nothing can be left on them, and each for one party."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import h11
import pytest

from fate_flow.gateway.heads import identity_of, request_for_application
from fate_flow.gateway.limits import Limits
from fate_flow.peers.tls import PeerKey
from tests.kit.gateway.gateway_world import Reply, Served, World, gateway_world, released, request, settled
from tests.kit.gateway.virtual_time import VirtualTimeLoop

LIMITS = Limits()


def run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work)


def test_requests_of_a_party_share_a_connection_and_no_party_gets_that_of_another() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            for number in range(3):
                for party_id in ("10000", "10001"):
                    peer = await world.connect(party_id)             # its own connection says nothing about this
                    assert (await peer.ask(body=b"x" * number)).status == 200
                    peer.close()
            assert (len(world.application.served), len(world.application.connections)) == (6, 2)
            identities = [served.values("X-Fate-Flow-Peer")[0].split()[0] for served in world.application.served]
            assert identities == [b"10000", b"10001"] * 3

    run(test())


def test_requests_at_once_have_a_connection_each() -> None:
    async def test() -> None:
        go_on = asyncio.Event()
        async with gateway_world(behaves=lambda _: released(go_on)) as world:
            asked = [asyncio.create_task((await world.connect()).ask()) for _ in range(3)]
            await settled()
            assert len(world.application.connections) == 3
            go_on.set()
            assert [(await one).status for one in asked] == [200] * 3
            assert (await (await world.connect()).ask()).status == 200
            assert len(world.application.connections) == 3

    run(test())


@pytest.mark.parametrize(("seconds", "connections"), [
    (LIMITS.kept_seconds - 5, 1), (LIMITS.kept_seconds + 5, 2),
])  # fmt: skip
def test_a_connection_is_kept_for_a_while(seconds: float, connections: int) -> None:
    async def test() -> None:
        async with gateway_world() as world:
            peer = await world.connect()
            assert (await peer.ask()).status == 200
            await asyncio.sleep(seconds)
            assert (await peer.ask()).status == 200
            assert len(world.application.connections) == connections

    run(test())


def test_only_so_many_connections_are_kept() -> None:
    async def test() -> None:
        async with gateway_world(kept_connections=1) as world:
            for _ in range(2):
                for party_id in ("10000", "10001"):
                    assert (await (await world.connect(party_id)).ask()).status == 200
            assert len(world.application.connections) == 4
            await settled()
            assert [one.is_closing() for one in world.application.connections] == [True, True, True, False]

    run(test())


async def no_content(_: Served) -> Reply:
    return 204, [], b""


async def last(_: Served) -> Reply:
    return 200, [("Connection", "close")], b"{}"


async def short(_: Served) -> Reply:
    return 200, [], b"{}"


@pytest.mark.parametrize(("behaves", "method"), [
    (no_content, "POST"), (last, "POST"), (short, "PUT"), (short, "HEAD"), (short, "DELETE"),
])  # fmt: skip
def test_a_connection_on_which_something_could_be_left_is_not_kept(
    behaves: Callable[[Served], Coroutine[Any, Any, Reply]], method: str
) -> None:
    async def test() -> None:
        async with gateway_world(behaves=behaves) as world:
            peer = await world.connect()
            for _ in range(2):
                await peer.send(request(body=b"", method=method))
                answer = await peer.reader.readuntil(b"\r\n\r\n")
                assert answer.startswith(b"HTTP/1.1 20")
                if b"Content-Length: 2" in answer and method != "HEAD":
                    await peer.reader.readexactly(2)
                await settled()
            assert len(world.application.connections) == 2

    run(test())


def test_a_connection_of_a_stranger_is_not_kept() -> None:
    joining = h11.Request(method="POST", target="/v1/party/join", headers=[("Host", "x")])
    for peer, fields in ((None, [(b"connection", b"close")]), (PeerKey("10000", "ab" * 32, ""), [])):
        head = request_for_application(joining, 0, identity_of(peer, "cd" * 32), "10.0.0.2", "TLSv1.3").headers
        assert [field for field in head if field[0] == b"connection"] == fields


def test_what_the_application_sends_unasked_is_nobodys_answer() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            peer = await world.connect()
            assert (await peer.ask()).status == 200
            [first] = world.application.connections
            first.write(b"HTTP/1.1 500 Wrong\r\nContent-Length: 0\r\n\r\n")
            await first.drain()
            assert (await peer.ask()).status == 200
            assert len(world.application.connections) == 2

    run(test())


def test_an_application_that_was_started_again_is_reached() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            peer = await world.connect()
            assert (await peer.ask()).status == 200
            world.application.connections[0].transport.abort()
            await settled()
            assert (await peer.ask()).status == 200

    run(test())


def test_an_answer_that_comes_before_its_request_was_read_ends_the_connection() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")       # and keeps the connection

    served: list[asyncio.StreamWriter] = []

    async def test() -> None:
        async with gateway_world() as world:
            (world.folder / "parties.sock").unlink()
            behind = await asyncio.start_unix_server(refuse, str(world.folder / "parties.sock"))
            peer = await world.connect()
            assert (await peer.ask(body=b"x" * (3 << 20))).status == 413
            assert (await (await world.connect()).ask()).status == 413
            assert len(served) == 2
            behind.close()

    run(test())


def test_a_request_that_was_given_up_leaves_no_connection() -> None:
    async def test() -> None:
        async with gateway_world(behaves=lambda _: released(asyncio.Event())) as world:
            assert (await (await world.connect()).ask()).status == 504
            await _serve_again(world)
            assert len(world.application.connections) == 2

    run(test())


async def _serve_again(world: World) -> None:
    async def well(_: Served) -> Reply:
        return 200, [], b"{}"

    world.application.behaves = well
    assert (await (await world.connect()).ask()).status == 200


def test_a_connection_is_not_kept_after_a_body_that_gunicorn_may_not_have_read_to_its_end() -> None:
    """Gunicorn discards less than 64 KiB of it; beyond that it ends the connection after its answer."""
    async def test() -> None:
        async with gateway_world() as world:
            peer = await world.connect()
            for size, connections in ((64 * 1024 - 1, 1), (64 * 1024, 1), (10, 2), (10, 2)):
                assert (await peer.ask(body=b"x" * size)).status == 200
                assert len(world.application.connections) == connections

    run(test())
