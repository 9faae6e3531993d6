"""Two gateways in one event loop, over real sockets: a worker of the host connects, one of the guest listens."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h11

from fate_flow.core.access.joined_party import DIALED
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party, Port
from fate_flow.core.quotas.quota import Quotas
from fate_flow.core.streams.addresses import Address, ends_of
from fate_flow.core.streams.counts import PortCount
from fate_flow.core.streams.stream import USUAL, SignsOfLife
from fate_flow.gateway.application import Answer
from fate_flow.gateway.bodies import Body
from fate_flow.gateway.gateway import Gateway, Listeners
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.open_listeners import OpenListeners
from fate_flow.gateway.shares import Shares
from fate_flow.gateway.unproved import Unproved
from fate_flow.peers.tls import peer_of
from fate_flow.relay.spool_session import Session
from fate_flow.relay.stream_calls import GatewayCalls
from fate_flow.relay.stream_sessions import StreamSession, StreamSessions
from fate_flow.server.listeners.listening import listen_at
from fate_flow.streams.streams import Streams
from fate_flow.streams.ways import Kept, NotOpened, Way
from tests.kit.gateway.gateway_world import Keys
from tests.kit.peers.handshakes import NOW, ms, tls_party

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
    """How each party is reached, by party id; `check`: with which certificate."""

    urls: dict[str, str] = field(default_factory=dict)
    check: Callable[[bytes | None], None] = lambda _: None
    is_revoked: bool = False

    def to(self, party_id: str) -> Way:
        if party_id not in self.urls:
            raise NotOpened(f"party {party_id} has no route here", is_for_now=False)
        return Way(self.urls[party_id], self._fields, check=self.check, still_holds=lambda: not self.is_revoked)

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
        if "/stream/call/" in self.targets[-1]:
            said = {"retcode": 0, "call": True}
        status, text = self.refusals.pop(0) if self.refusals else (200, "")
        found = Body(1 << 20, self.folder)
        found.add(json.dumps({"retcode": status, "retmsg": text} if text else said).encode())
        found.complete()
        return Answer(h11.Response(status_code=status, headers=[]), found)


@dataclass
class Side:
    """The streams of one party, and their folder."""

    folder: Path
    sessions: StreamSessions
    streams: Streams
    task: asyncio.Task[None] | None = None

    def begin(self, kept: Kept | None = None) -> None:
        self.task = asyncio.create_task(self.streams.run(kept))

    async def end(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def call(self, caller: Party = HOST, to: Party = GUEST) -> str:
        """Why no stream could be opened, as a process of this party's server asks its gateway."""
        [why] = await asyncio.to_thread(GatewayCalls(self.folder / "look"), [(caller, to)])
        return why


def side_in(folder: Path, ways: Ways, quotas: Quotas, signs: SignsOfLife = USUAL, most: int = 1000) -> Side:
    (folder / "streams").mkdir(parents=True, exist_ok=True)
    look = listen_at(folder / "look")
    sessions = StreamSessions(folder / "streams", folder / "look")
    return Side(folder, sessions, Streams(sessions, look, ways, quotas, most, signs, keeps_digests=True))


def collected(sessions: StreamSessions, session: Session) -> tuple[PortCount, ...]:
    with sessions.collected(session) as found:
        return found


def carried_until_its_end(sessions: StreamSessions, session: Session) -> tuple[PortCount, ...]:
    """End an attempt; return what its streams have carried."""
    sessions.close(session)
    return collected(sessions, session)


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


def _world(folder: Path, quotas: Quotas, signs: SignsOfLife, most: int = 1000) -> World:
    ways = Ways()
    host, guest = (side_in(folder / name, ways, quotas, signs, most) for name in ("host", "guest"))
    return World(host, guest, AskedApplication(folder), ways)


@asynccontextmanager
async def world_in(
    folder: Path, quotas: Quotas | None = None, signs: SignsOfLife = USUAL, kind: Unproved = Unproved.PLAIN,
    application: AskedApplication | None = None, most: int = 1000,
) -> AsyncIterator[World]:  # fmt: skip
    """The host's gateway has streams; that of the guest also has a listener for other parties, without TLS. `most`
    streams of all other parties."""
    world, limits = _world(folder, quotas or Quotas(), signs, most), Limits()
    world.application = application or world.application
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        world.ways.urls[GUEST.party_id] = f"http://127.0.0.1:{listener.getsockname()[1]}"
        beside = OpenListeners(
            {kind: listener}, GUEST.party_id, world.application, folder, limits, Shares(limits), world.guest.streams
        )
        serving = asyncio.create_task(beside.run())
        for side in (world.host, world.guest):
            side.begin()
        try:
            async with asyncio.timeout(SECONDS):
                yield world
        finally:
            for side in (world.host, world.guest):
                await side.end()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


@dataclass
class DialedWorld(World):
    """`keys_of_guest`: what the guest, which dials, knows of the host."""

    keys_of_guest: Keys


@asynccontextmanager
async def dialed_world_in(folder: Path, **limits: float) -> AsyncIterator[DialedWorld]:
    """The guest has no port: it dials the gateway of the host, which listens with TLS."""
    before, chosen, now = _world(folder, Quotas(), USUAL), replace(Limits(redial_seconds=0.05), **limits), ms(NOW)  # type: ignore[arg-type]
    host, guest = (tls_party(one.party_id, clock=lambda: now) for one in (HOST, GUEST))
    keys_of_host, keys_of_guest = Keys((guest.peer,)), Keys((host.peer,))
    world = DialedWorld(**vars(before), keys_of_guest=keys_of_guest)
    world.ways.urls[GUEST.party_id] = f"{DIALED}{GUEST.party_id}"

    def check(leaf: bytes | None) -> None:
        peer_of(leaf, [guest.peer], now)

    world.ways.check = check
    listener = socket.create_server(("127.0.0.1", 0), backlog=200)
    listener.setblocking(False)
    keys_of_guest.to_dial = ((HOST.party_id, f"https://127.0.0.1:{listener.getsockname()[1]}"),)
    processes = listen_at(folder / "dialed")
    processes.setblocking(False)
    app = world.application
    of_host = Gateway(
        Listeners(listener, processes), host.own, keys_of_host, app, folder, chosen, lambda: now, world.host.streams
    )
    of_guest = Gateway(None, guest.own, keys_of_guest, app, folder, chosen, lambda: now, world.guest.streams)
    ready = asyncio.Event()
    serving = [asyncio.create_task(of_host.run(ready.set))]
    await ready.wait()
    serving.append(asyncio.create_task(of_guest.run(lambda: None)))
    world.host.begin(of_host.dialed)
    world.guest.begin()
    try:
        async with asyncio.timeout(SECONDS):
            yield world
    finally:
        for side in (world.host, world.guest):
            await side.end()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A worker that reads to the end, and then sends back what it has read."""
    writer.write(b"<" + await reader.read() + b">")
    await writer.drain()
    writer.close()


async def answered(world: World, sent: bytes) -> bytes:
    """What a worker of the host gets from an echo of the guest."""
    reader, writer = await world.connect()
    writer.write(sent)
    writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()
