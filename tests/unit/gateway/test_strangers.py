"""Callers without a certificate: only while an invitation is open, only to one route, and only a few of them."""

from __future__ import annotations

import asyncio
import json

from fate_flow.peers.tls import client_context, stranger_context
from tests.kit.gateway.gateway_world import (
    Peer,
    Reply,
    Served,
    World,
    gateway_world,
    is_refused,
    released,
    request,
    settled,
)
from tests.kit.gateway.virtual_time import run

JOIN = "/v1/party/join"


async def opened(world: World) -> None:
    """The gateway knows that an invitation is open."""
    world.keys.let_join(True)
    await asyncio.sleep(1.0)


async def closed(world: World) -> None:
    world.keys.let_join(False)
    await asyncio.sleep(1.0)


async def stranger(world: World) -> Peer:
    return await world.connect(context=stranger_context())


def test_a_stranger_is_refused_unless_an_invitation_is_open() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            assert await is_refused(world, stranger_context())
            await opened(world)
            assert (await (await stranger(world)).ask(JOIN)).status == 200
            await closed(world)
            assert await is_refused(world, stranger_context())
            assert len(world.application.served) == 1
            await world.honest()

    run(test())


def test_the_application_is_told_that_it_is_a_stranger_and_which_key_it_saw() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            await opened(world)
            peer = await stranger(world)
            forged = f"10000 {world.parties['10000'].peer.key_id}"
            answer = await peer.ask(JOIN, b"{}", [("X-Fate-Flow-Peer", forged), ("X_Fate_Flow_Peer", forged)])
            assert answer.head["connection"] == "close"
            assert await peer.rest() == b""
            [served] = world.application.served
            assert served.values("X-Fate-Flow-Peer") == [f"stranger {world.own.peer.key_id}".encode()]
            assert served.values("X_Fate_Flow_Peer") == []

    run(test())


def test_a_stranger_reaches_no_other_route() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            await opened(world)
            for path in ("/v1/party/heartbeat", "/v1/party/join/", "/v1/party/join?a=1", "/v1/party/%6aoin", "/"):
                answer = await (await stranger(world)).ask(path)
                assert (answer.status, "can only join" in answer.text) == (404, True)
            peer = await stranger(world)
            await peer.send(request(JOIN, method="GET"))
            assert (await peer.answer()).status == 404
            assert world.application.served == []

    run(test())


def test_a_certificate_of_nobody_is_still_refused_while_strangers_may_join() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            await opened(world)
            unknown = world.parties["10002"]
            assert await is_refused(world, client_context(unknown.own, [world.own.peer]))
            await world.honest()

    run(test())


def test_what_strangers_take_is_little() -> None:
    go_on = asyncio.Event()

    async def wait(_: Served) -> Reply:
        return await released(go_on)

    async def test() -> None:
        async with gateway_world(behaves=wait) as world:
            await opened(world)
            large = await (await stranger(world)).ask(JOIN, b"x" * 200_000)
            assert (large.status, "larger than" in large.text) == (413, True)
            waiting = [await stranger(world) for _ in range(8)]
            for peer in waiting:
                await peer.send(request(JOIN))
            await settled()
            assert world.application.most_at_work == 2
            ninth = await (await stranger(world)).ask(JOIN)
            assert (ninth.status, "open connections" in ninth.text) == (429, True)
            go_on.set()
            assert (await waiting[0].answer()).status == 200
            await world.honest()

    run(test())


def test_strangers_ask_a_few_times_a_minute() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            await opened(world)
            statuses = [(await (await stranger(world)).ask(JOIN)).status for _ in range(14)]
            assert statuses == [200] * 12 + [429] * 2
            await world.honest()
            await asyncio.sleep(61)
            assert (await (await stranger(world)).ask(JOIN)).status == 200

    run(test())


def test_a_stranger_that_says_nothing_is_cut_off_once_nobody_may_join() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            await opened(world)
            peer = await stranger(world)
            await settled()
            await closed(world)
            assert await peer.rest() == b""

    run(test())


def test_a_request_that_is_under_way_when_the_invitation_is_used_is_answered() -> None:
    go_on = asyncio.Event()

    async def wait(_: Served) -> Reply:
        return await released(go_on, (200, [], json.dumps({"retcode": 0}).encode()))

    async def test() -> None:
        async with gateway_world(behaves=wait) as world:
            await opened(world)
            peer = await stranger(world)
            await peer.send(request(JOIN))
            await settled()
            await closed(world)
            go_on.set()
            assert (await peer.answer()).status == 200

    run(test())
