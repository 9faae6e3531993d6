"""Many parties that do nothing but answer heartbeats and send them, in one thread for each direction."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

from fate_flow.core.wire.v1.envelope import DEST_PARTY_ID, SRC_PARTY_ID
from fate_flow.core.wire.v1.paths import HEARTBEAT

_ANSWER = json.dumps({
    "retcode": 0, "retmsg": "success", "data": {"ended": {}, "extensions": {}, "round_trip_ms": 3},
}).encode()  # fmt: skip


class _Partner(BaseHTTPRequestHandler):
    """Answers as whichever party a request is for."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        if getattr(self.server, "is_over", False):
            self.close_connection = True
            return
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header(SRC_PARTY_ID, self.headers.get(DEST_PARTY_ID, ""))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(_ANSWER)))
        self.end_headers()
        self.wfile.write(_ANSWER)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def answering(port: int = 0) -> Iterator[str]:
    """The address of all of them. Afterwards nobody listens there."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _Partner)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.is_over = True        # type: ignore[attr-defined]  # for the threads of kept connections
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def asking(url: str, own: str, party_ids: Sequence[str], every_seconds: float) -> Iterator[None]:
    """Each of these parties sends the server at `url`, which is `own`, a heartbeat in each `every_seconds`."""
    is_over = threading.Event()

    def beat() -> None:
        with requests.Session() as session:
            while not is_over.is_set():
                for party_id in party_ids:
                    head = {SRC_PARTY_ID: party_id, DEST_PARTY_ID: own}
                    session.post(f"{url}/v1{HEARTBEAT}", json={"jobs": []}, headers=head, timeout=30).raise_for_status()
                    if is_over.wait(every_seconds / len(party_ids)):
                        return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
