"""The application behind the gateway: gunicorn at a Unix socket that only this user can reach.

A connection is kept for the next request of the same key only if nothing can be left on it: the request was sent
completely, its answer has ended where its length says, and neither side wants to end the connection. Any other
connection is closed. Nothing is sent a second time.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import h11

from fate_flow.gateway.bodies import Body
from fate_flow.gateway.kept_connections import KeptConnections
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.refusals import Refused

_PIECE = 64 * 1024
_HEAD_BYTES = 64 * 1024
_AT_ONCE = 64 * 1024          # a socket takes so much without waiting
_DISCARDED = 64 * 1024        # gunicorn reads less than this of a body that the application has left unread
_WITHOUT_BODY = (204, 304)    # an answer that has one nevertheless would leave it on the connection


class Answer:
    """The complete answer of the application."""

    def __init__(self, head: h11.Response, body: Body) -> None:
        self.head = head
        self.body = body


class Application:
    """The requests that the gateway passes on. `folder` has the socket `name`, and is where large answers are kept."""

    def __init__(self, folder: Path, name: str, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        # The path of a socket has at most 107 bytes, that of a home may have more.
        self._address = f"/proc/self/fd/{self._directory}/{name}"
        self._kept = KeptConnections(limits, asyncio.get_running_loop().time)

    def close(self) -> None:
        self._kept.close()
        os.close(self._directory)

    async def ask(self, identity: bytes, request: h11.Request, body: Body) -> Answer:
        """Send a request with this identity, and return its complete answer. Raises Refused."""
        try:
            async with asyncio.timeout(self._limits.answer_seconds):
                return await self._ask(identity, request, body)
        except TimeoutError as error:
            seconds = self._limits.answer_seconds
            raise Refused(504, f"the server has not answered within {seconds:g} s") from error
        except h11.RemoteProtocolError as error:
            raise Refused(502, "the server has ended before its answer was complete") from error
        except OSError as error:
            raise Refused(503, "the server starts or stops: try again later") from error

    async def _ask(self, identity: bytes, request: h11.Request, body: Body) -> Answer:
        sock = self._kept.take(identity) or await self._connected()
        http, is_kept = h11.Connection(h11.CLIENT, _HEAD_BYTES), False
        try:
            answer = await self._exchange(sock, http, request, body)
            # After a larger body that was not read, gunicorn ends the connection, although its answer says otherwise.
            is_read = body.size < _DISCARDED
            is_kept = is_read and _is_at_its_end(http) and answer.head.status_code not in _WITHOUT_BODY
        finally:
            if is_kept:
                self._kept.give(identity, sock)
            else:
                sock.close()
        return answer

    async def _connected(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, self._address)
        except BaseException:
            sock.close()
            raise
        return sock

    async def _exchange(self, sock: socket.socket, http: h11.Connection, request: h11.Request, body: Body) -> Answer:
        if body.size <= _AT_ONCE:
            await self._send(sock, (b"".join(framed(http, request, body)),))
            return await self._answer(sock, http)
        # The application may answer before it has read everything, and then no longer reads.
        sending = asyncio.create_task(self._send(sock, framed(http, request, body)))
        try:
            return await self._answer(sock, http)
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await sending

    async def _send(self, sock: socket.socket, pieces: Iterable[bytes]) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):      # its answer says why it reads no more
            for piece in pieces:
                await asyncio.get_running_loop().sock_sendall(sock, piece)

    async def _answer(self, sock: socket.socket, http: h11.Connection) -> Answer:
        head: h11.Response | None = None
        body = Body(self._limits.memory_bytes, self._folder)
        try:
            while True:
                event = http.next_event()
                if event is h11.NEED_DATA:
                    http.receive_data(await asyncio.get_running_loop().sock_recv(sock, _PIECE))
                elif isinstance(event, h11.Response):
                    head = event
                elif isinstance(event, h11.Data):
                    self._check_size(body.size + len(event.data))
                    body.add(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage) and head is not None:
                    body.complete()
                    return Answer(head, body)
                elif isinstance(event, h11.ConnectionClosed):
                    raise h11.RemoteProtocolError("closed without an answer")
        except BaseException:
            body.close()
            raise

    def _check_size(self, size: int) -> None:
        if size > self._limits.answer_bytes:
            raise Refused(502, f"the answer is longer than {self._limits.answer_bytes} bytes")


def framed(http: h11.Connection, request: h11.Request, body: Body) -> Iterator[bytes]:
    """Yield the bytes of a request, as the application gets it."""
    yield http.send(request)
    for piece in body.pieces():
        yield http.send(h11.Data(data=piece))
    yield http.send(h11.EndOfMessage())


def _is_at_its_end(http: h11.Connection) -> bool:
    """Return whether a request and its answer were exchanged completely, and the connection can serve another one."""
    return http.our_state is h11.DONE and http.their_state is h11.DONE and not http.trailing_data[0]
