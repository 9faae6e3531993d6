"""Streams over lines as they are: proxies that end silent connections, and lines that are slow."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.streams.frames import ALIVE, LONGEST, WINDOW
from fate_flow.core.streams.stream import SignsOfLife
from fate_flow.gateway.unproved import Unproved
from tests.kit.streams.line import Line, a_line
from tests.kit.streams.two_gateways import GUEST, World, answered, echo, world_in

OFTEN = SignsOfLife(alive_seconds=0.3, silence_seconds=60.0)
SELDOM = SignsOfLife(alive_seconds=600.0, silence_seconds=1200.0)
CUT_SECONDS = 3.0
SIGNS = 40                 # in both directions together; they take two times as long as the proxy waits
SLOW = 50_000              # bytes a second


async def over(world: World, line: Line) -> None:
    """The host reaches the guest through this line from now on."""
    world.ways.urls[GUEST.party_id] = line.url
    await world.open()


@pytest.mark.parametrize("signs", [OFTEN, SELDOM], ids=["with signs of life", "without"])
def test_silence_behind_a_proxy_that_ends_silent_connections(tmp_path: Path, signs: SignsOfLife) -> None:
    """Both workers say nothing for longer than the proxy waits. Without signs of life, it ends the connection."""

    async def test() -> None:
        async with world_in(tmp_path, signs=signs, kind=Unproved.PROXY) as world:
            async with a_line(Line(world.ways.urls[GUEST.party_id], idle_seconds=CUT_SECONDS)) as line:
                await over(world, line)
                async with await world.listen(echo):
                    reader, writer = await world.connect()
                    writer.write(b"before")
                    while line.passed < 400:                # the request, and its answer
                        await asyncio.sleep(0.01)
                    if signs is SELDOM:
                        with pytest.raises(ConnectionResetError):
                            await reader.read()
                        assert line.cut
                        return
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
        async with world_in(tmp_path) as world:
            fast = world.ways.urls[GUEST.party_id]
            async with a_line(Line(fast, bytes_per_second=SLOW)) as line:
                await over(world, line)
                async with await world.listen(echo):
                    writers = [(await world.connect())[1] for _ in range(100)]
                    for number, writer in enumerate(writers):
                        writer.write(bytes(LONGEST if number else 16 * LONGEST))
                    while len(lines_of(world)) < 100 or not max(waiting_in(world)):
                        await asyncio.sleep(0.05)
                    assert max(waiting_in(world)) <= WINDOW + LONGEST
                    world.ways.urls[GUEST.party_id] = fast
                    assert await answered(world, b"quick") == b"<quick>"
                    assert await world.host.call() == ""
                    assert max(waiting_in(world)) > 0          # the slow ones are not done
                    for writer in writers:
                        writer.transport.abort()

    asyncio.run(test())


def lines_of(world: World) -> list[Any]:
    """The ends at the host's gateway that lead to the other one."""
    return [stream.line for one in world.host.streams._attempts.values() for stream in one.streams]


def waiting_in(world: World) -> list[int]:
    """How many bytes wait in the host's gateway, for each connection."""
    return [one.transport.get_write_buffer_size() for one in lines_of(world)]


def test_what_nobody_takes_is_not_read(tmp_path: Path) -> None:
    """A worker that reads nothing: the other one cannot send more than fits on the way."""

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
                [stream] = [one for each in world.host.streams._attempts.values() for one in each.streams]
                assert stream.carried.sent <= WINDOW + LONGEST
                go_on.set()
                writer.write_eof()
                assert len(await reader.read()) == sent + 2
                writer.close()

    asyncio.run(test())
