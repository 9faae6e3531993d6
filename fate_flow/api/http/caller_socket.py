"""The socket of a connection to gunicorn's worker: it collects requests without waiting, reads and writes in time."""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any

from fate_flow.api.http.unread import TooLate

PIECE = 64 * 1024            # a request of at most so many bytes is collected before a thread gets it

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"(?im)^content-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*\r?$")
_TOKEN = b"\r\nauthorization:"
_UNKNOWN = 1 << 62           # as the size of a request
_IN_PIECES = re.compile(rb"(?im)^(?:transfer-encoding|expect)[ \t]*:")


class Collected(Enum):
    """What was collected of a request."""

    A_PART = "a part"
    ALL = "all of it"
    TOO_MUCH = "a part of a request that is too large to be collected, or whose length is not known"


class CallerSocket(socket.socket):
    """The socket of a connection. `recv` and `sendall` are for threads, and keep deadlines."""

    def __init__(self, made: socket.socket, seconds: float, earned_seconds: float | None = None) -> None:
        super().__init__(made.family, made.type, made.proto, fileno=made.detach())
        self.ahead = bytearray()         # what the main thread has collected of the next request
        self.may_wait = self.is_inside = self.family == socket.AF_UNIX
        self.is_given_away = False
        self.is_large = False            # whether a thread has to wait for the present request
        self.token = b""
        self.asks_at_once = False        # whether its next request is worth waiting for: the last one came at once
        self.answered_at = 0.0           # by time.monotonic
        self._seconds = seconds
        self._earned = seconds if earned_seconds is None else earned_seconds
        self._left, self._bytes = seconds, 0         # to wait for the present piece, and what has come of it
        self._left_to_send = seconds
        self._missing = _UNKNOWN         # bytes of the present request
        self._when_read: Callable[[], None] | None = None
        self._looked_at = 0              # bytes of `ahead` without an end of the head
        self._size: int | None = None    # of the request in `ahead`; None: the end of its head is not there

    def collect(self) -> int | None:
        """Add to `ahead` what is there. Return the count of bytes, 0 at the end; None if there is nothing now."""
        try:
            data = super().recv(PIECE)
        except BlockingIOError:
            return None
        except OSError:
            return 0
        self.ahead += data
        return len(data)

    def next_comes_within(self, seconds: float) -> bool:
        """Wait for the next request, if nothing of it was collected; return whether some of it is there now."""
        if not self.ahead:
            self.settimeout(seconds)
            with suppress(OSError):          # too late, or the end: the main thread finds it
                self.ahead += super().recv(PIECE)
        return bool(self.ahead)

    def begin(self, *, may_wait: bool, when_read: Callable[[], None] | None = None) -> None:
        """Begin a request; `may_wait`: a thread may wait for what was not collected. A thread calls `when_read` once
        all of it has come, if its length is known."""
        self.may_wait = may_wait or self.is_inside
        self._left, self._bytes = self._seconds, 0
        self._left_to_send = self._seconds
        self._missing = (_UNKNOWN if self._size is None else self._size) - len(self.ahead)
        self._when_read = when_read
        self._looked_at, self._size = 0, None        # for the next request

    def has(self) -> Collected:
        """Return what `ahead` is. Only gunicorn's parser decides where a request ends; this decides who waits.

        Each byte is looked at once, however slowly it comes: the main thread serves all callers."""
        ahead = self.ahead
        if self._size is None:
            end = ahead.find(_HEAD_END, max(0, self._looked_at - len(_HEAD_END) + 1), PIECE)
            self._looked_at = len(ahead)
            if end < 0:
                return Collected.TOO_MUCH if len(ahead) >= PIECE else Collected.A_PART
            self._size = _size(bytes(ahead[: end + 2]))
        if self._size > PIECE:
            return Collected.TOO_MUCH
        return Collected.ALL if len(ahead) >= self._size else Collected.A_PART

    def give_away(self) -> socket.socket:
        """Return the connection for whoever writes the answer outside of gunicorn, and ends it. It never blocks: from
        now on nobody may set a timeout here, since both descriptors share what that changes."""
        made = socket.socket(fileno=os.dup(self.fileno()))
        made.setblocking(False)
        self.is_given_away = True
        return made

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return what was collected, then what comes. Raises TooLate."""
        if self.ahead:
            data = bytes(self.ahead[:size])
            del self.ahead[:size]
            return data
        started = time.monotonic()
        self.settimeout(max(0.0, self._left) if self.may_wait else 0.0)
        try:
            data = super().recv(size, flags)
        except (BlockingIOError, TimeoutError):
            raise TooLate("a part of the request is missing") from None
        self._left -= time.monotonic() - started
        self._bytes += len(data)
        if self._bytes >= PIECE:
            self._left, self._bytes = min(self._seconds, self._left + self._earned), 0
        self._missing -= len(data)
        if self._missing <= 0 and self._when_read is not None:
            self._when_read()
            self._when_read = None
        return data

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send all of this, a piece in time. A caller that does not read is one that has gone. What the application
        answers over a connection that it has given away is dropped."""
        if self.is_given_away:
            return
        if self.gettimeout() == 0.0:
            super().sendall(data, flags)
            return
        view = memoryview(data)
        for at in range(0, len(view), PIECE):
            started = time.monotonic()
            self.settimeout(max(0.001, self._left_to_send))
            try:
                super().sendall(view[at : at + PIECE], flags)
            except TimeoutError:
                raise BrokenPipeError(errno.EPIPE, "the caller does not read its answer") from None
            left = self._left_to_send - (time.monotonic() - started)
            self._left_to_send = min(self._seconds, left + self._earned)


def _size(head: bytes) -> int:
    """Return the size of a request with this head, which has its last line's end."""
    lengths = _LENGTH.findall(head)          # a request with two of them is refused as it is
    if _IN_PIECES.search(head):
        return _UNKNOWN
    return len(head) + len(_HEAD_END) - 2 + (int(lengths[0]) if len(lengths) == 1 else 0)


def token_in(ahead: bytearray) -> bytes:
    """Return the token that a request shows; empty if there is none, or not in the first piece."""
    head = bytes(ahead[: max(0, ahead.find(_HEAD_END, 0, PIECE))])
    found = head.lower().find(_TOKEN)
    return head[found + len(_TOKEN) :].split(b"\r\n", 1)[0].strip() if found >= 0 else b""
