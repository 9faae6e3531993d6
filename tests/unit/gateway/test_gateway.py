"""The gateway with honest peers, with keys that change, and at its end.

The clock is virtual (`virtual_time.py`), so that the real limits are reached at once.
"""

from __future__ import annotations

import asyncio
import logging
import ssl

import pytest

from fate_flow.gateway.limits import MIB, Limits
from fate_flow.peers.tls import client_context
from tests.kit.gateway.gateway_world import (
    Reply,
    Served,
    gateway_world,
    is_refused,
    released,
    request,
    seconds,
    settled,
)
from tests.kit.gateway.virtual_time import run

LIMITS = Limits()


# ---------------------------------------------------------------------- honest peers


def test_a_request_reaches_the_application_with_the_party_of_the_connection() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            peer = await world.connect()
            answer = await peer.ask("/v1/party/heartbeat?a=1", b'{"jobs": []}', [("SRC-PARTY-ID", "10000")])
            assert (answer.status, answer.body) == (200, b'{"retcode": 0, "bytes": 12}')
            [served] = world.application.served
            assert (served.head.method, served.head.target, served.body) == (
                b"POST", b"/v1/party/heartbeat?a=1", b'{"jobs": []}',
            )  # fmt: skip
            key = world.parties["10000"].peer.key_id
            assert served.values("X-Fate-Flow-Peer") == [f"10000 {key}".encode()]
            assert served.values("X-Fate-Flow-Tls") == [b"TLSv1.3"]
            assert served.values("SRC-PARTY-ID") == [b"10000"]
            assert served.values("Host") == [b"127.0.0.1"]
            assert (await peer.ask()).status == 200             # the connection is kept

    run(test())


def test_large_bodies_and_answers_pass_unchanged() -> None:
    content = bytes(range(256)) * 4096 * 5          # beyond what is kept in memory

    async def echo(served: Served) -> Reply:
        return 200, [("X-Last", "1")], served.body

    async def test() -> None:
        async with gateway_world(behaves=echo) as world:
            peer = await world.connect()
            answer = await peer.ask(body=content)
            assert answer.body == content
            assert answer.head["x-last"] == "1"
            await peer.send(
                b"POST /v1/party/batch HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                + b"".join(b"%x;a=b\r\n%s\r\n" % (len(piece), piece) for piece in (content[:70_000], b"end"))
                + b"0\r\nX-Fate-Flow-Peer: 10001\r\n\r\n"
            )
            assert (await peer.answer()).body == content[:70_000] + b"end"
            assert world.application.served[-1].values("content-length") == [b"70003"]
            assert world.application.served[-1].values("x-fate-flow-peer")[0].startswith(b"10000 ")

    run(test())


def test_an_answer_without_a_body_and_the_head_alone_are_framed() -> None:
    async def test() -> None:
        async def nothing(_: Served) -> Reply:
            return 204, [], b""

        async with gateway_world(behaves=nothing) as world:
            peer = await world.connect()
            answer = await peer.ask()
            assert (answer.status, "content-length" in answer.head) == (204, False)
            assert (await peer.ask()).status == 204

    run(test())


def test_what_the_application_refuses_before_it_has_read_a_body_arrives() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    async def test() -> None:
        async with gateway_world() as world:
            (world.folder / "parties.sock").unlink()
            behind = await asyncio.start_unix_server(refuse, str(world.folder / "parties.sock"))
            peer = await world.connect()
            answer = await peer.ask(body=b"x" * (3 * MIB))
            assert (answer.status, answer.body) == (413, b"{}")
            behind.close()

    run(test())


@pytest.mark.parametrize("raw", [
    b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", b"no HTTP\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n",
])  # fmt: skip
def test_an_application_that_breaks_off_is_told_as_that(raw: bytes) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        writer.close()

    async def test() -> None:
        async with gateway_world() as world:
            (world.folder / "parties.sock").unlink()
            behind = await asyncio.start_unix_server(break_off, str(world.folder / "parties.sock"))
            peer = await world.connect()
            answer = await peer.ask(body=b"")
            assert (answer.status, answer.text) == (502, "the server has ended before its answer was complete")
            behind.close()

    run(test())


def test_an_application_that_is_not_there_or_never_answers_is_told_as_that() -> None:
    async def test() -> None:
        async with gateway_world(behaves=lambda _: released(asyncio.Event())) as world:
            peer = await world.connect()
            answer = await peer.ask()
            assert (answer.status, seconds()) == (504, pytest.approx(LIMITS.answer_seconds, abs=1))
            assert answer.head["src-party-id"] == "9999"
            (world.folder / "parties.sock").unlink()
            peer = await world.connect()
            answer = await peer.ask()
            assert (answer.status, answer.head["retry-after"]) == (503, "1")

    run(test())


# ---------------------------------------------------------------------- keys that change


def test_a_key_that_is_no_longer_valid_ends_its_open_connections_at_once() -> None:
    async def test() -> None:
        async with gateway_world(behaves=lambda served: ok_or_wait(served)) as world:
            idle, working, other = await world.connect(), await world.connect(), await world.connect("10001")
            for peer in (idle, other):
                assert (await peer.ask()).status == 200
            await working.send(request("/wait"))
            await settled()
            before = seconds()
            world.keys.become(world.parties["10001"].peer)
            assert [await peer.rest() for peer in (idle, working)] == [b"", b""]
            assert seconds() - before <= 1
            assert await is_refused(world, client_context(world.parties["10000"].own, [world.own.peer]))
            assert (await other.ask()).status == 200           # the same connection as before

    async def ok_or_wait(served: Served) -> Reply:
        if served.head.target == b"/wait":
            await asyncio.Event().wait()
        return 200, [], b"{}"

    run(test())


def test_a_party_that_joins_is_let_in_within_a_second() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            context = client_context(world.parties["10002"].own, [world.own.peer])
            assert await is_refused(world, context)
            world.keys.become(*world.keys.keys, world.parties["10002"].peer)
            await asyncio.sleep(1)
            assert (await (await world.connect("10002")).ask()).status == 200

    run(test())


def test_a_handshake_that_began_before_a_revocation_is_refused_after_it() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            reader, writer = await world.raw()
            tls_in, tls_out = ssl.MemoryBIO(), ssl.MemoryBIO()
            mine = client_context(world.parties["10000"].own, [world.own.peer]).wrap_bio(tls_in, tls_out)
            with pytest.raises(ssl.SSLWantReadError):
                mine.do_handshake()
            writer.write(tls_out.read())
            while True:
                try:
                    mine.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    tls_in.write(await reader.read(65536))
            world.keys.become(world.parties["10001"].peer)
            await asyncio.sleep(1)
            mine.write(request())
            writer.write(tls_out.read())        # the end of the handshake, which the old context accepts
            assert await reader.read() == b""
            assert world.application.served == []
            writer.close()

    run(test())


def test_keys_that_cannot_be_read_stay_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with gateway_world() as world:
            peer = await world.connect()
            world.keys.failure = RuntimeError("no database")
            await asyncio.sleep(30)
            assert (await peer.ask()).status == 200
            world.keys.failure = None
            world.keys.become()
            assert await peer.rest() == b""

    run(test())
    assert "they cannot be read: no database" in caplog.text


def test_the_own_leaf_is_made_again_while_the_gateway_runs() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            leaves = set()
            for _ in range(3):
                peer = await world.connect()
                leaves.add(peer.writer.get_extra_info("ssl_object").getpeercert(True))
                assert (await peer.ask()).status == 200
                peer.close()
                world.now_ms[0] += 40 * 24 * 3600 * 1000       # all clocks: the leaves of both sides are made again
                await asyncio.sleep(1)
            assert len(leaves) == 3

    run(test())


def test_a_kept_connection_ends_after_one_more_request_once_the_own_leaf_is_another() -> None:
    go_on = asyncio.Event()

    async def test() -> None:
        async with gateway_world(behaves=lambda _: released(go_on)) as world:
            kept, working, silent = [await world.connect() for _ in range(3)]
            await working.send(request())
            await settled()
            world.now_ms[0] += 20 * 24 * 3600 * 1000
            await asyncio.sleep(1)
            go_on.set()
            for answer in (await kept.ask(), await working.answer()):
                assert (answer.status, answer.head["connection"]) == (200, "close")
            assert await kept.rest() == await working.rest() == b""
            again = await world.connect()
            assert "connection" not in (await again.ask()).head
            before = seconds()
            assert await silent.rest() == b""
            assert seconds() - before > LIMITS.idle_seconds / 2, "a request may be on its way"

    run(test())


# ---------------------------------------------------------------------- the end


def test_requests_under_way_end_when_the_gateway_stops_and_nothing_else_is_waited_for() -> None:
    go_on = asyncio.Event()

    async def test() -> None:
        async with gateway_world(behaves=lambda _: released(go_on)) as world:
            idle, working = await world.connect(), await world.connect()
            half = await world.raw()
            await working.send(request())
            await settled()
            world.task.cancel()
            assert await idle.rest() == b""
            assert await half[0].read() == b""
            go_on.set()
            answer = await working.answer()
            assert (answer.status, answer.head["connection"]) == (200, "close")
            assert seconds() < 1
            with pytest.raises(ConnectionRefusedError):
                await world.raw()
            half[1].close()

    run(test())


def test_a_request_that_does_not_end_is_cut_off_when_the_gateway_stops() -> None:
    async def test() -> None:
        async with gateway_world(behaves=lambda _: released(asyncio.Event())) as world:
            peer = await world.connect()
            await peer.send(request())
            await settled()
            before = seconds()
            world.task.cancel()
            assert await peer.rest() == b""
            assert seconds() - before == pytest.approx(LIMITS.stop_seconds, abs=1)

    run(test())


def test_connections_that_are_reset_leave_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with gateway_world() as world:
            for sent in (b"", request()[:20], request(body=b"x" * 100)[:-1], request()):
                peer = await world.connect()
                await peer.send(sent)
                peer.close()
            await asyncio.sleep(30)
            assert world.gateway._open == {}
            assert world.gateway._handshakes == {}
            assert world.gateway.shares._of == {}
            await world.honest()

    run(test())
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
