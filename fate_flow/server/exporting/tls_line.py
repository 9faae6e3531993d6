"""A connection over TLS whose end is seen for what it is.

`SSLSocket.unwrap` may return before the other side has said that it ends: it tries twice, and a ticket of TLS 1.3 that
was not read yet counts as a try. So the bytes are moved here.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")

_PIECE = 65_536
_CUT = "UNEXPECTED_EOF_WHILE_READING"        # so Python before 3.11.4 says what is an SSLEOFError later


class TlsLine:
    """A client's end of TLS on a connected socket, until a moment of `time.monotonic`."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str, until: float) -> None:
        """Do the handshake. Raise OSError."""
        self._sock, self._until = sock, until
        self._from, self._to = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from, self._to, server_hostname=host)
        self._done(self._tls.do_handshake)

    def send(self, data: bytes) -> None:
        """Send data. Raise OSError."""
        for first in range(0, len(data), _PIECE):
            some = data[first : first + _PIECE]
            while some:
                some = some[self._done(partial(self._tls.write, some)) :]

    def end(self) -> bool:
        """Say that nothing more comes, and wait until the other side ends, too; return whether it has said so by
        `close_notify`. Raise OSError if the connection ends by an error, or not in time."""
        with suppress(ssl.SSLWantReadError):             # it is said, and the answer is read below
            self._tls.unwrap()
        self._flush()
        try:
            while self._done(partial(self._tls.read, _PIECE)):
                pass
        except ssl.SSLZeroReturnError:
            return True
        except ssl.SSLError as error:
            if isinstance(error, ssl.SSLEOFError) or error.reason == _CUT:
                return False
            raise
        return True

    def _done(self, act: Callable[[], T]) -> T:
        """Return what TLS returns once it has read what it needs; send what it has to say."""
        while True:
            try:
                found = act()
            except ssl.SSLWantReadError:
                self._flush()
                some = self._waiting().recv(_PIECE)
                if some:
                    self._from.write(some)
                else:
                    self._from.write_eof()
            else:
                self._flush()
                return found

    def _flush(self) -> None:
        if some := self._to.read():
            self._waiting().sendall(some)

    def _waiting(self) -> socket.socket:
        wait_until(self._sock, self._until)
        return self._sock


def wait_until(sock: socket.socket, until: float) -> None:
    """Let the next call of a socket wait until then. Raise TimeoutError if that is over."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)
