"""Metrics of a provider's component while it runs: FATE 2's components send them to an address, one by one.

This address is on loopback, and only the component knows it. What comes is passed on to the own server, and kept for
the result file.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from fate_flow.components.metrics import SEND_SECONDS, Sender, post_to
from fate_flow.core.metrics.form import MOST_BYTES_OF_JOB, Kept, joined, read_metrics

log = logging.getLogger("fate_flow.provider")

_LOOK_SECONDS = 0.1               # whether to stop
_MOST_BODY = 4 * 1024 * 1024


@dataclass
class Received:
    """What a component has reported so far."""

    sender: Sender
    most_bytes: int = MOST_BYTES_OF_JOB
    _metrics: list[Kept] = field(default_factory=list)
    _size: int = 0
    _lock: Lock = field(default_factory=Lock)

    def take(self, body: bytes) -> str:
        """Take the metrics of a request; return what is wrong with it."""
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            return self._left_out("the body is not JSON")
        listed = said.get("data") if isinstance(said, Mapping) else None
        if not isinstance(listed, list):
            return self._left_out("the body is not an object with a list of metrics, data")
        return self.add(listed, len(body))

    def add(self, listed: list[Any], size: int) -> str:
        """Take metrics in FATE 2's form; return what is wrong with some of them."""
        found, wrong = read_metrics(listed)
        with self._lock:
            self._size += size
            if self._size > self.most_bytes:
                return self._left_out(f"they have more than {self.most_bytes} bytes")
            self._metrics += found
        self.sender.add(found)
        return self._left_out("; ".join(wrong)) if wrong else ""

    @property
    def metrics(self) -> list[Kept]:
        with self._lock:
            return joined(self._metrics)

    def _left_out(self, why: str) -> str:
        log.error("metrics of the component are left out: %s", why)
        return why


class Receiver:
    """Serves the address in a thread, until it is closed."""

    def __init__(self, received: Received) -> None:
        self._received, self._ended = received, Event()
        path = f"/{secrets.token_hex(16)}"

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = self.headers.get("Content-Length", "")
                if self.path != path or not size.isdecimal() or int(size) > _MOST_BODY:
                    self.close_connection = True
                    return self._answer(404, {"code": 6003, "message": "not found"})
                wrong = received.take(self.rfile.read(int(size)))
                said = {"code": 5001, "message": wrong} if wrong else {"code": 0, "message": "success"}
                return self._answer(200, said)

            def _answer(self, status: int, said: Mapping[str, Any]) -> None:
                body = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """The component's log is not for requests to its own worker."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_address[1]}{path}"
        self._threads = [Thread(target=one, daemon=True) for one in (self._serve, self._send)]
        for thread in self._threads:
            thread.start()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=_LOOK_SECONDS)

    def _send(self) -> None:
        while not self._ended.wait(SEND_SECONDS):
            self._received.sender.flush()

    def close(self) -> None:
        """Stop, and send what has not been sent yet."""
        self._server.shutdown()
        self._server.server_close()
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._received.sender.flush()


def received_for(exchange: Mapping[str, str]) -> Received:
    """Return what passes metrics on to the server with this exchange, `{url, token}`."""
    return Received(Sender(post_to(exchange["url"], exchange["token"], exchange.get("servers", ""))))


def add_file(received: Received, path: Path) -> None:
    """Take the metrics that a component has written into a file instead."""
    try:
        text = path.read_text(encoding="utf-8")
        listed = json.loads(text)
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError) as error:
        log.error("metrics of the component are left out: %s is not JSON: %s", path, type(error).__name__)
        return
    if isinstance(listed, list):
        received.add(listed, len(text))
    else:
        log.error("metrics of the component are left out: %s is not a list of metrics", path)
