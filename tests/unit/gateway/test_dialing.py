"""A party without a port of its own keeps connections open at the gateway of another one, which sends over them.

The clock is virtual, so the connections are Unix sockets, whose bytes arrive at once (`virtual_time.py`);
tests/integration/servers/test_real_dialing.py has real ones.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fate_flow.gateway.application import Application
from fate_flow.gateway.dialing import Dialing
from fate_flow.gateway.gateway import Gateway
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.tls_stream import TlsStream
from fate_flow.peers.tls import ALPN, DIAL, client_context, server_context
from tests.kit.gateway.gateway_world import (
    DIALED,
    OWN,
    SOCKET,
    Keys,
    Peer,
    Reply,
    Served,
    StubApplication,
    World,
    gateway_world,
    released,
    request,
    seconds,
    settled,
)
from tests.kit.gateway.virtual_time import run

PARTY = "10000"
LIMITS = Limits()


@dataclass
class Dialer:
    """The gateway of party 10000, which dials party 9999."""

    gateway: Gateway
    keys: Keys
    application: StubApplication


@asynccontextmanager
async def dialing(
    world: World, at: Path | None = None, url: str = "https://127.0.0.1:9390", **limits: int
) -> AsyncIterator[Dialer]:
    """`at`: the socket of another server than the world's gateway."""
    folder, stub = world.folder / "dialer", StubApplication()
    folder.mkdir()
    behind = await asyncio.start_unix_server(stub.serve, str(folder / SOCKET))
    keys = Keys((world.own.peer,))
    keys.to_dial = ((OWN, url),)
    chosen = replace(LIMITS, **limits)
    application = Application(folder, SOCKET, chosen)
    own = world.parties[PARTY].own
    gateway = Gateway(None, own, keys, application, folder, chosen, lambda: world.now_ms[0])
    connect = Dialing._connected

    async def to_socket(one: Dialing) -> tuple[socket.socket, str]:
        ours = one.wanted.url == "https://127.0.0.1:9390"
        return await (connected(str(at or world.address)) if ours else connect(one))

    with patch.object(Dialing, "_connected", to_socket):
        task = asyncio.create_task(gateway.run(lambda: None))
        await settled()
        try:
            yield Dialer(gateway, keys, stub)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            behind.close()
            application.close()


async def connected(path: str) -> tuple[socket.socket, str]:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, path)
    except OSError:
        sock.close()
        raise
    return sock, "127.0.0.1"


async def wants(world: World, party_id: str = PARTY) -> tuple[str, Peer]:
    """A process of the world's server asks for a connection: the line that it gets, "open" with what the TLS connection
    is, and the connection."""
    reader, writer = await asyncio.open_unix_connection(str(world.folder / DIALED))
    writer.write(f"{party_id}\n".encode())
    line = (await reader.readline()).decode().strip()
    if line == f"open TLSv1.3 {world.parties[party_id].peer.key_id}":
        line = "open"
    return line, Peer(reader, writer)


def test_requests_come_over_connections_that_the_party_keeps_open() -> None:
    async def test() -> None:
        async with gateway_world() as world, dialing(world) as dialer:
            said, party = await wants(world)
            assert said == "open"
            for body in (b"{}", b"x" * 3_000_000):
                assert (await party.ask("/v1/party/heartbeat", body)).status == 200
                served = dialer.application.served[-1]
                key = world.own.peer.key_id
                assert (served.values("X-Fate-Flow-Peer"), served.body) == ([f"{OWN} {key}".encode()], body)
            assert world.application.served == []

    run(test())


def test_more_are_opened_as_they_are_used_and_at_most_so_many() -> None:
    go_on = asyncio.Event()

    async def wait(_: Served) -> Reply:
        return await released(go_on)

    async def test() -> None:
        async with gateway_world() as world, dialing(world, kept_of_party=5) as dialer:
            dialer.application.behaves = wait
            parties = []
            for _ in range(5):
                said, party = await wants(world)
                assert said == "open"
                await party.send(request())
                await settled()
                parties.append(party)
            assert (await wants(world))[0] == f"party {PARTY} dials this server, and keeps no connection open now"
            go_on.set()
            for party in parties:
                assert (await party.answer()).status == 200
                party.close()
            await settled()
            assert (await wants(world))[0] == "open"

    run(test())


def test_unused_connections_are_made_anew_before_devices_in_between_forget_them() -> None:
    async def test() -> None:
        async with gateway_world() as world, dialing(world) as dialer:
            await asyncio.sleep(10 * LIMITS.unused_seconds)
            said, party = await wants(world)
            assert (said, (await party.ask()).status) == ("open", 200)
            assert len(dialer.application.served) == 1

    run(test())


def test_a_party_that_is_away_is_waited_for() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            asked = asyncio.create_task(wants(world))
            await asyncio.sleep(1)
            async with dialing(world):
                assert (await asked)[0] == "open"

    run(test())


@pytest.mark.parametrize("line", [b"", b"\n", b"10000", b"-1\n", b"10000 x\n", b"1" * 500, b"\xff\n"])
def test_who_names_no_party_gets_nothing(line: bytes) -> None:
    async def test() -> None:
        async with gateway_world() as world, dialing(world):
            peer = Peer(*await asyncio.open_unix_connection(str(world.folder / DIALED)))
            await peer.send(line)
            assert await peer.rest() == b""

    run(test())


def test_a_party_that_sends_where_it_should_wait_is_not_used() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            context = client_context(world.parties[PARTY].own, [world.own.peer], DIAL)
            peer = await world.connect(context=context)
            await peer.send(request())
            assert await peer.rest() == b""
            assert world.application.served == []
            assert (await wants(world))[0] != "open"

    run(test())


def test_a_party_keeps_only_so_many_connections_unused() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            context = client_context(world.parties[PARTY].own, [world.own.peer], DIAL)
            peers = [await world.connect(context=context) for _ in range(LIMITS.unused_of_party + 2)]
            assert [await peer.rest() for peer in peers[LIMITS.unused_of_party:]] == [b"", b""]
            await world.honest()

    run(test())


def test_a_connection_belongs_to_the_party_of_its_key() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            context = client_context(world.parties["10001"].own, [world.own.peer], DIAL)
            party = await world.connect("10001", context)
            assert (await wants(world, PARTY))[0] != "open"
            assert (await wants(world, "10001"))[0] == "open"
            party.close()

    run(test())


def test_a_process_that_has_given_up_takes_no_connection() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            gone = await asyncio.open_unix_connection(str(world.folder / DIALED))
            gone[1].write(f"{PARTY}\n".encode())
            await settled()
            gone[1].close()
            asked = asyncio.create_task(wants(world))
            await settled()
            party = await world.connect(context=client_context(world.parties[PARTY].own, [world.own.peer], DIAL))
            assert (await asked)[0] == "open"
            party.close()

    run(test())


def test_a_party_that_does_not_close_gives_its_place_back() -> None:
    async def test() -> None:
        async with gateway_world(connections_of_party=1) as world:
            sock, _ = await connected(world.address)
            context = client_context(world.parties[PARTY].own, [world.own.peer], DIAL)
            stays = TlsStream(sock, context, is_client=True)
            await stays.handshake()
            said, process = await wants(world)
            assert said == "open"
            process.close()
            await asyncio.sleep(LIMITS.close_seconds / 2)
            assert (await (await world.connect()).ask()).status == 429
            await asyncio.sleep(LIMITS.close_seconds)
            assert (await (await world.connect()).ask()).status == 200
            sock.close()

    run(test())


def test_a_lack_of_descriptors_is_logged_a_few_times_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with gateway_world() as world, dialing(world):
            loop = asyncio.get_running_loop()
            accept = loop.sock_accept

            async def lacking(listener: socket.socket) -> Any:
                if listener.getsockname().endswith(DIALED):
                    raise OSError(errno.EMFILE, "Too many open files")
                return await accept(listener)

            with patch.object(loop, "sock_accept", lacking):
                assert (await wants(world))[0] == "open", "the one that was waited for already"
                await asyncio.sleep(30)
            assert (await wants(world))[0] == "open"

    run(test())
    text = "refused a connection: no process can send to parties that dial: Too many open files"
    assert [one.message for one in caplog.records if "Too many" in one.message] == [text] * 5


def test_a_request_of_ours_under_way_ends_when_the_gateway_stops_and_no_unused_connection_is_waited_for() -> None:
    go_on = asyncio.Event()

    async def wait(_: Served) -> Reply:
        return await released(go_on)

    async def test() -> None:
        async with gateway_world() as world, dialing(world) as dialer:
            (_, before), (_, working) = await wants(world), await wants(world)
            assert (await before.ask()).status == 200
            dialer.application.behaves = wait
            await working.send(request())
            await asyncio.sleep(1)
            world.task.cancel()
            assert await before.rest() == b""
            await settled()
            assert not world.task.done()
            begun = seconds()
            go_on.set()
            assert (await working.answer()).status == 200
            await asyncio.wait((world.task,))
            assert seconds() - begun < 1

    run(test())


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize("where", ["here", "there"])
def test_a_key_that_is_no_longer_valid_ends_them(where: str, is_used: bool) -> None:
    async def test() -> None:
        async with gateway_world() as world, dialing(world) as dialer:
            party = None
            if is_used:
                _, party = await wants(world)
                assert (await party.ask()).status == 200
            if where == "here":
                world.keys.become(world.parties["10001"].peer)
            else:
                dialer.keys.become()
            await asyncio.sleep(2 * LIMITS.reload_seconds)
            assert party is None or await party.rest() == b""
            assert (await wants(world))[0] != "open"

    run(test())


def test_a_server_of_an_older_release_takes_none_and_is_asked_less_and_less(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def test() -> None:
        async with gateway_world() as world:
            old = server_context(world.own.own, [world.parties[PARTY].peer])
            old.set_alpn_protocols([ALPN])
            begun = 0

            async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                nonlocal begun
                begun += 1
                writer.close()

            path = world.folder / "old.sock"
            server = await asyncio.start_unix_server(take, str(path), ssl=old)
            async with dialing(world, path):
                await asyncio.sleep(300)
            assert 10 < begun < 40
            server.close()

    run(test())
    assert "its release is too old" in caplog.text
    assert len(caplog.records) < 60


@pytest.mark.long
def test_a_server_that_uses_each_connection_and_ends_it_is_dialed_at_a_bounded_rate() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            begun = 0

            async def use(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                nonlocal begun
                begun += 1
                assert begun < 1000, "it is dialed without end"
                writer.write(b"P")
                await asyncio.sleep(0.01)
                writer.transport.abort()

            path = world.folder / "hostile.sock"
            context = server_context(world.own.own, [world.parties[PARTY].peer])
            server = await asyncio.start_unix_server(use, str(path), ssl=context)
            async with dialing(world, path):
                await asyncio.sleep(10)
            assert begun <= LIMITS.kept_of_party + 10 * LIMITS.dials_per_second + 1
            server.close()

    run(test())


def test_another_server_at_the_address_gets_no_request(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with gateway_world() as world:
            other = server_context(world.parties["10001"].own, [world.parties[PARTY].peer])
            path = world.folder / "other.sock"
            server = await asyncio.start_unix_server(lambda *_: None, str(path), ssl=other)
            async with dialing(world, path) as dialer:
                await asyncio.sleep(5)
                assert dialer.application.served == []
            server.close()

    run(test())
    assert "kept open to 127.0.0.1: party 9999: no TLS connection (CERTIFICATE_VERIFY_FAILED)" in caplog.text


def test_nobody_there_is_tried_again_until_somebody_is(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with gateway_world() as world:
            path = world.folder / "later.sock"
            with socket.socket(socket.AF_UNIX) as sock:
                sock.bind(str(path))
            async with dialing(world, path):
                await asyncio.sleep(60)
                path.unlink()
                path.symlink_to(world.address)
                await asyncio.sleep(LIMITS.longest_redial_seconds)
                assert (await wants(world))[0] == "open"

    run(test())
    assert "no connection is kept open to 127.0.0.1: party 9999: connection refused" in caplog.text


def test_after_an_outage_all_spare_connections_come_back_at_once() -> None:
    async def test() -> None:
        async with gateway_world() as world:
            path = world.folder / "later.sock"
            with socket.socket(socket.AF_UNIX) as sock:
                sock.bind(str(path))
            async with dialing(world, path) as dialer:
                await asyncio.sleep(60)              # the pauses have their full length
                path.unlink()
                path.symlink_to(world.address)
                await asyncio.sleep(1)
                assert [(await wants(world))[0] for _ in range(LIMITS.spare)] == ["open"] * LIMITS.spare
                assert dialer.application.served == []

    run(test())


@pytest.mark.parametrize("url", [
    "https://fd00::5:9390", "https://[::1:9390", "https://a..b:9390", f"https://{'a' * 64}.b:9390", "https://:9390",
])  # fmt: skip
def test_an_address_that_is_none_is_named_until_it_is_corrected(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with gateway_world() as world, dialing(world, url=url) as dialer:
            await asyncio.sleep(3 * LIMITS.longest_redial_seconds)
            [still] = [task for task in dialer.gateway._dialing.values() if not task.done()]
            dialer.keys.to_dial = ((OWN, "https://127.0.0.1:9390"),)
            dialer.keys.become(*dialer.keys.keys)
            await asyncio.sleep(2 * LIMITS.reload_seconds)
            assert still.cancelled()
            assert (await wants(world))[0] == "open"

    run(test())
    lines = [one.message for one in caplog.records if f"{url} is not an address that can be dialed" in one.message]
    assert len(lines) == 5, "a few a minute"


def test_a_name_that_cannot_be_resolved_is_named(caplog: pytest.LogCaptureFixture) -> None:
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def test() -> None:
        with patch.object(socket, "getaddrinfo", side_effect=unknown):
            async with gateway_world() as world, dialing(world, url="https://fate.example:9390"):
                await settled()

    run(test())
    assert (
        "kept open to fate.example: party 9999: the name of its host cannot be resolved (Name or service not known)"
        in caplog.text
    )


def test_a_server_that_does_not_know_our_key_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Its refusal comes after the handshake is over on this side."""
    async def test() -> None:
        async with gateway_world() as world:
            world.keys.become(world.parties["10001"].peer)
            await asyncio.sleep(2 * LIMITS.reload_seconds)
            async with dialing(world):
                await asyncio.sleep(5)

    run(test())
    assert "kept open to 127.0.0.1: party 9999: no TLS connection (it accepts none of our keys: its op" in caplog.text


def test_a_party_that_does_not_dial_is_served_as_ever() -> None:
    """Also by a gateway that takes connections for its own requests."""
    async def test() -> None:
        async with gateway_world() as world:
            for protocol in (ALPN, "h2"):
                context = client_context(world.parties[PARTY].own, [world.own.peer], protocol)
                assert isinstance(context, ssl.SSLContext)
                assert (await (await world.connect(context=context)).ask()).status == 200

    run(test())
