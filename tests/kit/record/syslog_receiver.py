"""A receiver of syslog on loopback, which reads messages by the grammar of RFC 5424 and does what a test says."""

from __future__ import annotations

import json
import re
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

_MESSAGE = re.compile(
    rb"<(?P<priority>\d{1,3})>1 (?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z) (?P<host>[!-~]{1,255}) "
    rb"(?P<app>[!-~]{1,48}) (?P<process>[!-~]{1,128}) (?P<kind>[!-~]{1,32}) - (?P<text>.*)", re.DOTALL,
)  # fmt: skip


@dataclass(frozen=True)
class Message:
    facility: int
    severity: int
    at: str
    host: str
    app: str
    kind: str
    said: dict[str, Any]


@dataclass
class SyslogServer:
    """`hangs_up`: it ends each connection at once, with what was sent unread. `holds`: it does not end a connection
    before this is set. `says_so`: it ends TLS by close_notify. `reads`: so many bytes at most; then it closes, as if it
    had died."""

    port: int = 0
    says_so: bool = True
    reads: int = 1 << 40
    hangs_up: bool = False
    holds: threading.Event | None = None
    connections: int = 0
    messages: list[Message] = field(default_factory=list)

    @property
    def entries(self) -> list[tuple[str, int, int]]:
        """The log, epoch and index of each message."""
        return [(one.said["log"], one.said["epoch"], one.said["index"]) for one in self.messages]


@contextmanager
def syslog_server(context: ssl.SSLContext | None = None) -> Iterator[SyslogServer]:
    """A receiver; `context`: what it shows to those who connect over TLS."""
    found = SyslogServer()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            found.connections += 1
            with suppress(OSError):
                _serve(found, self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that does not like the certificate is no error of the test."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        found.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield found
        finally:
            if found.holds is not None:
                found.holds.set()
            server.shutdown()
            thread.join()


def _serve(server: SyslogServer, request: Any) -> None:
    data = b""
    limit = 0 if server.hangs_up else server.reads
    while len(data) < limit and (some := request.recv(min(65_536, limit - len(data)))):
        data += some
    if len(data) >= limit:
        request.close()
        return
    server.messages += messages_in(data)         # before the end is said: then the sender may look at them
    if server.holds is not None:
        server.holds.wait(60)
    if isinstance(request, ssl.SSLSocket) and server.says_so:
        request.unwrap()


def messages_in(data: bytes) -> list[Message]:
    """The messages of a stream (RFC 6587, octet counting). Raises AssertionError for anything else."""
    found: list[Message] = []
    while data:
        length, _, rest = data.partition(b" ")
        assert length.isdigit(), data[:40]
        found.append(_message(rest[: int(length)]))
        data = rest[int(length) :]
    return found


def _message(text: bytes) -> Message:
    parts = _MESSAGE.fullmatch(text)
    assert parts is not None, text
    facility, severity = divmod(int(parts["priority"]), 8)
    texts = (parts[key].decode() for key in ("at", "host", "app", "kind"))
    return Message(facility, severity, *texts, said=json.loads(parts["text"]))
