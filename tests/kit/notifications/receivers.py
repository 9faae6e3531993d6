"""A webhook and a mail server on loopback, which do what a test says."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Webhooks:
    """Answers with `status`, or never as long as `hangs`; `got` has the headers and body of each request."""

    url: str = ""
    status: int = 204
    location: str = ""
    hangs: threading.Event | None = None
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def webhook_receiver(context: ssl.SSLContext | None = None) -> Iterator[Webhooks]:
    found = Webhooks()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.got.append(({key.lower(): value for key, value in self.headers.items()}, body))
            if found.hangs is not None:
                found.hangs.wait(60)
            with suppress(OSError):
                self.send_response(found.status)
                if found.location:
                    self.send_header("location", found.location)
                self.send_header("content-length", "0")
                self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None: ...         # a client that ends a connection is no error here

    with _running(Server(("127.0.0.1", 0), Handler)) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        found.url = f"http{'s' if context else ''}://127.0.0.1:{server.server_address[1]}/hook?token=hidden"
        yield found
        if found.hangs is not None:
            found.hangs.set()


@dataclass
class Mailbox:
    """Takes mails; `replies` has another reply than the usual one to a command of SMTP, such as RCPT."""

    port: int = 0
    replies: dict[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None              # for STARTTLS; None: it is not offered
    mails: list[tuple[str, str]] = field(default_factory=list)         # address, text
    commands: list[str] = field(default_factory=list)


@contextmanager
def mail_receiver(tls: ssl.SSLContext | None = None) -> Iterator[Mailbox]:
    found = Mailbox(tls=tls)

    class Handler(_Mails):
        mailbox = found

    with _running(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as server:
        found.port = server.server_address[1]
        yield found


class _Mails(socketserver.StreamRequestHandler):
    """As much of SMTP as a mail needs."""

    mailbox: Mailbox

    def handle(self) -> None:
        self._say("220 here")
        self._address = ""
        while line := self._line():
            command = line.strip()
            word = command.split(" ")[0].upper()
            self.mailbox.commands.append(command)
            if word in self.mailbox.replies:
                self._say(self.mailbox.replies[word])
            elif not self._reply(word, command):
                return

    def _reply(self, word: str, command: str) -> bool:
        """Reply to a command; return whether another one may follow."""
        if word == "EHLO":
            self._say("\r\n".join(["250-here", *(["250-STARTTLS"] if self.mailbox.tls else []), "250 AUTH PLAIN"]))
        elif word == "STARTTLS" and self.mailbox.tls is not None:
            self._say("220 go on")
            self.request = self.mailbox.tls.wrap_socket(self.request, server_side=True)
            self.setup()
        elif word == "DATA":
            self._say("354 go on")
            self.mailbox.mails.append((self._address, self._text()))
            self._say("250 ok")
        elif word == "RCPT":
            self._address = command.partition("<")[2].rstrip(">")
            self._say("250 ok")
        else:
            self._say({"QUIT": "221 bye", "AUTH": "235 ok"}.get(word, "250 ok"))
        return word != "QUIT"

    def _line(self) -> str:
        try:
            return self.rfile.readline().decode()
        except OSError:
            return ""

    def _text(self) -> str:
        lines = []
        while (line := self.rfile.readline().decode()) not in (".\r\n", ""):
            lines.append(line)
        return "".join(lines)

    def _say(self, text: str) -> None:
        with suppress(OSError):
            self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def _running(server: Any) -> Iterator[Any]:
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def nobody_listens() -> int:
    """Return a port of this machine that refuses connections. It stays bound: a free port may be that of somebody else
    a moment later, or of the one who connects."""
    return int(_held().getsockname()[1])


@cache
def _held() -> socket.socket:
    found = socket.socket()
    found.bind(("127.0.0.1", 0))
    return found
