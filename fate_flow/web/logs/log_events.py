"""Tells browsers that logs have grown: server-sent events, one connection a browser, all in one thread.

An event has the number of a log and none of its text: the page asks for the next piece, as it does without events, and
that request is checked as each other one. So a connection that outlives a session by `LIFE_SECONDS` shows no line of a
log. A thread of gunicorn gives its connection away (`CallerSocket.give_away`) and is free; an event loop keeps it, and
looks at the files of all of them, each once, while there is a connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread

from fate_flow.core.model.errors import Busy

MOST_LOGS = 20
"""Of one connection."""
MOST_CONNECTIONS = 200
"""Of a process that serves clients."""
LIFE_SECONDS = 60.0
"""After it the browser connects again, and what may be seen is checked again."""
_LOOK_SECONDS = 0.5
_AGAIN_MS = 1000                  # after this time a browser connects again
_MOST_UNREAD = 16 * 1024          # bytes that a browser has not taken: it has gone, or does not read

_State = tuple[int, ...]


@dataclass(eq=False)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    logs: Sequence[Path | None]
    until: float
    known: dict[int, _State] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        unread = self.writer.transport.get_write_buffer_size()
        return self.reader.at_eof() or self.writer.is_closing() or unread > _MOST_UNREAD

    def tell(self, states: dict[Path, _State]) -> None:
        """Write the numbers of the logs that have changed; at first, of all: the page may have missed a change."""
        for number, path in enumerate(self.logs):
            if path is None:
                continue
            if path not in states:
                states[path] = _state(path)
            if states[path] != self.known.get(number):
                self.known[number] = states[path]
                self.writer.write(f"data: {number}\n\n".encode())


def _state(path: Path) -> _State:
    """Return what differs when a log has grown, or when something else has happened in its folder, as at its end."""
    found = list[int]()
    for one in (path, path.parent):
        try:
            status = os.stat(one, follow_symlinks=False)
        except OSError:
            found += [0, 0]
        else:
            found += [status.st_size, status.st_mtime_ns]
    return tuple(found)


class LogEvents:
    """The connections of one process. `look_seconds`: between two looks at the files."""

    def __init__(self, look_seconds: float = _LOOK_SECONDS, life_seconds: float = LIFE_SECONDS) -> None:
        self._look_seconds, self._life_seconds = look_seconds, life_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starts = Lock()
        self._connections = set[_Connection]()
        self._looking: asyncio.Task[None] | None = None

    def check_room(self) -> None:
        """Raise Busy if no more browsers can be told."""
        if len(self._connections) >= MOST_CONNECTIONS:
            raise Busy(f"{MOST_CONNECTIONS} browsers are told about logs already: this one has to ask")

    def add(self, connection: socket.socket, headers: Mapping[str, str], logs: Sequence[Path | None]) -> None:
        """Answer over a connection, and tell about these logs until it ends: an event has the number of one, from 0 on.
        None: there is nothing to tell about it. The connection belongs to this object from now on."""
        asyncio.run_coroutine_threadsafe(self._begin(connection, headers, logs), self._running_loop())

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._starts:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                Thread(target=self._loop.run_forever, name="log-events", daemon=True).start()
            return self._loop

    async def _begin(self, made: socket.socket, headers: Mapping[str, str], logs: Sequence[Path | None]) -> None:
        reader, writer = await asyncio.open_connection(sock=made)
        writer.write(_head(headers))
        until = asyncio.get_running_loop().time() + self._life_seconds
        self._connections.add(_Connection(reader, writer, logs, until))
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
        states, now = dict[Path, _State](), asyncio.get_running_loop().time()
        for one in tuple(self._connections):
            if one.has_ended:
                one.writer.transport.abort()
            elif now >= one.until:
                one.writer.close()
            else:
                one.tell(states)
                continue
            self._connections.remove(one)


def _head(headers: Mapping[str, str]) -> bytes:
    """Return the head of the answer, and how soon a browser connects again. A proxy has to pass events on at once."""
    fields = {**headers, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "Connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 200 OK\r\n{lines}\r\nretry: {_AGAIN_MS}\n\n".encode()
