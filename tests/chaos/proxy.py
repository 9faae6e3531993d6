"""Between each ordered pair of parties: a proxy that loses, delays, repeats and cuts what goes through it.

It understands just enough HTTP to know where a message ends, since faults are done to whole requests and replies:
which of the two is lost makes the difference. All links are served by one thread.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

ADDRESS = "127.0.0.1"
LOOK_SECONDS = 0.05              # how soon what is held back sees that the weather has changed
LONGEST_HEAD = 64 * 1024

CALM, RAIN, REFUSING, SILENT, DEAF = "calm", "rain", "refusing", "silent", "deaf"
WEATHERS = {
    CALM: "everything passes",
    RAIN: "some requests meet one of FAULTS",
    REFUSING: "every connection is cut",
    SILENT: "requests do not arrive, and nobody is told",
    DEAF: "requests arrive, replies do not",
}
FAULTS = ("drop", "drop reply", "delay", "delay reply", "double", "cut", "cut reply", "late")


@dataclass
class Link:
    """The way of one party's requests to another, and of the replies."""

    frm: str
    to: str
    rng: random.Random
    rain: float                          # the share of requests that meet a fault in rain
    port: int = 0                        # where the one party finds the other
    upstream: int = 0                    # where the other really is
    weather: str = CALM
    counts: Counter[str] = field(default_factory=Counter)


class _Cut(Exception):
    """This connection is to end here."""


class Proxy:
    """All links between some parties, in a thread of its own."""

    def __init__(self, party_ids: tuple[str, ...], seed: int, rain: float) -> None:
        self.links = {
            (frm, to): Link(frm, to, random.Random(f"{seed} {frm} {to}"), rain)
            for frm in party_ids for to in party_ids if frm != to
        }
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    def counts(self) -> Counter[str]:
        """What was done to requests and replies."""
        return sum((link.counts for link in self.links.values()), Counter())

    def calm(self) -> None:
        """No more faults. What is held back arrives late or not at all."""
        for link in self.links.values():
            link.weather = CALM

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._servers = []
        for link in self.links.values():
            server = await asyncio.start_server(self._handler(link), ADDRESS, 0, limit=LONGEST_HEAD)
            link.port = server.sockets[0].getsockname()[1]
            self._servers.append(server)

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _handler(self, link: Link) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._hold(asyncio.current_task())
            with suppress(OSError, EOFError, _Cut, asyncio.LimitOverrunError):
                while True:
                    await self._one(link, reader, writer)
            writer.close()

        return handle

    def _hold(self, task: asyncio.Task[None] | None) -> None:
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------------ one request and its reply

    async def _one(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _message(reader)
        link.counts["requests"] += 1
        if link.weather == REFUSING:
            link.counts["refused"] += 1
            raise _Cut
        if link.weather == SILENT:
            await self._swallowed(link, request)
        fault = link.rng.choice(FAULTS) if link.weather == RAIN and link.rng.random() < link.rain else ""
        link.counts[fault or "passed"] += 1
        if fault:
            request = await self._before(link, fault, request)
        reply = await self._asked(link, request)
        if link.weather == DEAF:
            link.counts["reply lost"] += 1
            await _while(lambda: link.weather == DEAF)
            raise _Cut
        if fault:
            reply = await self._after(link, fault, reply)
        writer.write(reply)
        await writer.drain()
        if fault == "cut reply":
            raise _Cut

    async def _before(self, link: Link, fault: str, request: bytes) -> bytes:
        """What becomes of a request."""
        if fault == "drop":
            raise _Cut
        if fault == "late":
            self._later(link, request, link.rng.uniform(0.5, 5.0))
            raise _Cut
        if fault == "cut":
            await _sent_only(link.upstream, request[: len(request) // 2])
            raise _Cut
        if fault == "delay":
            await asyncio.sleep(link.rng.uniform(0.05, 2.0))
        if fault == "double":
            self._later(link, request, link.rng.uniform(0.0, 1.0))
        return request

    async def _after(self, link: Link, fault: str, reply: bytes) -> bytes:
        """What becomes of a reply."""
        if fault == "drop reply":
            raise _Cut
        if fault == "delay reply":
            await asyncio.sleep(link.rng.uniform(0.05, 2.0))
        return reply[: len(reply) // 2] if fault == "cut reply" else reply

    async def _swallowed(self, link: Link, request: bytes) -> None:
        """Nobody hears of it, until the way is free again: then it may still arrive."""
        link.counts["swallowed"] += 1
        await _while(lambda: link.weather == SILENT)
        if link.rng.random() < 0.5:
            self._later(link, request, 0.0)
        raise _Cut

    def _later(self, link: Link, request: bytes, seconds: float) -> None:
        """The request arrives after a while, on a connection whose reply nobody reads."""
        async def deliver() -> None:
            await asyncio.sleep(seconds)
            with suppress(OSError, EOFError, _Cut, asyncio.LimitOverrunError):
                await self._asked(link, request)

        self._hold(self._loop.create_task(deliver()))

    async def _asked(self, link: Link, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(ADDRESS, link.upstream, limit=LONGEST_HEAD)
        try:
            writer.write(request)
            await writer.drain()
            return await _message(reader)
        finally:
            writer.close()


async def _while(holds: Callable[[], bool]) -> None:
    while holds():
        await asyncio.sleep(LOOK_SECONDS)


async def _sent_only(port: int, data: bytes) -> None:
    _, writer = await asyncio.open_connection(ADDRESS, port)
    writer.write(data)
    await writer.drain()
    writer.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """A whole request or reply. Raises EOFError when there is none, or half of one."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    if fields.get(b"transfer-encoding") == b"chunked":
        return head + await _chunks(reader)
    return head + await reader.readexactly(int(fields.get(b"content-length", 0)))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    found = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line, 16)
        found += line + await reader.readexactly(size + 2)
        if not size:
            return found
