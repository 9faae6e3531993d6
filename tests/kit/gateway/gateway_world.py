"""A gateway in a test's own event loop: its peers, hostile ones too, and an application that a test directs."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h11

from fate_flow.core.record.refusal_counts import Cause
from fate_flow.gateway.application import Application
from fate_flow.gateway.gateway import Gateway, Listeners
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.peer_connection import Upgraded
from fate_flow.gateway.peers import Peers
from fate_flow.peers.tls import PeerKey, client_context
from tests.kit.peers.handshakes import NOW, TlsParty, ms, tls_party

SOCKET, DIALED = "parties.sock", "dialed.sock"
OWN = "9999"


@dataclass
class Keys:
    """The peers of a gateway; a test may change them."""

    keys: tuple[PeerKey, ...]
    version: int = 1
    may_join: bool = False           # whether strangers may
    failure: Exception | None = None
    to_dial: tuple[tuple[str, str], ...] = ()

    def read(self, known: Peers) -> Peers:
        if self.failure is not None:
            raise self.failure
        return known if known.version == self.version else Peers(self.version, self.keys, self.may_join, self.to_dial)

    def let_join(self, may_join: bool) -> None:
        self.may_join, self.version = may_join, self.version + 1

    def become(self, *keys: PeerKey) -> None:
        self.keys, self.version = keys, self.version + 1


@dataclass
class Served:
    """A request as the application got it."""

    head: h11.Request
    body: bytes

    def values(self, name: str) -> list[bytes]:
        return [value for found, value in self.head.headers if found == name.lower().encode()]


Reply = tuple[int, list[tuple[str, str]], bytes]
Behaviour = Callable[[Served], Awaitable[Reply]]


async def _ok(served: Served) -> Reply:
    return 200, [("Content-Type", "application/json")], json.dumps({"retcode": 0, "bytes": len(served.body)}).encode()


@dataclass
class StubApplication:
    """Reads requests, and answers as `behaves` says; it keeps connections, as gunicorn does."""

    served: list[Served] = field(default_factory=list)
    behaves: Behaviour = _ok
    at_work: int = 0
    most_at_work: int = 0
    connections: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER)
        self.connections.append(writer)
        try:
            while (request := await self._next(http, reader)) is not None:
                await self._serve(http, request, reader, writer)
                if http.our_state is not h11.DONE:
                    break
                http.start_next_cycle()
        except (asyncio.CancelledError, ConnectionError):
            pass                # the test is over, or the gateway has given up
        finally:
            writer.close()

    async def _next(self, http: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
        while not isinstance(event := http.next_event(), h11.Request):
            if event is not h11.NEED_DATA:
                return None
            http.receive_data(await reader.read(65536))
        return event

    async def _serve(
        self, http: h11.Connection, request: h11.Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:  # fmt: skip
        body = b""
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            while not isinstance(event := http.next_event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    http.receive_data(await reader.read(65536))
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
            served = Served(request, body)
            self.served.append(served)
            status, head, content = await self.behaves(served)
            fields = [*head, ("Content-Length", str(len(content)))]
            sent = b"" if request.method == b"HEAD" else content
            answer = [h11.Response(status_code=status, headers=fields), h11.Data(data=sent), h11.EndOfMessage()]
            writer.write(b"".join(http.send(one) or b"" for one in answer))
            await writer.drain()
        finally:
            self.at_work -= 1


class Peer:
    """A party's connection to the gateway, which may send anything."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._http = h11.Connection(h11.CLIENT)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def rest(self) -> bytes:
        """All that the gateway sends until it ends the connection; empty if it is reset."""
        with suppress(ConnectionError, ssl.SSLError):
            return await self.reader.read()
        return b""

    async def ask(
        self, path: str = "/v1/party/heartbeat", body: bytes = b"{}", head: Sequence[tuple[str, str]] = ()
    ) -> Answered:
        """An ordinary request, and its answer."""
        await self.send(request(path, body, head))
        return await self.answer()

    async def answer(self) -> Answered:
        """The next answer."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = await self.reader.read(65536)
            assert more, f"the gateway has ended the connection after {data!r}"
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        while len(body) < int(fields.get("content-length", "0")):
            more = await self.reader.read(65536)
            assert more, "the gateway has ended the connection within its answer"
            body += more
        return Answered(int(lines[0].split()[1]), fields, body)

    def close(self) -> None:
        self.writer.transport.abort()


@dataclass
class Answered:
    status: int
    head: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return str(json.loads(self.body)["retmsg"])


def request(
    path: str = "/v1/party/heartbeat", body: bytes = b"{}", head: Sequence[tuple[str, str]] = (), method: str = "POST"
) -> bytes:
    fields = [("Host", "fate.example"), ("Content-Length", str(len(body))), *head]
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


RefusedCaller = tuple[Cause, str, str, int]
"""Why, the address (empty at a Unix socket), the party if a key has proved it, and the status."""


@dataclass
class World:
    """A gateway of party 9999 with the peers 10000 and 10001, which it knows, and 10002, which it does not."""

    folder: Path
    keys: Keys
    application: StubApplication
    own: TlsParty
    parties: dict[str, TlsParty]
    gateway: Gateway
    task: asyncio.Task[None]
    now_ms: list[int]
    refused: list[RefusedCaller]         # what was counted for the record

    @property
    def address(self) -> str:
        return str(self.folder / "gateway.sock")

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection without TLS."""
        return await asyncio.open_unix_connection(self.address)

    async def connect(self, party_id: str = "10000", context: ssl.SSLContext | None = None) -> Peer:
        """A connection of this party, whose handshake is over on its side."""
        mine = context or client_context(self.parties[party_id].own, [self.own.peer])
        found = await asyncio.open_unix_connection(self.address, ssl=mine, server_hostname="gateway")
        return Peer(*found)

    async def honest(self) -> None:
        """An honest peer is served."""
        peer = await self.connect("10001")
        assert (await peer.ask()).status == 200
        peer.close()


@dataclass
class HeldStreams:
    """Carries nothing: each stream stays open until the end of the test."""

    carried: list[Upgraded] = field(default_factory=list)

    def check(self, share: str) -> None:
        """There may be any number."""

    async def carry(self, upgraded: Upgraded) -> None:
        self.carried.append(upgraded)
        await asyncio.Event().wait()


STREAM_JOB = "202601010000000000001"
STREAM_PATH = f"/v1/exchange/stream/{STREAM_JOB}/{STREAM_JOB}_train/0/abcdef01/host/10000/guest/9999/fl"
UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "fate-flow-stream")]
SAID = {
    "retcode": 0, "port": "fl", "from": {"role": "host", "party_id": "10000"},
    "address": {"host": "127.66.7.8", "port": 40000},
    "session": {
        "job_id": STREAM_JOB, "task_id": f"{STREAM_JOB}_train", "version": 0, "incarnation": "abcdef01",
        "role": "guest", "party_id": "9999",
    },
}  # fmt: skip
"""How an application allows a stream."""


async def allows_streams(served: Served) -> Reply:
    """How an application behaves that allows each stream."""
    return 200, [], json.dumps(SAID if served.values("X-Fate-Flow-Stream") else {"retcode": 0}).encode()


@asynccontextmanager
async def gateway_world(
    *, behaves: Behaviour = _ok, streams: HeldStreams | None = None, **limits: Any
) -> AsyncIterator[World]:  # fmt: skip
    """`limits`: those of the gateway that differ from the defaults."""
    with tempfile.TemporaryDirectory(prefix="gw") as name:
        folder = Path(name)
        now = [ms(NOW)]
        own = tls_party(OWN, clock=lambda: now[0])
        parties = {one: tls_party(one, clock=lambda: now[0]) for one in ("10000", "10001", "10002")}
        keys = Keys((parties["10000"].peer, parties["10001"].peer))
        stub = StubApplication(behaves=behaves)
        behind = await asyncio.start_unix_server(stub.serve, str(folder / SOCKET), limit=1 << 20)
        listeners = Listeners(listening(folder / "gateway.sock"), listening(folder / DIALED))
        chosen = replace(Limits(), **limits)
        application = Application(folder, SOCKET, chosen)
        refused: list[RefusedCaller] = []
        gateway = Gateway(
            listeners, own.own, keys, application, folder, chosen, lambda: now[0], streams,
            lambda *refusal: refused.append(refusal),
        )  # fmt: skip
        ready = asyncio.Event()
        task = asyncio.create_task(gateway.run(ready.set))
        await ready.wait()
        try:
            yield World(folder, keys, stub, own, parties, gateway, task, now, refused)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            behind.close()
            application.close()


def listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(1024)
    listener.setblocking(False)
    return listener


# ---------------------------------------------------------------------- short ways


def seconds() -> float:
    """The time of the virtual clock."""
    return asyncio.get_running_loop().time()


async def settled() -> None:
    """Wait until nothing is left to do without the passing of time."""
    await asyncio.sleep(0.001)


async def released(go_on: asyncio.Event, reply: Reply = (200, [], b"{}")) -> Reply:
    """How an application behaves that answers once it is let."""
    await go_on.wait()
    return reply


async def is_refused(world: World, context: ssl.SSLContext) -> bool:
    """Whether the gateway ends a connection with this context without an answer."""
    try:
        peer = await world.connect(context=context)
        await peer.send(request())
    except (ConnectionError, ssl.SSLError):
        return True
    return await peer.rest() == b""
