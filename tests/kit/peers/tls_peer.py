"""A party's server behind TLS, on a free port."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class TlsPeer:
    """Answers every request with what `answers` makes of its body. `context` may be changed: it is that of the next
    connection."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.answers: Callable[[bytes], Any] = lambda _: {"retcode": 0, "retmsg": "success", "data": 1}
        self.asked: list[bytes] = []
        self.shown: list[bytes | None] = []          # by each client, when it sent a request
        self.clients: set[Any] = set()
        self.ended: list[Any] = []                   # the clients whose connections have ended
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def setup(self) -> None:
                self.request = peer.context.wrap_socket(
                    self.request, server_side=True, do_handshake_on_connect=False
                )
                super().setup()

            def do_POST(self) -> None:
                peer.asked.append(self.rfile.read(int(self.headers["Content-Length"])))
                peer.shown.append(self.connection.getpeercert(True))
                peer.clients.add(self.client_address)
                said = json.dumps(peer.answers(peer.asked[-1])).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def finish(self) -> None:
                peer.ended.append(self.client_address)
                super().finish()

            def log_message(self, *_: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: Any) -> None:
                """A client that is refused is what tests look for at its own end."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
