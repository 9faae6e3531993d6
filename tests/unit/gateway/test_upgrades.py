"""Connections that carry a stream: which ones do, and what they take of the gateway.

The clock is virtual (`virtual_time.py`), so that the real limits are reached at once.
"""

from __future__ import annotations

import json
import logging

import pytest

from tests.kit.gateway.gateway_world import (
    SAID,
    STREAM_PATH,
    UPGRADE,
    HeldStreams,
    Reply,
    Served,
    allows_streams,
    gateway_world,
    seconds,
)
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


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/v1/party/keys", {"retcode": 0, "keys": []}),
        ("/v1/party/keys", SAID),
        ("/v1/exchange/streams", SAID),
        (STREAM_PATH, {"retcode": 403, "retmsg": "not granted"}),
        (STREAM_PATH, {**SAID, "retcode": 403}),
        (STREAM_PATH, {"retcode": 0}),
        (STREAM_PATH, [SAID]),
        (STREAM_PATH, "text"),
    ],
)
def test_an_answer_that_allows_no_stream_is_passed_on_and_logged_nowhere(
    path: str, content: object, caplog: pytest.LogCaptureFixture
) -> None:
    body = b"{text" if content == "text" else json.dumps(content).encode()

    async def answers(served: Served) -> Reply:
        assert bool(served.values("X-Fate-Flow-Stream")) == (served.head.target.decode() == STREAM_PATH)
        return 200, [], body

    async def test() -> None:
        streams = HeldStreams()
        async with gateway_world(behaves=answers, streams=streams) as world:
            peer = await world.connect()
            answer = await peer.ask(path, b"", UPGRADE)
            assert (answer.status, answer.body) == (200, body)
            assert streams.carried == []
            await world.honest()
            peer.close()

    with caplog.at_level(logging.WARNING):
        run(test())
    assert caplog.records == []
