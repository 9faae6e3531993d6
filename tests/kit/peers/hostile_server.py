"""A server that sends what it likes, byte by byte: what another party's server may become."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import repeat

Script = Callable[[], Iterator[bytes]]
"""What is sent on a connection once the request is there."""

DRIP_SECONDS = 0.01
_PIECE = 65536


class HostileServer:
    """Plays `script` on each connection, with a pause after each piece where `drips`; counts those that are open."""

    def __init__(self, script: Script, drips: bool = False, context: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._drips = drips
        self._context = context
        self._is_closing = threading.Event()
        self._change = threading.Condition()
        self._open = 0
        self.accepted = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    def await_no_connection(self, seconds: float) -> bool:
        """Whether all connections are closed, by the other side, within the time."""
        with self._change:
            return self._change.wait_for(lambda: self.accepted > 0 and self._open == 0, seconds)

    def close(self) -> None:
        self._is_closing.set()
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            with self._change:
                self._open, self.accepted = self._open + 1, self.accepted + 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.settimeout(30)
            self._play(self._context.wrap_socket(connection, server_side=True) if self._context else connection)
        with self._change:
            self._open -= 1
            self._change.notify_all()

    def _play(self, connection: socket.socket) -> None:
        with connection:
            _read_request(connection)
            for piece in self._script():
                connection.sendall(piece)
                if self._drips and self._is_closing.wait(DRIP_SECONDS):
                    return
            while connection.recv(_PIECE):          # until the other side closes
                pass


def _read_request(connection: socket.socket) -> None:
    """One with a body that it says the length of."""
    text = b""
    while b"\r\n\r\n" not in text:
        text += connection.recv(_PIECE)
    head, _, body = text.partition(b"\r\n\r\n")
    [length] = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    while len(body) < length:
        body += connection.recv(_PIECE)


def answer(body: bytes, status: str = "200 OK", *lines: str) -> bytes:
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *lines, ""))
    return head.encode() + body


def forever(begin: bytes, piece: bytes) -> Script:
    def script() -> Iterator[bytes]:
        yield begin
        yield from repeat(piece)

    return script


def once(text: bytes) -> Script:
    return lambda: iter((text,))


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SUCCESS = b'{"retcode": 0, "retmsg": "success"}'


def gzip_of(piece: bytes, times: int) -> bytes:
    """One member of gzip, of a piece that is compressed once: each process that collects tests imports this file."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)       # refers to nothing before it
    checksum = 0
    for _ in range(times):
        checksum = zlib.crc32(piece, checksum)
    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    return head + block * times + packer.flush() + struct.pack("<II", checksum, len(piece) * times)


BOMB = gzip_of(b" " * 1_000_000, 100)

DRIPPING: dict[str, Script] = {
    "nothing": lambda: iter(()),
    "a status line": forever(b"HTTP/1.1 200 ", b"x"),
    "a head": forever(HEAD, b"X"),
    "continuations": forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body": forever(HEAD + b"Content-Length: 50000\r\n\r\n{", b" "),
    "a body without a length": forever(HEAD + b"\r\n{", b" "),
    "chunks": forever(CHUNKED, b"1\r\n \r\n"),
    "the size of a chunk": forever(CHUNKED, b"0"),
    "an extension of a chunk": forever(CHUNKED + b"1;", b"x"),
    "trailers": forever(CHUNKED + b"0\r\n", b"X: 1\r\n"),
}
"""Answers that never end, and never pause for long."""

FLOODING: dict[str, Script] = {
    "a status line": forever(b"HTTP/1.1 200 ", b"x" * _PIECE),
    "a head": forever(HEAD, b"X" * _PIECE),
    "continuations": forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "a body": forever(HEAD + b"\r\n", b" " * _PIECE),
    "a body with a length": forever(HEAD + b"Content-Length: 99999999999\r\n\r\n", b" " * _PIECE),
    "chunks": forever(CHUNKED, b"10000\r\n" + b" " * _PIECE + b"\r\n"),
    "small chunks": forever(CHUNKED, b"1\r\n \r\n" * 10_000),
    "the size of a chunk": forever(CHUNKED, b"0" * _PIECE),
    "an extension of a chunk": forever(CHUNKED + b"1;", b"x" * _PIECE),
    "a bomb": once(answer(BOMB, "200 OK", "Content-Encoding: gzip")),
    "a redirect with a bomb": once(answer(BOMB, "307 Temporary Redirect", "Content-Encoding: gzip", "Location: /x")),
    "an error with a bomb": once(answer(BOMB, "500 Oh", "Content-Encoding: x-gzip")),
}
"""Answers that would take memory, if they were read."""
