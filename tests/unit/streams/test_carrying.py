"""Streams between workers through two gateways in one event loop, over real sockets."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.core.streams.counts import PortCount
from fate_flow.gateway.refusals import Refused
from fate_flow.server.gateway_parts import most_streams_with
from fate_flow.streams import owners
from tests.kit.streams.two_gateways import (
    GUEST,
    HOST,
    JOB,
    World,
    carried_until_its_end,
    collected,
    echo,
    session_of,
    side_in,
    world_in,
)


def test_bytes_pass_in_both_directions_and_each_ends_for_itself(tmp_path: Path) -> None:
    sent = os.urandom(3_000_000)

    async def test() -> None:
        async with world_in(tmp_path) as world:
            await world.open()
            async with await world.listen(echo):
                reader, writer = await world.connect()
                writer.write(sent)
                writer.write_eof()
                assert await reader.read() == b"<" + sent + b">"
                writer.close()
            counts = [
                await asyncio.to_thread(carried_until_its_end, side.sessions, session_of(party).session)
                for side, party in ((world.host, HOST), (world.guest, GUEST))
            ]
            answer = b"<" + sent + b">"
            there, back = ((len(one), sha256(one).hexdigest()) for one in (sent, answer))
            assert [[replace(one, seconds=0.0) for one in each] for each in counts] == [
                [PortCount("fl", GUEST, 1, there[0], back[0], 0.0, (there,), (back,))],
                [PortCount("fl", HOST, 1, back[0], there[0], 0.0, (back,), (there,))],
            ]
            path = f"/v1/exchange/stream/{JOB}/{JOB}_train/0/abcdef01/host/10000/guest/9999/fl"
            assert world.application.targets == [path]

    asyncio.run(test())


def test_a_worker_may_connect_before_anybody_listens(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_in(tmp_path) as world:
            world.application.refusals = [(425, "has not started here"), (503, "starts")]
            await world.open()
            reader, writer = await world.connect()
            writer.write(b"early")
            writer.write_eof()
            while len(world.application.targets) < 3:
                await asyncio.sleep(0.01)
            async with await world.listen(echo):
                assert await reader.read() == b"<early>"
                writer.close()

    asyncio.run(test())


@pytest.mark.long
def test_a_hundred_streams_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_in(tmp_path) as world:
            await world.open()

            async def one(number: int) -> bytes:
                reader, writer = await world.connect()
                writer.write(b"%d" % number)
                writer.write_eof()
                answer = await reader.read()
                writer.close()
                return answer

            async with await world.listen(echo):
                found = await asyncio.gather(*(one(number) for number in range(100)))
            assert found == [b"<%d>" % number for number in range(100)]

    asyncio.run(test())


@pytest.mark.parametrize("closed", [0, 1])
def test_the_end_of_the_attempt_at_either_party_resets_both_workers(tmp_path: Path, closed: int) -> None:
    async def test() -> None:
        async with world_in(tmp_path) as world:
            await world.open()
            lost = asyncio.Event()

            async def held(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                assert await reader.readexactly(2) == b"hi"
                writer.write(b"ho")
                try:
                    await reader.read()
                except ConnectionResetError:
                    lost.set()

            async with await world.listen(held):
                reader, writer = await world.connect()
                writer.write(b"hi")
                assert await reader.readexactly(2) == b"ho"
                side, party = ((world.host, HOST), (world.guest, GUEST))[closed]
                await asyncio.to_thread(carried_until_its_end, side.sessions, session_of(party).session)
                with pytest.raises(ConnectionResetError):
                    await reader.read()
                await lost.wait()
            if closed == 0:
                with pytest.raises(ConnectionRefusedError):
                    await world.connect()

    asyncio.run(test())


async def ended_after(world: World, text: bytes) -> tuple[PortCount, ...]:
    """A worker of the host writes and ends, and so does its attempt; return what was counted until then."""
    _, writer = await world.connect()
    writer.write(text)
    writer.close()
    await writer.wait_closed()
    while not world.application.targets:
        await asyncio.sleep(0.01)
    return await asyncio.to_thread(carried_until_its_end, world.host.sessions, session_of(HOST).session)


def test_what_a_worker_has_sent_arrives_although_its_attempt_is_over(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_in(tmp_path) as world:
            await world.open()
            await ended_after(world, b"the last words")
            heard = asyncio.get_running_loop().create_future()

            async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                heard.set_result(await reader.read())
                writer.close()

            async with await world.listen(listen):
                assert await heard == b"the last words"
            # The stream has ended after its attempt. It is counted nevertheless, once.
            while not (late := world.host.sessions.uncollected()):
                await asyncio.sleep(0.01)
            assert late == (session_of(HOST).session,)
            [count] = collected(world.host.sessions, late[0])
            sent, got = ((len(one), sha256(one).hexdigest()) for one in (b"the last words", b""))
            assert replace(count, seconds=0.0) == PortCount("fl", GUEST, 1, sent[0], 0, 0.0, (sent,), (got,))
            assert collected(world.host.sessions, late[0]) == world.host.sessions.uncollected() == ()

    asyncio.run(test())


def test_what_nobody_has_read_when_the_attempt_ends_arrives_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A worker may end when the other gateway has just answered, before its own gateway reads what it has sent."""

    async def test() -> None:
        answered, has_ended, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
        connect = loop.connect_accepted_socket

        async def held(kind: Callable[[], Any], sock: socket.socket, **options: Any) -> Any:
            if sock.getsockname()[0] == world.connects_at.host:
                answered.set()
                await has_ended.wait()
            return await connect(kind, sock, **options)

        async with world_in(tmp_path) as world:
            monkeypatch.setattr(loop, "connect_accepted_socket", held)
            await world.open()
            _, writer = await world.connect()
            writer.write(b"the last words")
            writer.close()
            await answered.wait()
            await asyncio.to_thread(carried_until_its_end, world.host.sessions, session_of(HOST).session)
            has_ended.set()
            heard = asyncio.get_running_loop().create_future()

            async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                heard.set_result(await reader.read())
                writer.close()

            async with await world.listen(listen):
                assert await heard == b"the last words"

    asyncio.run(test())


def test_a_stream_that_is_opened_after_the_attempt_of_its_worker_is_counted(tmp_path: Path) -> None:
    """A worker may connect, write, and end before the other gateway has answered."""

    async def test() -> None:
        async with world_in(tmp_path) as world:
            world.application.refusals = [(425, "the attempt has not begun")] * 2
            await world.open()
            assert await ended_after(world, b"the last words") == ()
            async with await world.listen(echo):
                while not (late := world.host.sessions.uncollected()):
                    await asyncio.sleep(0.01)
            [count] = collected(world.host.sessions, late[0])
            assert (count.streams, count.sent) == (1, len(b"the last words"))

    asyncio.run(test())


def test_a_refusal_for_good_resets_the_worker_and_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with world_in(tmp_path) as world:
            world.application.refusals = [(403, "guest 9999 has not granted party 10000: incoming streams")]
            await world.open()
            reader, _ = await world.connect()
            with pytest.raises(ConnectionResetError):
                await reader.read()

    with caplog.at_level(logging.WARNING):
        asyncio.run(test())
    assert "to guest 9999: guest 9999 has not granted party 10000: incoming streams" in caplog.text


def test_listeners_come_back_with_a_new_gateway(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_in(tmp_path) as world:
            await world.open()
            await world.host.end()
            with pytest.raises(ConnectionRefusedError):
                await world.connect()
            world.host = side_in(tmp_path / "host", world.ways, Quotas())
            world.host.begin()
            async with await world.listen(echo):
                while True:
                    try:
                        reader, writer = await world.connect()
                        break
                    except ConnectionRefusedError:
                        await asyncio.sleep(0.01)
                writer.write(b"again")
                writer.write_eof()
                assert await reader.read() == b"<again>"
                writer.close()
            await world.host.end()

    asyncio.run(test())


def test_a_party_has_as_many_streams_as_its_quota(tmp_path: Path) -> None:
    async def test() -> None:
        quotas = Quotas("9999", PartyQuota(streams=1))
        async with world_in(tmp_path, quotas) as world:
            await world.open()
            begun = asyncio.Event()

            async def held(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                begun.set()
                await echo(reader, writer)

            async with await world.listen(held):
                reader, writer = await world.connect()
                writer.write(b"first")
                await begun.wait()
                with pytest.raises(Refused, match=r"at most 1 \(quotas.default.streams"):
                    world.guest.streams.check(f"{HOST.party_id} at 127.0.0.1")
                writer.write_eof()
                assert await reader.read() == b"<first>"
                writer.close()
                while True:              # until the gateway has seen the end
                    try:
                        world.guest.streams.check(HOST.party_id)
                        break
                    except Refused:
                        await asyncio.sleep(0.01)

    asyncio.run(test())


def test_all_other_parties_together_have_a_number_of_streams(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_in(tmp_path, most=1) as world:
            await world.open()
            begun = asyncio.Event()

            async def held(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                begun.set()
                await echo(reader, writer)

            async with await world.listen(held):
                reader, writer = await world.connect()
                writer.write(b"1")
                await begun.wait()
                with pytest.raises(Refused, match="as many streams of other parties as it can"):
                    world.guest.streams.check("10001")
                writer.write_eof()
                assert await reader.read() == b"<1>"
                writer.close()

    asyncio.run(test())


@pytest.mark.parametrize(("files", "streams"), [(8192, 1792), (2048, 256), (1024, 128)])
def test_there_are_as_many_streams_as_the_process_may_open_files(files: int, streams: int) -> None:
    assert most_streams_with(files) == streams


@pytest.fixture(params=["asked", "read"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of this machine, which is asked; or one that has its tables alone."""
    if request.param == "read":
        monkeypatch.setattr(owners, "_SOCK_DIAG", 31)
        assert owners._finder(PLACE, OWN) is owners._read
    else:
        monkeypatch.setattr(owners, "_lines", lambda: pytest.fail("the tables are read"))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("connects", [socket.AF_INET, socket.AF_INET6])
def test_another_user_of_the_machine_is_told_apart(connects: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.66.7.8", 0)) as listener, socket.socket(connects) as client:
        host, port = listener.getsockname()
        client.connect((host if connects == socket.AF_INET else f"::ffff:{host}", port))      # as gRPC does
        sock, peer = listener.accept()
        with sock:
            assert owners.is_ours(peer, sock.getsockname())
            monkeypatch.setattr(os, "getuid", lambda: 12345)
            assert not owners.is_ours(peer, sock.getsockname())


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("listens", ["127.66.7.8", "0.0.0.0", "::ffff:127.66.7.8", "::ffff:0.0.0.0", "::"])
def test_another_user_is_found_at_each_address_that_reaches_a_worker(
    listens: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    with socket.socket(socket.AF_INET6 if ":" in listens else socket.AF_INET) as listener:
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((listens, 0))
        listener.listen()
        place = ("127.66.7.8", listener.getsockname()[1])
        with socket.create_connection(place) as sock:
            assert owners.leads_to_ours(place, sock.getsockname())
            with monkeypatch.context() as other:
                other.setattr(os, "getuid", lambda: 12345)
                assert not owners.leads_to_ours(place, sock.getsockname())
            accepted, _ = listener.accept()
            with accepted:
                listener.close()
                assert owners.leads_to_ours(place, sock.getsockname())
                monkeypatch.setattr(os, "getuid", lambda: 12345)
                assert not owners.leads_to_ours(place, sock.getsockname())


ME, OTHER, NOBODY = os.getuid(), os.getuid() + 1, 0
PLACE, OWN = ("127.66.7.8", 20_000), ("127.0.0.1", 40_000)


def table(listeners: list[int], connection: tuple[int, int] | None) -> str:
    """What the kernel says: who listens at `PLACE`, and the user and the inode of the other end of the connection."""
    place, own = "0807427F:4E20", "0100007F:9C40"
    lines = [f"0: {place} 00000000:0000 0A 0:0 00:0 0 {user} 0 77 1" for user in listeners]
    lines += [f"1: {own} {place} 01 0:0 00:0 0 {ME} 0 78 1"]
    if connection is not None:
        lines.append(f"2: {place} {own} 01 0:0 00:0 0 {connection[0]} 0 {connection[1]} 1")
    return "\n".join(("sl local_address", *lines))


@pytest.mark.parametrize(
    ("listeners", "connection", "is_ours"),
    [
        ([ME], (NOBODY, 0), True),             # not accepted yet
        ([ME], (ME, 79), True),
        ([], (ME, 79), True),                  # it accepts one connection, and listens no longer
        ([ME], None, True),                    # it has ended the connection already
        ([ME], (OTHER, 79), False),            # has listened first, and no longer does
        ([], (OTHER, 79), False),
        ([OTHER], (NOBODY, 0), False),
        ([ME, OTHER], (NOBODY, 0), False),
        ([], (NOBODY, 0), False),
        ([], None, False),
    ],
)
def test_who_accepts_a_connection_has_it_whoever_listens_by_now(
    listeners: list[int], connection: tuple[int, int] | None, is_ours: bool, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "tcp").write_text(table(listeners, connection), encoding="ascii")
    monkeypatch.setattr(owners, "_TABLES", (tmp_path / "tcp", tmp_path / "tcp6"))
    assert owners.leads_to_ours(PLACE, OWN) == is_ours


def test_a_connection_may_stand_in_the_tables_more_than_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does if others begin while they are read."""
    lines = table([ME], (ME, 79)).splitlines()
    (tmp_path / "tcp").write_text("\n".join([*lines, lines[-1]]), encoding="ascii")
    monkeypatch.setattr(owners, "_TABLES", (tmp_path / "tcp", tmp_path / "tcp6"))
    assert owners.leads_to_ours(PLACE, OWN)


@pytest.mark.parametrize("find", [owners._asked, owners._read])
def test_what_listens_is_no_connection_and_a_connection_does_not_listen(find: owners._Find) -> None:
    with (
        socket.create_server(("127.66.7.8", 0)) as listener, socket.create_server(("127.66.7.9", 0)) as other,
        socket.create_connection(listener.getsockname()) as sock,
    ):  # fmt: skip
        place, own, elsewhere = (one.getsockname() for one in (listener, sock, other))
        assert len(find(place, None)) == len(find(own, place)) == len(find(place, own)) == 1
        assert find(elsewhere, own) == find(own, None) == find(("0.0.0.0", place[1]), None) == set()


def test_nothing_is_sent_to_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.streams.streams.leads_to_ours", lambda *_: False)

    async def test() -> None:
        async with world_in(tmp_path) as world:
            await world.open()
            heard = asyncio.get_running_loop().create_future()

            async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                heard.set_result(await reader.read())
                writer.close()

            async with await world.listen(listen):
                reader, writer = await world.connect()
                writer.write(b"secret")
                with pytest.raises(ConnectionResetError):
                    await reader.read()
                assert await heard == b""
                writer.close()

    asyncio.run(test())
