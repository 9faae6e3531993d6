"""Connections that inputs are sent over, and the answers that come back."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from typing import IO, Any

from tests.fuzz.inputs import Input, Sign

HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"
"""Addresses to send from. The gateway counts by them; honest callers are at the first one."""
SECONDS = 90.0                   # an answer that takes longer is a violation
KEPT_REQUESTS = 200              # a connection ends after so many
HELD = 60                        # connections that one sender holds open over one way


@dataclass(frozen=True)
class Answer:
    """What came of one input: statuses in order; none if the server only ended the connection."""

    statuses: tuple[int, ...]
    text: bytes = b""            # of the last one
    is_late: bool = False
    is_open: bool = False        # the server had neither answered nor ended the connection when it was let go


class _Shared:
    """A file that several answers are read from: none of them may close it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def makefile(self, *_: object) -> _Shared:
        return self

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Line:
    """One sender's way to one listener: a connection for well-formed requests, and one for each other input."""

    def __init__(self, port: int, context: ssl.SSLContext | None, sign: Sign, address: str = HERE) -> None:
        self._port = port
        self._context = context
        self._sign = sign
        self._address = address
        self._kept: socket.socket | None = None
        self._file: _Shared | None = None
        self._count = 0

    def send(self, one: Input) -> Answer:
        """Send the input and read what the server says to it."""
        try:
            return self._clean(one) if one.is_clean else self._alone(one)
        except TimeoutError:
            self.close()
            return Answer((), is_late=True)
        except (OSError, HTTPException, ValueError):
            self.close()
            return Answer(())

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
        self._kept = self._file = None

    def _clean(self, one: Input) -> Answer:
        is_new = self._kept is None
        if self._kept is None or self._file is None:
            self._kept = _opened(self._port, self._context, self._address)
            self._file = _Shared(self._kept.makefile("rb"))
            self._count = 0
        try:
            _push(self._kept, one.pieces(self._sign))
            answer, is_last = _answer(self._file, one.request.method if one.request else "")
        except (ConnectionError, ssl.SSLError, HTTPException):
            self.close()
            if is_new:
                raise
            return self._clean(one)            # the server had ended the connection after the last answer
        self._count += 1
        if is_last or self._count == KEPT_REQUESTS:
            self.close()
        return answer

    def _alone(self, one: Input) -> Answer:
        """On a connection of its own, whose sending side is closed then: nobody waits for the rest of a request."""
        with _opened(self._port, self._context, self._address) as found, found.makefile("rb") as file:
            with suppress(ConnectionError, ssl.SSLError):
                _push(found, one.pieces(self._sign))
                socket.socket.shutdown(found, socket.SHUT_WR)
            return _all_answers(_Shared(file), one.request.method if one.request else "")


@dataclass
class _Held:
    """A connection that stays open, and what of its input was not sent yet."""

    one: Input
    found: socket.socket
    rest: bytes

    def go_on(self) -> None:
        """Send one more byte."""
        try:
            self.found.sendall(self.rest[:1])
        except OSError:
            self.rest = b""      # the server has ended the connection
        else:
            self.rest = self.rest[1:]

    def let_go(self) -> tuple[Input, Answer]:
        """End the connection; return what the server has said by now."""
        said, is_open = b"", True
        with self.found as found, suppress(OSError):         # there is nothing more now
            found.setblocking(False)
            while piece := found.recv(65536):
                said += piece
            is_open = False
        answer = _all_answers(_Shared(BytesIO(said)), self.one.request.method if self.one.request else "")
        return self.one, Answer(answer.statuses, answer.text, is_open=is_open and not answer.statuses)


class HeldLines:
    """One sender's connections to one listener, each with a part of an input. They are held open: each gets one byte
    more whenever another one is opened, and the oldest one is let go if there are too many."""

    def __init__(self, port: int, context: ssl.SSLContext | None, sign: Sign, address: str = HERE) -> None:
        self._port = port
        self._context = context
        self._sign = sign
        self._address = address
        self._held: deque[_Held] = deque()

    def send(self, one: Input) -> list[tuple[Input, Answer]]:
        """Send a part of the input; return the inputs whose connections have ended, with what the server said."""
        data = b"".join(one.pieces(self._sign))
        cut = int(len(data) * (one.hold_at or 0.0))
        try:
            opened = _Held(one, _opened(self._port, self._context, self._address), data[cut:])
        except OSError as error:
            return [(one, Answer((), is_late=isinstance(error, TimeoutError)))]
        try:
            opened.found.sendall(data[:cut])
        except TimeoutError:
            opened.found.close()
            return [(one, Answer((), is_late=True))]
        except OSError:
            opened.rest = b""
        for other in self._held:
            if other.rest:
                other.go_on()
        self._held.append(opened)
        return [self._held.popleft().let_go()] if len(self._held) > HELD else []

    def let_go(self) -> list[tuple[Input, Answer]]:
        """End all connections."""
        ended = [one.let_go() for one in self._held]
        self._held.clear()
        return ended


def _opened(port: int, context: ssl.SSLContext | None, address: str) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port), SECONDS, (address, 0))
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(plain) if context else plain
    except BaseException:
        plain.close()
        raise


def _push(found: socket.socket, pieces: Sequence[bytes]) -> None:
    for piece in pieces:
        found.sendall(piece)


def _answer(file: _Shared, method: str) -> tuple[Answer, bool]:
    """The next answer, and whether the connection ends with it."""
    answer = HTTPResponse(file, method=method or None)  # type: ignore[arg-type]  # all it needs is makefile
    answer.begin()
    text = answer.read()
    return Answer((answer.status,), text), answer.will_close


def _all_answers(file: _Shared, method: str) -> Answer:
    statuses: list[int] = []
    text = b""
    with suppress(ConnectionError, ssl.SSLError, HTTPException, ValueError):
        is_last = False
        while not is_last:
            answer, is_last = _answer(file, method)
            statuses += answer.statuses
            text = answer.text
    return Answer(tuple(statuses), text)
