"""Streams between workers through two gateways in one event loop, over real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h11
import pytest

from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party, Port
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.core.streams.addresses import Address, ends_of
from fate_flow.core.streams.counts import PortCount
from fate_flow.gateway.application import Answer
from fate_flow.gateway.bodies import Body
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.open_listeners import OpenListeners
from fate_flow.gateway.refusals import Refused
from fate_flow.gateway.shares import Shares
from fate_flow.gateway.unproved import Unproved
from fate_flow.relay.spool_session import Session
from fate_flow.relay.stream_sessions import StreamSession, StreamSessions
from fate_flow.streams import owners
from fate_flow.streams.streams import Streams
from fate_flow.streams.ways import NotOpened, Way

SECONDS = 60.0
JOB = f"20260101{os.getpid():010d}"       # so that tests in other processes have other addresses
GUEST, HOST = Party("guest", "9999"), Party("host", "10000")
PORTS = (Port("fl", (GUEST,), (HOST,)),)


def session_of(party: Party) -> StreamSession:
    key = TaskKey(JOB, "train", 0, party)
    session = Session(JOB, key.task_id, 0, "abcdef01", party.role, party.party_id)
    return StreamSession(session, "", ends_of(PORTS, key, "abcdef01"))


@dataclass
class Ways:
    """How each party is reached."""

    urls: dict[str, str] = field(default_factory=dict)

    def to(self, party_id: str) -> Way:
        if party_id not in self.urls:
            raise NotOpened(f"party {party_id} has no route here", is_for_now=False)
        return Way(self.urls[party_id], self._fields)

    def _fields(self, _: str) -> Mapping[str, str]:
        return {"SRC-PARTY-ID": HOST.party_id, "DEST-PARTY-ID": GUEST.party_id}


@dataclass
class AskedApplication:
    """The application of the guest: allows each stream to its listening worker, or says what a test wants."""

    folder: Path
    refusals: list[tuple[int, str]] = field(default_factory=list)        # the next answers
    targets: list[str] = field(default_factory=list)

    async def ask(self, identity: bytes, request: h11.Request, body: Body) -> Answer:
        assert (b"x-fate-flow-stream", b"1") in list(request.headers)
        self.targets.append(request.target.decode())
        one = session_of(GUEST)
        said: dict[str, Any] = {
            "retcode": 0, "session": vars(one.session), "port": "fl", "from": vars(HOST),
            "address": vars(one.ends.listens[0].address),
        }  # fmt: skip
        status, text = self.refusals.pop(0) if self.refusals else (200, "")
        found = Body(1 << 20, self.folder)
        found.add(json.dumps({"retcode": status, "retmsg": text} if text else said).encode())
        found.complete()
        return Answer(h11.Response(status_code=status, headers=[]), found)


@dataclass
class Side:
    """The streams of one party, and their folder."""

    sessions: StreamSessions
    streams: Streams
    task: asyncio.Task[None]


@dataclass
class World:
    host: Side
    guest: Side
    application: AskedApplication
    ways: Ways

    @property
    def listens_at(self) -> Address:
        return session_of(GUEST).ends.listens[0].address

    @property
    def connects_at(self) -> Address:
        return session_of(HOST).ends.connects[0].address

    async def open(self) -> None:
        """Both parties begin the attempt."""
        for side, party in ((self.host, HOST), (self.guest, GUEST)):
            await asyncio.to_thread(side.sessions.open, session_of(party))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection of a worker of the host."""
        return await asyncio.open_connection(self.connects_at.host, self.connects_at.port)

    async def listen(
        self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]
    ) -> asyncio.Server:  # fmt: skip
        return await asyncio.start_server(serve, self.listens_at.host, self.listens_at.port)


def side_in(folder: Path, ways: Ways, quotas: Quotas) -> Side:
    (folder / "streams").mkdir(parents=True, exist_ok=True)
    (folder / "look").unlink(missing_ok=True)
    look = socket.socket(socket.AF_UNIX)
    look.bind(str(folder / "look"))
    look.listen()
    sessions = StreamSessions(folder / "streams", folder / "look")
    streams = Streams(sessions, look, ways, quotas)
    return Side(sessions, streams, asyncio.create_task(streams.run()))


async def ended(side: Side) -> None:
    side.task.cancel()
    await asyncio.gather(side.task, return_exceptions=True)


@asynccontextmanager
async def world_in(folder: Path, quotas: Quotas | None = None) -> AsyncIterator[World]:
    """The host's gateway has streams; that of the guest also has a listener for other parties."""
    ways, application, limits = Ways(), AskedApplication(folder), Limits()
    host, guest = (side_in(folder / name, ways, quotas or Quotas()) for name in ("host", "guest"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        ways.urls["9999"] = f"http://127.0.0.1:{listener.getsockname()[1]}"
        beside = OpenListeners(
            {Unproved.PLAIN: listener}, "9999", application, folder, limits, Shares(limits), guest.streams
        )
        serving = asyncio.create_task(beside.run())
        try:
            async with asyncio.timeout(SECONDS):
                yield World(host, guest, application, ways)
        finally:
            for side in (host, guest):
                await ended(side)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A worker that reads to the end, and then sends back what it has read."""
    writer.write(b"<" + await reader.read() + b">")
    await writer.drain()
    writer.close()


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
                await asyncio.to_thread(side.sessions.close, session_of(party).session)
                for side, party in ((world.host, HOST), (world.guest, GUEST))
            ]
            there, back = len(sent), len(sent) + 2
            assert [[replace(one, seconds=0.0) for one in each] for each in counts] == [
                [PortCount("fl", GUEST, 1, there, back)], [PortCount("fl", HOST, 1, back, there)],
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
                await asyncio.to_thread(side.sessions.close, session_of(party).session)
                with pytest.raises(ConnectionResetError):
                    await reader.read()
                await lost.wait()
            if closed == 0:
                with pytest.raises(ConnectionRefusedError):
                    await world.connect()

    asyncio.run(test())


def test_what_a_worker_has_sent_arrives_although_its_attempt_is_over(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_in(tmp_path) as world:
            await world.open()
            _, writer = await world.connect()
            writer.write(b"the last words")
            writer.close()
            await writer.wait_closed()
            while not world.application.targets:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(world.host.sessions.close, session_of(HOST).session)
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
            [count] = world.host.sessions.collect(late[0])
            assert replace(count, seconds=0.0) == PortCount("fl", GUEST, 1, len(b"the last words"), 0)
            assert world.host.sessions.collect(late[0]) == world.host.sessions.uncollected() == ()

    asyncio.run(test())


def test_a_stream_that_is_opened_after_the_attempt_of_its_worker_is_counted(tmp_path: Path) -> None:
    """A worker may connect, write, and end before the other gateway has answered."""

    async def test() -> None:
        async with world_in(tmp_path) as world:
            world.application.refusals = [(425, "the attempt has not begun")] * 2
            await world.open()
            _, writer = await world.connect()
            writer.write(b"the last words")
            writer.close()
            await writer.wait_closed()
            while not world.application.targets:
                await asyncio.sleep(0.01)
            assert await asyncio.to_thread(world.host.sessions.close, session_of(HOST).session) == ()
            async with await world.listen(echo):
                while not (late := world.host.sessions.uncollected()):
                    await asyncio.sleep(0.01)
            [count] = world.host.sessions.collect(late[0])
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
            await ended(world.host)
            with pytest.raises(ConnectionRefusedError):
                await world.connect()
            world.host = side_in(tmp_path / "host", world.ways, Quotas())
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
            await ended(world.host)

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


def test_another_user_of_the_machine_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.66.7.8", 0)) as listener:
        place = listener.getsockname()
        with socket.create_connection(place) as client:
            sock, _ = listener.accept()
            with sock:
                ends = client.getsockname(), sock.getsockname()
                assert owners.is_ours(*ends)
                assert not owners.foreign_listener(place)
                monkeypatch.setattr(os, "getuid", lambda: 12345)
                assert not owners.is_ours(*ends)
                assert owners.foreign_listener(place)
