"""Tells browsers that logs have grown: server-sent events, one connection a browser, all in one thread.

An event has the number of a log and none of its text: the page asks for the next piece, as it does without events, and
that request is checked as each other one. So a connection that outlives a session by `LIFE_SECONDS` shows no line of a
log. A thread of gunicorn gives its connection away (`CallerSocket.give_away`) and is free; an event loop keeps it, and
looks at the files of all of them, each once, while there is a connection. A look that hangs, as on a dead file server,
holds up events alone: pages ask by themselves, too, only later.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock, Thread
from typing import cast

from fate_flow.core.model.errors import Busy

MOST_LOGS = 20
"""Of one connection."""
MOST_CONNECTIONS = 100
"""Of a process that serves clients. Each takes one of its file descriptors."""
LIFE_SECONDS = 60.0
"""After it the browser connects again, and what may be seen is checked again."""
_LOOK_SECONDS = 0.5
_AGAIN_MS = 1000                  # after this time a browser connects again
_MOST_UNREAD = 16 * 1024          # bytes that a browser has not taken: it has gone, or does not read


class _Connection(asyncio.Protocol):
    """One browser. What it sends is thrown away."""

    transport: asyncio.Transport

    def __init__(self, head: bytes, logs: Sequence[Path | None], until: float) -> None:
        self._head, self._logs, self.until = head, logs, until
        self._sizes: dict[int, int] = {}
        self.has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._head)

    def eof_received(self) -> None:
        self.has_ended = True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's own signature
        self.has_ended = True

    def tell(self, sizes: dict[Path, int]) -> None:
        """Write the numbers of the logs that have grown; at first, of all: the page may have missed a change."""
        for number, path in enumerate(self._logs):
            if path is None:
                continue
            if path not in sizes:
                sizes[path] = _size(path)
            if sizes[path] != self._sizes.get(number):
                self._sizes[number] = sizes[path]
                self.transport.write(f"data: {number}\n\n".encode())

    def end(self) -> None:
        """End the connection; at once, if the browser has gone or does not read."""
        if self.has_ended or self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()


def _size(path: Path) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return -1


class LogEvents:
    """The connections of one process. `look_seconds`: between two looks at the files."""

    def __init__(self, look_seconds: float = _LOOK_SECONDS, life_seconds: float = LIFE_SECONDS) -> None:
        self._look_seconds, self._life_seconds = look_seconds, life_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = Lock()
        self._places = 0                  # that are taken, also by connections that are not there yet
        self._connections = set[_Connection]()
        self._looking: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """How many browsers are told now."""
        return self._places

    def take_place(self) -> None:
        """Take the place of one more browser. Raise Busy if there is none."""
        with self._lock:
            if self._places >= MOST_CONNECTIONS:
                raise Busy(f"{MOST_CONNECTIONS} browsers are told about logs already: this one has to ask")
            self._places += 1

    def give_place_back(self) -> None:
        with self._lock:
            self._places -= 1

    def add(self, connection: socket.socket, headers: Mapping[str, str], logs: Sequence[Path | None]) -> None:
        """Answer over a connection, for which a place was taken, and tell about these logs until it ends: an event has
        the number of one, from 0 on. None: there is nothing to tell about it. The connection and its place belong to
        this object from now on."""
        asyncio.run_coroutine_threadsafe(self._begin(connection, _head(headers), logs), self._running_loop())

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                Thread(target=self._loop.run_forever, name="log-events", daemon=True).start()
            return self._loop

    async def _begin(self, made: socket.socket, head: bytes, logs: Sequence[Path | None]) -> None:
        loop = asyncio.get_running_loop()
        one = _Connection(head, logs, loop.time() + self._life_seconds)
        try:
            await loop.connect_accepted_socket(lambda: one, made)
        except OSError:                   # the browser has gone
            made.close()
            self.give_place_back()
            return
        self._connections.add(one)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        """Look at the files as long as there is a connection."""
        try:
            while self._connections:
                self._look_once()
                await asyncio.sleep(self._look_seconds)
        finally:
            self._looking = None

    def _look_once(self) -> None:
        sizes, now = dict[Path, int](), asyncio.get_running_loop().time()
        for one in tuple(self._connections):
            if not one.has_ended:
                one.tell(sizes)
            if one.has_ended or now >= one.until or one.transport.get_write_buffer_size() > _MOST_UNREAD:
                one.end()
                self._connections.remove(one)
                self.give_place_back()


def _head(headers: Mapping[str, str]) -> bytes:
    """Return the head of the answer, and how soon a browser connects again. A proxy has to pass events on at once."""
    fields = {**headers, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "Connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 200 OK\r\n{lines}\r\nretry: {_AGAIN_MS}\n\n".encode()
