"""The gateway with strangers, and with peers that are slow, silent, huge or many: an honest one is served beside them.

The clock is virtual (`virtual_time.py`), so that the real limits are reached at once.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress

import pytest

from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.core.record.refusal_counts import Cause
from fate_flow.gateway.limits import MIB, Limits
from fate_flow.peers.tls import ALPN, DIAL, client_context
from tests.kit.gateway.gateway_world import (
    Peer,
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
from tests.kit.peers.handshakes import tls_party

LIMITS = Limits()


# ---------------------------------------------------------------------- strangers


def test_nobody_without_a_known_key_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with gateway_world() as world:
            own = world.own.peer
            no_certificate = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            no_certificate.check_hostname = False
            no_certificate.verify_mode = ssl.CERT_NONE
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname = False
            old.verify_mode = ssl.CERT_NONE
            old.maximum_version = ssl.TLSVersion.TLSv1_2
            same_name = tls_party("10000", clock=lambda: world.now_ms[0])
            for context in (
                no_certificate, old, client_context(world.parties["10002"].own, [own]),
                client_context(same_name.own, [own]),
            ):
                assert await is_refused(world, context)
            reader, writer = await world.raw()
            writer.write(b"GET /v1/party/heartbeat HTTP/1.1\r\n\r\n")
            assert b"HTTP" not in await reader.read()
            writer.close()
            assert world.application.served == []
            await world.honest()
            causes = [Cause.KEY, Cause.HANDSHAKE, Cause.KEY, Cause.KEY, Cause.HANDSHAKE]
            assert world.refused == [(one, "", "", 0) for one in causes]

    with caplog.at_level(logging.WARNING):
        run(test())
    lines = [one.getMessage() for one in caplog.records]
    assert len(lines) == 5
    assert all(line.startswith("refused a connection: no TLS connection: ") for line in lines)


def test_who_is_refused_reads_why_though_a_request_is_on_its_way() -> None:
    """The kernel would throw the alert away if the gateway closed a connection that has unread input."""

    async def test() -> None:
        async with gateway_world() as world:
            revoked = client_context(world.parties["10002"].own, [world.own.peer])
            for _ in range(5):
                peer = await world.connect(context=revoked)
                await peer.send(request(body=b"x" * 50_000))
                with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
                    await peer.reader.read()

    run(test())


def test_a_refused_peer_that_goes_on_sending_is_cut_off() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            peer = await world.connect(context=client_context(world.parties["10002"].own, [world.own.peer]))
            began = seconds()
            with suppress(ConnectionError, ssl.SSLError):
                while seconds() - began < 60:
                    await peer.send(b"x" * 10_000)
                    await asyncio.sleep(0.1)
            assert seconds() - began < 2 * LIMITS.close_seconds
            await world.honest()

    run(test())


def test_a_known_key_whose_clock_is_days_off_is_told_so() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            late, dials = (
                client_context(world.parties["10000"].own, [world.own.peer], protocol) for protocol in (ALPN, DIAL)
            )
            world.now_ms[0] += 40 * 24 * 3600 * 1000
            peer = await world.connect(context=late)
            answer = await peer.ask()
            assert answer.status == 503
            assert "the certificate of party 10000 is valid from" in answer.text
            assert "compare the clocks of both servers" in answer.text
            assert world.refused == [(Cause.REQUEST, "", "", 503)]
            dialing = await world.connect(context=dials)
            assert await dialing.rest() == b"", "it waits for requests, and this is none"
            assert world.application.served == []

    run(test())


def test_handshakes_that_do_not_end_are_given_up() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            reader, writer = await world.raw()
            writer.write(b"\x16\x03\x01")
            assert await reader.read() == b""
            assert seconds() == pytest.approx(LIMITS.handshake_seconds)
            assert world.refused == [(Cause.HANDSHAKE, "", "", 0)]
            writer.close()

    run(test())


def test_a_flood_of_handshakes_leaves_the_newest_and_an_honest_peer_is_served() -> None:
    async def test() -> None:
        async with gateway_world(handshakes=8, handshakes_of_address=1000) as world:
            flood = [await world.raw() for _ in range(50)]
            await world.honest()
            assert seconds() < LIMITS.handshake_seconds       # it did not have to wait for their ends
            assert set(world.refused) == {(Cause.CONNECTIONS, "", "", 0)}
            assert len(world.refused) == 43, "50, and the honest one, without the 8 that are left"
            for _, writer in flood:
                writer.close()

    run(test())


def test_one_address_has_few_handshakes_at_once() -> None:
    async def test() -> None:
        async with gateway_world(handshakes_of_address=4) as world:
            flood = [await world.raw() for _ in range(6)]
            ends = await asyncio.gather(*(reader.read() for reader, _ in flood[4:]))
            assert (ends, seconds()) == ([b"", b""], pytest.approx(0, abs=1))
            assert world.refused == [(Cause.CONNECTIONS, "", "", 0)] * 2
            await asyncio.gather(*(reader.read() for reader, _ in flood))
            assert seconds() == pytest.approx(LIMITS.handshake_seconds)
            await world.honest()
            for _, writer in flood:
                writer.close()

    run(test())


def test_connections_that_do_not_fit_wait() -> None:
    async def test() -> None:
        async with gateway_world(connections=2, idle_seconds=20) as world:
            first, second = await world.connect(), await world.connect()
            waiting = asyncio.create_task(world.honest())
            assert (await first.ask()).status == 200
            second.close()
            await waiting
            assert seconds() < 1
            first.close()

    run(test())


# ---------------------------------------------------------------------- slow, half-open and huge peers


async def slowly(peer: Peer, data: bytes, every: float) -> None:
    for one in data:
        await peer.send(bytes([one]))
        await asyncio.sleep(every)


def test_a_head_that_comes_byte_by_byte_has_a_deadline() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            peer = await world.connect()
            sending = asyncio.create_task(slowly(peer, request() * 100, 0.5))
            answer = await peer.answer()
            assert (answer.status, answer.text) == (408, "the head of the request has not come in time")
            assert seconds() == pytest.approx(LIMITS.head_seconds, abs=1)
            await world.honest()
            sending.cancel()
            assert await peer.rest() == b""

    run(test())


def test_a_body_needs_a_least_rate_and_a_slow_one_above_it_is_served() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            fast, slow, silent = [await world.connect() for _ in range(3)]
            head = request(body=b"")[:-4].replace(b"Content-Length: 0", b"Content-Length: 100000") + b"\r\n\r\n"

            async def body(peer: Peer, rate: int) -> None:
                await peer.send(head)
                for _ in range(100_000 // rate):
                    await peer.send(b"x" * rate)
                    await asyncio.sleep(1)

            tasks = [asyncio.create_task(body(fast, 2000)), asyncio.create_task(body(slow, 500))]
            await silent.send(head)
            assert (await silent.answer()).status == 408
            assert seconds() == pytest.approx(LIMITS.grace_seconds, abs=1)
            await world.honest()
            answer = await slow.answer()
            assert (answer.status, answer.text) == (408, "the body of the request has not come in time")
            assert seconds() == pytest.approx(20, abs=2)       # 500 t < 1024 (t - 10)
            assert (await fast.answer()).status == 200
            assert seconds() == pytest.approx(50, abs=2)
            for task in tasks:
                task.cancel()
            # A body that has not come costs the application nothing.
            assert [len(one.body) for one in world.application.served] == [2, 100_000]

    run(test())


def test_an_answer_that_is_not_taken_ends_the_connection() -> None:
    async def test() -> None:
        async with gateway_world(behaves=lambda _: released(go_on, (200, [], b"x" * (8 * MIB)))) as world:
            _, writer = await asyncio.open_unix_connection(
                world.address, ssl=client_context(world.parties["10000"].own, [world.own.peer]),
                server_hostname="gateway", limit=1024,
            )
            writer.write(request())
            await writer.drain()
            before = seconds()
            go_on.set()
            await world.honest()
            while world.gateway._open:
                await asyncio.sleep(1)
            assert seconds() - before < 8 * MIB / LIMITS.bytes_per_second
            writer.transport.abort()

    go_on = asyncio.Event()
    run(test())


def test_an_idle_connection_ends_without_a_word() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            peer = await world.connect()
            assert (await peer.ask()).status == 200
            assert await peer.rest() == b""
            assert seconds() == pytest.approx(LIMITS.idle_seconds, abs=1)

    run(test())


@pytest.mark.parametrize(("sent", "status"), [
    (b"POST / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 40_000, 431),
    (b"POST /" + b"x" * 40_000, 431),
    (b"POST /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    (b"POST / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 9000 + b"\r\n\r\n", 431),
    (b"POST / HTTP/1.1\r\nHost: x\r\n" + b"A: x\r\n" * 100 + b"\r\n", 431),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 67108865\r\n\r\n", 413),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 2000, 400),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 40_000, 431),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + b"x" * 40_000, 431),
])  # fmt: skip
def test_what_is_too_large_is_refused_and_ends_the_connection(sent: bytes, status: int) -> None:
    async def test() -> None:
        async with gateway_world() as world:
            peer = await world.connect()
            await peer.send(sent)
            assert (await peer.answer()).status == status
            assert await peer.rest() == b""
            assert world.refused == [(Cause.REQUEST, "", "10000", status)]
            assert world.application.served == []
            await world.honest()

    run(test())


def test_a_chunked_body_is_refused_as_soon_as_it_is_too_large() -> None:
    async def test() -> None:
        async with gateway_world(body_bytes=100_000) as world:
            peer = await world.connect()
            await peer.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            await peer.send(b"%x\r\n%s\r\n" % (100_001, b"x" * 100_001))
            assert (await peer.answer()).status == 413
            assert world.application.served == []

    run(test())


def test_an_answer_that_is_too_long_is_not_passed_on() -> None:
    async def long(_: Served) -> Reply:
        return 200, [], b"x" * 200_000

    async def test() -> None:
        async with gateway_world(behaves=long, answer_bytes=100_000) as world:
            peer = await world.connect()
            assert (await peer.ask()).status == 502

    run(test())


# ---------------------------------------------------------------------- shares


def test_a_party_has_a_share_of_connections_and_others_are_served_beside_it() -> None:
    async def test() -> None:
        async with gateway_world(connections_of_party=3) as world:
            peers = [await world.connect() for _ in range(3)]
            assert [(await peer.ask()).status for peer in peers] == [200] * 3
            one_more = await world.connect()
            answer = await one_more.answer()
            assert (answer.status, answer.head["retry-after"]) == (429, "1")
            assert answer.text == "party 10000 has 3 open connections, the most that it may have"
            assert await one_more.rest() == b""
            await world.honest()
            peers[0].close()
            await asyncio.sleep(1)
            assert (await (await world.connect()).ask()).status == 200

    run(test())


def test_a_party_has_a_share_of_the_application_and_others_are_served_beside_it() -> None:
    go_on = asyncio.Event()

    async def test() -> None:
        async def slow_for_one(served: Served) -> Reply:
            if served.values("X-Fate-Flow-Peer")[0].startswith(b"10000"):
                await go_on.wait()
            return 200, [], b"{}"

        async with gateway_world(
            behaves=slow_for_one, application_requests=4, application_requests_of_party=2, requests_of_party=4,
        ) as world:
            peers = [await world.connect() for _ in range(6)]
            for peer in peers:
                await peer.send(request())
                await settled()
            await world.honest()
            assert world.application.most_at_work == 3         # two of party 10000, and the honest one
            late = [await peer.answer() for peer in (peers[2], peers[3])]
            assert [one.status for one in late] == [503, 503]
            assert {one.text for one in late} == {"the server is busy with requests of other parties: try again later"}
            assert seconds() == pytest.approx(LIMITS.wait_seconds, abs=1)
            go_on.set()
            # The other two were read when the requests before them had ended.
            assert sorted([(await peers[one].answer()).status for one in (0, 1, 4, 5)])[:2] == [200, 200]
            assert world.application.most_at_work == 3

    run(test())


def test_requests_beyond_the_share_of_a_party_are_not_read_and_refused_later() -> None:
    async def test() -> None:
        async with gateway_world(behaves=lambda _: released(go_on), requests_of_party=2) as world:
            peers = [await world.connect() for _ in range(3)]
            for peer in peers:
                await peer.send(request())
                await settled()
            answer = await peers[2].answer()
            assert answer.status == 429
            assert answer.text.startswith("this party has 2 requests under way")
            go_on.set()
            assert [(await peer.answer()).status for peer in peers[:2]] == [200, 200]

    go_on = asyncio.Event()
    run(test())


def test_requests_that_follow_too_fast_wait_and_are_refused_if_they_would_wait_too_long() -> None:
    quotas = Quotas("9999", PartyQuota(requests_per_second=2, requests_at_once=2))

    async def test() -> None:
        async with gateway_world(quotas=quotas, wait_seconds=1.0) as world:
            peers = [await world.connect() for _ in range(5)]
            for peer in peers:
                await peer.send(request())
                await settled()
            assert [(await peer.answer()).status for peer in peers[:4]] == [200] * 4
            assert seconds() == pytest.approx(1.0, abs=0.2), "two at once, then one each half second"
            refused = await peers[4].answer()
            assert (refused.status, refused.head["retry-after"]) == (429, "1")
            assert refused.text.startswith("party 10000 sends more requests to party 9999 than it may, at most 2 (")
            assert await peers[4].rest() == b""
            await world.honest()

    run(test())


def test_a_new_connection_does_not_begin_a_new_count_of_requests() -> None:
    async def test() -> None:
        async with gateway_world(
            quotas=Quotas("9999", PartyQuota(requests_per_second=1, requests_at_once=1)), wait_seconds=0.5
        ) as world:
            for status in (200, 429, 429):
                peer = await world.connect()
                assert (await peer.ask()).status == status
                peer.close()
                await settled()

    run(test())


def test_answers_that_are_not_read_count_too() -> None:
    async def test() -> None:
        async def large(served: Served) -> Reply:
            return 200, [], bytes(2 * MIB if served.body else 1000)

        async with gateway_world(behaves=large, stored_bytes_of_party=5 * MIB) as world:
            held = [await world.connect() for _ in range(2)]
            for one in held:
                one.writer.transport.pause_reading()
                await one.send(request())
            await settled()
            more = await world.connect()
            assert (await more.ask(body=b"")).status == 200          # a small one
            assert (await more.ask()).status == 429
            for one in held:
                one.writer.transport.resume_reading()
                assert len((await one.answer()).body) == 2 * MIB
            assert (await (await world.connect()).ask()).status == 200          # they were given back

    run(test())


def test_the_bodies_of_a_party_have_a_share_of_bytes() -> None:
    async def test() -> None:
        async with gateway_world(stored_bytes_of_party=150_000) as world:
            first, second = await world.connect(), await world.connect()
            await first.send(request(body=b"x" * 100_000)[:-1])
            await settled()
            await second.send(request(body=b"x" * 100_000))
            assert (await second.answer()).status == 429
            await world.honest()
            await first.send(b"x")
            assert (await first.answer()).status == 200
            assert (await (await world.connect()).ask(body=b"x" * 100_000)).status == 200       # it was given back

    run(test())
