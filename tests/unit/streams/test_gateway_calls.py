"""Whether streams could be opened, as the gateway of the connecting party finds out: it calls the other one."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fate_flow.core.model.spec import Party
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.core.streams.frames import END
from fate_flow.gateway.refusals import Refused
from fate_flow.relay.stream_calls import GatewayCalls
from tests.kit.gateway.gateway_world import UPGRADE, request
from tests.kit.streams.line import Line, a_line
from tests.kit.streams.two_gateways import GUEST, HOST, SECONDS, dialed_world_in, world_in


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no reason why a call fails."""
    for name in ("fate_flow.streams.calls._CALL_SECONDS", "fate_flow.streams.calls._FRAME_SECONDS",
                 "fate_flow.relay.stream_calls._SECONDS"):
        monkeypatch.setattr(name, SECONDS)


def test_a_gateway_that_would_carry_streams_is_found(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_in(tmp_path) as world:
            assert await world.host.call() == ""
            assert world.application.targets == ["/v1/exchange/stream/call/host/10000/guest/9999"]
            assert [*world.guest.sessions.sessions()] == []

    asyncio.run(test())


def test_a_party_that_dials_is_called_over_a_connection_that_it_keeps_open(tmp_path: Path) -> None:
    async def test() -> None:
        async with dialed_world_in(tmp_path) as world:
            assert await world.host.call() == ""
            assert len(world.application.targets) == 1

    asyncio.run(test())


PATH = "/v1/exchange/stream/call/host/10000/guest/9999"


def test_a_call_takes_of_the_streams_of_its_party(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_in(tmp_path, Quotas("9999", PartyQuota(streams=1))) as world:
            streams, place = world.guest.streams, urlsplit(world.ways.urls[GUEST.party_id])
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            writer.write(request(PATH, b"", [("SRC-PARTY-ID", HOST.party_id), *UPGRADE]))
            assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(END)) == END
            with pytest.raises(Refused, match=r"at most 1 \(quotas.default.streams"):
                streams.check(HOST.party_id)
            writer.write(END)
            assert await reader.read() == b""
            writer.close()
            while True:                  # until the gateway has seen the end
                try:
                    streams.check(HOST.party_id)
                    break
                except Refused:
                    await asyncio.sleep(0.01)

    asyncio.run(test())


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (426, "its server has no gateway", "its server has no gateway"),
        (403, "src_party_id: no key of party 10000", "src_party_id: no key of party 10000"),
        (429, "too many streams at the moment", ""),
    ],
)
def test_a_refusal_is_told(tmp_path: Path, status: int, text: str, expected: str) -> None:
    async def test() -> None:
        async with world_in(tmp_path) as world:
            world.application.refusals = [(status, text)]
            assert await world.host.call() == expected

    asyncio.run(test())


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_in(tmp_path) as world:
            with socket.socket() as unused:
                unused.bind(("127.0.0.1", 0))          # and nobody listens
                world.ways.urls["10001"] = f"http://127.0.0.1:{unused.getsockname()[1]}"
                assert await world.host.call(to=Party("host", "10001")) == (
                    "its server is not reached: connection refused"
                )
            assert await world.host.call(to=Party("host", "10002")) == "party 10002 has no route here"

    asyncio.run(test())


def test_a_proxy_that_passes_on_requests_alone_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    async def test() -> None:
        async with world_in(tmp_path) as world, a_line(Line(world.ways.urls[GUEST.party_id])) as line:
            world.ways.urls[GUEST.party_id] = line.url
            assert await world.host.call() == ""
            line.passes_upgraded = False
            monkeypatch.setattr("fate_flow.streams.calls._FRAME_SECONDS", 0.2)
            assert "passes on no bytes after an upgrade" in await world.host.call()

    asyncio.run(test())


def test_all_pairs_are_called_in_one_question(tmp_path: Path) -> None:
    pairs = [(HOST, GUEST)] * 20

    async def test() -> None:
        async with world_in(tmp_path) as world:
            calls = GatewayCalls(world.host.folder / "look")
            assert await asyncio.to_thread(calls, pairs) == [""] * 20
            assert len(world.application.targets) == 20

    asyncio.run(test())


def test_without_a_gateway_every_pair_is_out_of_reach(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_in(tmp_path) as world:
            assert await world.host.call() == ""
            await world.host.end()
            assert await world.host.call() == "the gateway of its own server does not answer"

    asyncio.run(test())
