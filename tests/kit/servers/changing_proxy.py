"""A proxy that ends the TLS between two servers: it reads what they send each other, and changes what a test wants."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_OF_ONE_HOP = ("connection", "upgrade", "keep-alive", "transfer-encoding", "content-length", "server", "date")

Head = dict[str, str]


@dataclass(frozen=True)
class Sent:
    """A request. Names in `head` are in small letters."""

    method: str
    target: str
    head: Head
    body: bytes


@dataclass(frozen=True)
class Replied:
    """An answer, and the request that it belongs to."""

    status: int
    head: Head
    body: bytes
    to: Sent


class ChangingProxy:
    """Passes requests on to the port `target` of this machine. Without changes, messages arrive as they were sent.
    `context`: with the certificate that it shows."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.target = 0
        self.change_request: Callable[[Sent], Sent] = lambda sent: sent
        self.change_answer: Callable[[Replied], Replied] = lambda replied: replied
        self.sends_twice = False             # passes on the second answer
        self.upgrades = False                # or it removes what asks for an upgrade
        self.passed: list[Replied] = []      # as they came from the server
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                if proxy.upgrades and "Upgrade" in self.headers:
                    proxy._splice(self)
                    return
                sent = Sent(
                    "POST", self.path, _kept(self.headers), self.rfile.read(int(self.headers["Content-Length"] or 0))
                )
                proxy._answer(self, sent)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def leave_as_it_is(self) -> None:
        self.change_request, self.change_answer = lambda sent: sent, lambda replied: replied
        self.sends_twice = False

    def _answer(self, handler: BaseHTTPRequestHandler, sent: Sent) -> None:
        changed = self.change_request(sent)
        if self.sends_twice:
            self._pass_on(changed)
        replied = self._pass_on(changed)
        self.passed.append(replied)
        given = self.change_answer(replied)
        handler.send_response_only(given.status)
        for name, value in (*given.head.items(), ("Content-Length", str(len(given.body)))):
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(given.body)

    def _splice(self, handler: BaseHTTPRequestHandler) -> None:
        """Pass on all bytes of a connection from its upgrade on."""
        handler.close_connection = True
        head = "".join(f"{name}: {value}\r\n" for name, value in handler.headers.items())
        here: Any = handler.connection
        with socket.create_connection(("127.0.0.1", self.target)) as there, suppress(OSError):
            there.sendall(f"POST {handler.path} HTTP/1.1\r\n{head}\r\n".encode("latin-1"))
            while True:
                ready, _, _ = select.select((here, there), (), ())
                for one, other in ((here, there), (there, here)):
                    while one in ready or (one is here and here.pending()):
                        ready = [left for left in ready if left is not one]
                        if not (data := one.recv(65536)):
                            return
                        other.sendall(data)

    def _pass_on(self, sent: Sent) -> Replied:
        connection = HTTPConnection("127.0.0.1", self.target, timeout=60)
        try:
            connection.request(sent.method, sent.target, sent.body, sent.head)
            response = connection.getresponse()
            return Replied(response.status, _kept(response.headers), response.read(), sent)
        finally:
            connection.close()


def _kept(headers: Any) -> Head:
    return {name.lower(): value for name, value in headers.items() if name.lower() not in _OF_ONE_HOP}
