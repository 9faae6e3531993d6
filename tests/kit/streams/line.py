"""A proxy between two gateways that passes on bytes, as slowly as a test wants, and ends silent connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_PIECE = 16 * 1024


@dataclass
class Line:
    """`idle_seconds`: after so long without a byte in either direction, a connection is ended; 0: never.
    `bytes_per_second`: what each direction of a connection passes on; 0: all. `passes_upgraded`: whether anything
    passes after an upgrade."""

    target: str                           # a URL
    idle_seconds: float = 0.0
    bytes_per_second: int = 0
    passes_upgraded: bool = True
    url: str = ""
    cut: int = 0                          # connections that were ended for their silence
    passed: int = 0                       # bytes of all connections
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = urlsplit(self.target)
        there, back = await asyncio.open_connection(place.hostname, place.port, limit=_PIECE)
        for one in (writer, back):
            one.transport.set_write_buffer_limits(_PIECE)
        ways = [asyncio.create_task(one) for one in (self._pass(reader, back), self._pass(there, writer))]
        self.tasks.update(ways)
        await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
        for task in ways:
            task.cancel()
        self.tasks.difference_update(ways)
        for one in (writer, back):
            one.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on one direction. Raises OSError at its end, which ends the other one, too."""
        while True:
            try:
                data = await self._read(reader)
            except TimeoutError:
                self.cut += 1
                raise
            if not data:
                raise ConnectionResetError
            head, _, _ = data.partition(b"\r\n\r\n")
            if b" 101 " in head and not self.passes_upgraded:
                writer.write(head + b"\r\n\r\n")
                await asyncio.Event().wait()
            self.passed += len(data)
            writer.write(data)
            await writer.drain()
            if self.bytes_per_second:
                await asyncio.sleep(len(data) / self.bytes_per_second)

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """Raises TimeoutError after a silence."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.idle_seconds or None):
                return await reader.read(_PIECE)
        # If this process stood still, so did both gateways, which are in it: what is due from them comes only now.
        async with asyncio.timeout(self.idle_seconds / 10):
            return await reader.read(_PIECE)


@asynccontextmanager
async def a_line(line: Line) -> AsyncIterator[Line]:
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0, limit=_PIECE)
    line.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield line
    finally:
        server.close()
        for task in list(line.tasks):
            task.cancel()
        with suppress(Exception):
            await asyncio.gather(*line.tasks, return_exceptions=True)
