"""What processes of this server ask the gateway: to look at the folder of streams, or to call other gateways."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

from fate_flow.core.streams.frames import END
from fate_flow.core.wire.v1.paths import stream_call_path
from fate_flow.gateway.accepting import accepted, line_from
from fate_flow.gateway.peer_connection import Stream as Connection
from fate_flow.gateway.peer_connection import Upgraded
from fate_flow.relay.stream_calls import LONGEST_LINE, LOOK, Seats, read_call
from fate_flow.relay.stream_sessions import LOOKED
from fate_flow.streams.ways import BUSY, NotOpened, Opened

_CALL_SECONDS = 3.0               # as long as a party delays its answer to `create` for a call back
_FRAME_SECONDS = 1.5              # of these, for a frame in both directions
_LINE_SECONDS = 5.0
_AT_ONCE = 16                     # calls to other gateways
_NO_BYTES = "its server answers, but what is in between passes on no bytes after an upgrade of the connection"

Open = Callable[[str, str], Awaitable[Opened]]
"""Given a party id and a path with its query, opens what a stream would use. Raises NotOpened."""


class Asked:
    """Answers at the Unix socket `listener`. `look`: looks at the folder; `note` gets an empty address, and a failure.

    `opened`: see `Open`."""

    def __init__(
        self, listener: socket.socket, look: Callable[[], None], opened: Open, note: Callable[[str, str], None]
    ) -> None:  # fmt: skip
        self._listener = listener
        self._look = look
        self._opened = opened
        self._note = note
        self._loop = asyncio.get_running_loop()
        self._answering: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        listener.setblocking(False)

    async def run(self) -> None:
        """Answer until this task is canceled."""
        try:
            while True:
                sock, _ = await accepted(self._listener, self._note)
                task = asyncio.create_task(self._answer(sock))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
        finally:
            for task in list(self._answering):
                task.cancel()
            self._listener.close()

    async def _answer(self, sock: socket.socket) -> None:
        with sock, suppress(OSError, ValueError):          # the process has gone, or is none of ours
            async with asyncio.timeout(_LINE_SECONDS):
                line = await line_from(sock, LONGEST_LINE, at_once=65536)
            if line == LOOK:
                self._look()
                answer = LOOKED
            else:
                found = await asyncio.gather(*(self._call(one) for one in read_call(line)))
                answer = json.dumps(found).encode() + b"\n"
            await self._loop.sock_sendall(sock, answer)

    async def _call(self, seats: Seats) -> str:
        """Return why no stream of these seats could be opened now; empty if one could."""
        caller, to = seats
        try:
            async with self._slots, asyncio.timeout(_CALL_SECONDS):
                found = await self._opened(to.party_id, "/v1" + stream_call_path(caller, to))
                try:
                    return "" if await _passes(found.connection, found.leftover) else _NO_BYTES
                finally:
                    found.connection.sock.close()
        except NotOpened as error:
            return "" if error.status in BUSY else error.text
        except TimeoutError:
            return "its server does not answer in time"
        except OSError as error:
            return f"its server has ended the connection: {error.strerror}"


async def answer_call(upgraded: Upgraded) -> None:
    """Answer the call of another gateway with what it sends, and end the connection. Raises OSError."""
    await _passes(upgraded.stream, upgraded.leftover)
    await upgraded.stream.finish(_FRAME_SECONDS)


async def _passes(connection: Connection, received: bytes) -> bool:
    """Return whether a frame passes in both directions. Raises OSError."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FRAME_SECONDS):
            await connection.send(END)
            while len(received) < len(END) and (more := await connection.receive()):
                received += more
    return received == END
