"""Streams to a party without a port: it keeps connections open, and one of these carries each stream."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.kit.streams.two_gateways import answered, dialed_world_in, echo


def test_bytes_pass_in_both_directions(tmp_path: Path) -> None:
    sent = os.urandom(2_000_000)

    async def test() -> None:
        async with dialed_world_in(tmp_path) as world:
            await world.open()
            async with await world.listen(echo):
                assert await answered(world, sent) == b"<" + sent + b">"

    asyncio.run(test())


@pytest.mark.long
def test_streams_are_not_among_the_connections_that_are_kept(tmp_path: Path) -> None:
    """A party keeps 32 connections; more streams than that are open at once, and requests still find one."""

    async def test() -> None:
        async with dialed_world_in(tmp_path, dials_per_second=1000.0) as world:
            await world.open()
            async with await world.listen(echo):
                open_ = [await world.connect() for _ in range(40)]
                for number, (_, writer) in enumerate(open_):
                    writer.write(b"%d" % number)
                while len(world.application.targets) < 40:
                    await asyncio.sleep(0.01)
                assert await world.host.call() == ""
                for number, (reader, writer) in enumerate(open_):
                    writer.write_eof()
                    assert await reader.read() == b"<%d>" % number
                    writer.close()

    asyncio.run(test())


@pytest.mark.parametrize("by", ["host", "guest"])
def test_a_key_that_either_party_revokes_ends_the_streams(tmp_path: Path, by: str) -> None:
    async def test() -> None:
        async with dialed_world_in(tmp_path) as world:
            await world.open()
            async with await world.listen(echo):
                reader, writer = await world.connect()
                writer.write(b"hello")
                while not world.application.targets:
                    await asyncio.sleep(0.01)
                if by == "host":
                    world.ways.is_revoked = True
                else:
                    world.keys_of_guest.become()
                with pytest.raises(ConnectionResetError):
                    await reader.read()

    asyncio.run(test())
