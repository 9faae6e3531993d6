"""Streams over lines as they are: proxies that end silent connections, and lines that are slow."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fate_flow.core.streams.frame_pace import FRAMES_PER_SECOND
from fate_flow.core.streams.frames import ALIVE, LONGEST, MOST_UNREAD, WINDOW, data_head
from fate_flow.core.streams.stream import SignsOfLife, Stream
from fate_flow.gateway.unproved import Unproved
from fate_flow.streams.ends import LineEnd, WorkerEnd
from tests.kit.core.streams import HandEnd
from tests.kit.gateway.virtual_time import run
from tests.kit.streams.line import Line, a_line
from tests.kit.streams.two_gateways import GUEST, Side, World, answered, echo, world_in

OFTEN = SignsOfLife(alive_seconds=0.3, silence_seconds=60.0)
SELDOM = SignsOfLife(alive_seconds=600.0, silence_seconds=1200.0)
CUT_SECONDS = 3.0
SIGNS = 44                 # in both directions together; they take two times as long as the proxy waits
SLOW = 50_000              # bytes a second


async def over(world: World, line: Line) -> None:
    """The host reaches the guest through this line from now on."""
    world.ways.urls[GUEST.party_id] = line.url
    await world.open()


@pytest.mark.parametrize("signs", [OFTEN, SELDOM], ids=["with signs of life", "without"])
def test_silence_behind_a_proxy_that_ends_silent_connections(tmp_path: Path, signs: SignsOfLife) -> None:
    """Both workers say nothing for longer than the proxy waits. Without signs of life, it ends the connection."""

    async def test() -> None:
        async with (
            world_in(tmp_path, signs=signs, kind=Unproved.PROXY) as world,
            a_line(Line(world.ways.urls[GUEST.party_id], idle_seconds=CUT_SECONDS)) as line,
        ):
            await over(world, line)
            async with await world.listen(echo):
                reader, writer = await world.connect()
                writer.write(b"before")
                if signs is SELDOM:
                    with pytest.raises(ConnectionResetError):
                        await reader.read()
                    assert line.cut
                    return
                while not streams_of(world.host):
                    await asyncio.sleep(0.01)
                before = line.passed
                while line.passed < before + SIGNS * len(ALIVE):
                    await asyncio.sleep(0.05)
                writer.write(b" after")
                writer.write_eof()
                assert await reader.read() == b"<before after>"
                writer.close()

    asyncio.run(test())


def test_a_slow_line_holds_up_its_own_streams_alone(tmp_path: Path) -> None:
    """A hundred streams over slow connections: what waits for each is bounded, and other streams and calls are
    answered at once."""

    async def test() -> None:
        async with (
            world_in(tmp_path) as world,
            a_line(Line(world.ways.urls[GUEST.party_id], bytes_per_second=SLOW)) as line,
        ):
            fast = line.target
            await over(world, line)
            async with await world.listen(echo):
                writers = [(await world.connect())[1] for _ in range(100)]
                for number, writer in enumerate(writers):
                    writer.write(bytes(LONGEST if number else 16 * LONGEST))
                while sum(one.carried.sent > 0 for one in streams_of(world.host)) < 100:
                    await asyncio.sleep(0.05)
                assert max(waiting_in(world)) <= WINDOW + LONGEST
                world.ways.urls[GUEST.party_id] = fast
                assert await answered(world, b"quick") == b"<quick>"
                assert await world.host.call() == ""
                sent, taken = (sum(one.carried.sent for one in streams_of(world.host)),
                               sum(one.carried.received for one in streams_of(world.guest)))
                assert taken < sent < (99 + 16) * LONGEST          # the slow ones are not done
                for writer in writers:
                    writer.transport.abort()

    asyncio.run(test())


def streams_of(side: Side) -> list[Stream]:
    return [stream for one in side.streams._attempts.values() for stream in one.streams]


def waiting_in(world: World) -> list[int]:
    """How many bytes wait in the host's gateway, for each connection."""
    return [one.line.transport.get_write_buffer_size() for one in streams_of(world.host)]  # type: ignore[attr-defined]


def test_what_nobody_takes_is_not_read(tmp_path: Path) -> None:
    """A worker that reads nothing: the gateways keep no more for it than they may, and the other worker is not read."""

    async def test() -> None:
        async with world_in(tmp_path) as world:
            await world.open()
            go_on, taken = asyncio.Event(), asyncio.Event()

            async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                taken.set()
                await go_on.wait()
                await echo(reader, writer)

            async with await world.listen(late):
                reader, writer = await world.connect()
                await taken.wait()
                writer.transport.set_write_buffer_limits(0)
                sent = 0
                while True:
                    writer.write(bytes(LONGEST))
                    sent += LONGEST
                    try:
                        async with asyncio.timeout(0.5):
                            await writer.drain()
                    except TimeoutError:
                        break
                [one], [other] = streams_of(world.host), streams_of(world.guest)
                assert one.carried.sent - other.carried.received <= WINDOW + LONGEST
                assert other.worker.transport.get_write_buffer_size() <= MOST_UNREAD  # type: ignore[union-attr]
                go_on.set()
                writer.write_eof()
                assert len(await reader.read()) == sent + 2
                writer.close()

    asyncio.run(test())


@pytest.mark.parametrize("end", [lambda: LineEnd(None, time.monotonic), WorkerEnd], ids=["line", "worker"])
def test_a_connection_that_is_given_up_before_it_has_a_stream_ends_without_an_error(
    end: Callable[[], asyncio.Protocol], caplog: pytest.LogCaptureFixture
) -> None:
    """As when the attempt ends in the moment in which its stream begins."""

    async def test() -> None:
        here, there = socket.socketpair()
        here.setblocking(False)
        with there:
            connecting = asyncio.create_task(asyncio.get_running_loop().connect_accepted_socket(end, here))
            await asyncio.sleep(0)
            connecting.cancel()
            await asyncio.wait((connecting,))
            while here.fileno() != -1:
                await asyncio.sleep(0)

    asyncio.run(test())
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_a_flood_of_tiny_frames_is_taken_slowly_and_ends_nothing() -> None:
    async def test() -> None:
        loop, worker = asyncio.get_running_loop(), HandEnd()
        near, far = socket.socketpair()
        with far:
            far.setblocking(False)
            _, line = await loop.connect_accepted_socket(lambda: LineEnd(None, loop.time), near)
            stream = line.stream = Stream(line, loop.time())
            stream.connected(worker)
            line.begin(ALIVE * 3000)
            await loop.sock_sendall(far, ALIVE * (2 * FRAMES_PER_SECOND) + data_head(4) + b"done")
            while not worker.written:
                await asyncio.sleep(0.1)
            assert loop.time() > 1.0
            assert (bytes(worker.written), stream.is_over) == (b"done", False)
            line.abort()

    run(test())
