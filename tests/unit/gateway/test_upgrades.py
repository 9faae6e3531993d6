"""Connections that carry a stream: which ones do, and what they take of the gateway.

The clock is virtual (`virtual_time.py`), so that the real limits are reached at once.
"""

from __future__ import annotations

from tests.kit.gateway.gateway_world import STREAM_PATH, UPGRADE, HeldStreams, allows_streams, gateway_world, seconds
from tests.kit.gateway.virtual_time import run


def test_streams_are_not_among_the_connections() -> None:
    async def test() -> None:
        streams = HeldStreams()
        async with gateway_world(behaves=allows_streams, streams=streams, connections=2) as world:
            peers = []
            for _ in range(3):
                peers.append(await world.connect())
                assert (await peers[-1].ask(STREAM_PATH, b"", UPGRADE)).status == 101
            await world.honest()
            assert seconds() < 1
            assert len(streams.carried) == 3
            for peer in peers:
                peer.close()

    run(test())
