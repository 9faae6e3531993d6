"""A server that answers what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import io
import json
import ssl
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

OK = {"retcode": 0, "retmsg": "success"}


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes | None

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"null")


@dataclass
class Reply:
    status: int = 200
    body: bytes | dict[str, Any] = field(default_factory=lambda: dict(OK))
    headers: dict[str, str] = field(default_factory=dict)

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class Stub:
    """What is said next, in order; the last of the script again and again."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    script: list[Reply | Callable[[Asked], Reply]] = field(default_factory=lambda: [Reply()])
    keeps_bodies: bool = True

    def answers(self, *replies: Any) -> None:
        """Each is a Reply, an envelope, or a function of what was asked."""
        self.script = [Reply(body=one) if isinstance(one, dict) else one for one in replies]

    @property
    def last(self) -> Asked:
        return self.asked[-1]

    def reply_to(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        reply = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return reply if isinstance(reply, Reply) else reply(asked)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is nothing new."""


@contextmanager
def running_stub(tls: ssl.SSLContext | None = None) -> Iterator[Stub]:
    """`tls`: what it shows to its clients; None: it speaks no TLS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            path, _, query = self.path.partition("?")
            reply = stub.reply_to(Asked(self.command, path, query, dict(self.headers), self.read_body()))
            content = reply.content()
            self.send_response(reply.status)
            headers = {"Content-Type": "application/json", "Content-Length": str(len(content)), **reply.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

        def read_body(self) -> bytes | None:
            left = int(self.headers.get("Content-Length", -1))
            if left < 0:
                return None
            kept = []
            while left:
                chunk = self.rfile.read(min(left, 65536))
                if not chunk:
                    raise ConnectionError("the client went away, so this was no request")
                left -= len(chunk)
                if stub.keeps_bodies:
                    kept.append(chunk)
            return b"".join(kept)

        def log_message(self, *_: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    stub = Stub(f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()


def tar_of(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return packed.getvalue()


def archive(files: dict[str, str]) -> Reply:
    return Reply(body=tar_of(files), headers={"Content-Type": "application/gzip"})
