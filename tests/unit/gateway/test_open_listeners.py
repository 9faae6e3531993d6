"""Callers without TLS: the listeners for a proxy and for plain v1 have the limits of the one with TLS.

The clock is virtual (`virtual_time.py`), so that the real limits are reached at once.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.record.refusal_counts import Cause
from fate_flow.gateway.application import Application
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.open_listeners import OpenListeners
from fate_flow.gateway.shares import Shares
from fate_flow.gateway.unproved import Unproved, limits_of_unproved
from tests.kit.gateway.gateway_world import (
    OWN,
    SOCKET,
    STREAM_PATH,
    UPGRADE,
    Behaviour,
    HeldStreams,
    Peer,
    RefusedCaller,
    Served,
    StubApplication,
    allows_streams,
    listening,
    released,
    request,
    seconds,
    settled,
)
from tests.kit.gateway.virtual_time import run

LIMITS = limits_of_unproved(Limits())
SOURCE = [("SRC-PARTY-ID", "10000")]


@dataclass
class Open:
    """Both listeners, and the application behind them."""

    folder: Path
    application: StubApplication
    shares: Shares                       # of the parties with a known key
    refused: list[RefusedCaller]         # what was counted for the record

    async def connect(self, kind: Unproved = Unproved.PROXY) -> Peer:
        return Peer(*await asyncio.open_unix_connection(str(self.folder / kind.name)))

    async def honest(self, kind: Unproved = Unproved.PROXY) -> None:
        peer = await self.connect(kind)
        assert (await peer.ask(head=[("SRC-PARTY-ID", "10001")])).status == 200
        peer.close()


@asynccontextmanager
async def open_world(
    *, behaves: Behaviour | None = None, streams: HeldStreams | None = None, **limits: Any
) -> AsyncIterator[Open]:  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="gw") as name:
        folder, chosen = Path(name), replace(Limits(), **limits)
        stub = StubApplication(**({"behaves": behaves} if behaves else {}))
        behind = await asyncio.start_unix_server(stub.serve, str(folder / SOCKET), limit=1 << 20)
        application, shares = Application(folder, SOCKET, chosen), Shares(chosen)
        listeners: dict[Unproved, socket.socket] = {kind: listening(folder / kind.name) for kind in Unproved}
        refused: list[RefusedCaller] = []
        listening_to = OpenListeners(
            listeners, OWN, application, folder, chosen, shares, streams, lambda *refusal: refused.append(refusal)
        )
        serving = asyncio.create_task(listening_to.run())
        try:
            yield Open(folder, stub, shares, refused)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            behind.close()
            application.close()


@pytest.mark.parametrize(("kind", "identity"), [(Unproved.PLAIN, b"plain"), (Unproved.PROXY, b"proxy")])
def test_the_application_is_told_how_a_caller_came_and_nothing_that_the_caller_says(
    kind: Unproved, identity: bytes
) -> None:
    async def test() -> None:
        async with open_world() as world:
            peer = await world.connect(kind)
            for name in ("X-Fate-Flow-Peer", "X_FATE_FLOW_PEER", "x-fate_flow-peer", "X-Forwarded-For", "SRC_PARTY_ID"):
                assert (await peer.ask(head=[*SOURCE, (name, "10001 " + "a" * 64)])).status == 200
                served = world.application.served[-1]
                assert served.values("X-Fate-Flow-Peer") == [identity]
                assert served.values("SRC-PARTY-ID") == [b"10000"]
                assert served.values("Connection") == [b"close"]       # the next one may be of another party
                assert (served.values("X-Forwarded-For"), served.values("SRC_PARTY_ID")) == ([], [])
            peer.close()

    run(test())


@pytest.mark.parametrize("kind", list(Unproved))
def test_a_head_and_a_body_have_deadlines(kind: Unproved) -> None:
    async def test() -> None:
        async with open_world() as world:
            head, body = await world.connect(kind), await world.connect(kind)
            await head.send(request(head=SOURCE)[:20])
            await body.send(request(body=b"x" * 100_000, head=SOURCE)[:-90_000])
            answer = await head.answer()
            assert (answer.status, answer.text) == (408, "the head of the request has not come in time")
            assert seconds() == pytest.approx(LIMITS.head_seconds, abs=1)
            await world.honest(kind)
            answer = await body.answer()
            assert (answer.status, answer.text) == (408, "the body of the request has not come in time")
            assert seconds() < 60
            assert world.application.served[-1].values("SRC-PARTY-ID") == [b"10001"]

    run(test())


@pytest.mark.parametrize("wrong", [
    b"POST / HTTP/1.0\r\nHost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
], ids=["HTTP/1.0", "two lengths", "TLS"])  # fmt: skip
def test_what_two_servers_could_read_in_two_ways_is_refused(wrong: bytes) -> None:
    async def test() -> None:
        async with open_world() as world:
            peer = await world.connect()
            await peer.send(wrong)
            assert (await peer.answer()).status in (400, 505)
            assert await peer.rest() == b""
            assert world.application.served == []

    run(test())


@pytest.mark.parametrize("part", [b"POST / HTTP/1.1\r\n", b"a part of a body"], ids=["half a head", "half a body"])
def test_too_many_connections_cost_the_oldest_without_a_request(part: bytes) -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def behaves(served: Served) -> Any:
            return await released(go_on) if served.values("SRC-PARTY-ID") == [b"10000"] else (200, [], b"{}")

        async with open_world(behaves=behaves) as world:
            first = await world.connect()
            await first.send(request(head=SOURCE))
            await settled()
            flood = [await world.connect() for _ in range(LIMITS.connections + 50)]
            for number, one in enumerate(flood):
                body = request(body=b"x" * 1000, head=[("SRC-PARTY-ID", str(20000 + number // 30))])[:-1]
                with suppress(ConnectionError):              # its connection has ended
                    await one.send(body if part == b"a part of a body" else part)
            await world.honest()
            assert seconds() < LIMITS.head_seconds           # it did not have to wait for their ends
            assert await flood[0].rest() == b""
            go_on.set()
            assert (await first.answer()).status == 200
            for one in flood:
                one.close()

    run(test())


def test_streams_are_not_among_the_connections() -> None:
    async def test() -> None:
        streams = HeldStreams()
        async with open_world(behaves=allows_streams, streams=streams) as world:
            peers = []
            for _ in range(LIMITS.connections):
                peers.append(await world.connect())
                assert (await peers[-1].ask(STREAM_PATH, b"", [*SOURCE, *UPGRADE])).status == 101
            await world.honest()
            assert seconds() < 1
            assert (len(streams.carried), world.refused) == (LIMITS.connections, [])
            for peer in peers:
                peer.close()

    run(test())


def test_one_address_has_few_connections_at_the_listener_for_plain_v1() -> None:
    async def test() -> None:
        async with open_world() as world:
            plain = [await world.connect(Unproved.PLAIN) for _ in range(LIMITS.connections_of_address)]
            await settled()
            one_more = await world.connect(Unproved.PLAIN)
            assert await one_more.rest() == b""
            assert world.refused == [(Cause.CONNECTIONS, "", "", 0)]
            plain.pop().close()
            await settled()
            await world.honest(Unproved.PLAIN)
            for one in plain:
                one.close()

    run(test())


def test_parties_with_a_known_key_have_a_part_of_the_application_for_themselves() -> None:
    async def test() -> None:
        go_on = asyncio.Event()
        async with open_world(behaves=lambda _: released(go_on)) as world:
            peers = [await world.connect(kind) for kind in Unproved for _ in range(20)]
            for number, peer in enumerate(peers):       # each invents a party
                await peer.send(request(head=[("SRC-PARTY-ID", str(number + 1))]))
            await settled()
            assert world.application.most_at_work == LIMITS.application_requests == Limits().application_requests // 2
            with world.shares.connection("10002") as share:
                async with world.shares.application(share):
                    assert seconds() < 1
            go_on.set()
            for peer in peers:
                assert (await peer.answer()).status == 200

    run(test())


def test_bodies_of_invented_parties_have_a_bound_together() -> None:
    async def test() -> None:
        async with open_world(stored_bytes_of_party=1000, body_bytes=1000) as world:
            peers = [await world.connect() for _ in range(5)]
            for number, peer in enumerate(peers):
                await peer.send(request(body=b"x" * 1000, head=[("SRC-PARTY-ID", str(number + 1))])[:-1])
                await settled()
            refusal = await peers[4].answer()
            assert (refusal.status, refusal.head["retry-after"]) == (503, "1")
            await peers[0].send(b"x")
            assert (await peers[0].answer()).status == 200

    run(test())


def test_a_request_that_is_under_way_is_answered_at_the_end() -> None:
    async def test() -> None:
        go_on = asyncio.Event()
        async with open_world(behaves=lambda _: released(go_on)) as world:
            at_work, idle = await world.connect(), await world.connect()
            await at_work.send(request(head=SOURCE))
            await settled()
            [serving] = [task for task in asyncio.all_tasks() if "OpenListeners.run" in repr(task)]
            serving.cancel()
            assert await idle.rest() == b""
            go_on.set()
            assert (await at_work.answer()).head["connection"] == "close"

    run(test())
