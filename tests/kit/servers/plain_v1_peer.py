"""A server of FATE Flow 1.11.2 on a port of its own, as strict as the genuine one (`tests/fate_1_11_2/peer.py`).

As a host it takes the commands of an initiator and keeps a task running until the test, or a stop, ends it. As an
initiator it says what a scheduler of FATE Flow says, in its order. A path that it does not have is answered as the
genuine server does: HTTP 200, retcode 100, and a traceback in its log.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests

from tests.fate_1_11_2.peer import Envelope, FatePeer
from tests.kit.waiting import eventually

KNOWN = {"waiting", "ready", "running", "canceled", "timeout", "failed", "pass", "success"}


class PlainV1Peer(FatePeer):
    """`ends_as`: how its tasks end by themselves, as soon as somebody asks or at once when it reports; "" for never."""

    def __init__(self, party_id: str, server_url: str = "") -> None:
        super().__init__(party_id)
        self.server_url = server_url
        self.reported: list[dict[str, Any]] = []     # to it, as an initiator
        self.given_up: list[str] = []                # jobs that a host of it has ended
        self.is_silent = False
        self.be_as_ever()
        self._lock = threading.RLock()
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                if peer.is_silent:
                    self.close_connection = True
                    return
                text = json.dumps(peer.serve(self.path.removeprefix("/v1"), body)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def be_as_ever(self) -> None:
        """Nothing is known, refused or said, and nothing stands in its log."""
        self.jobs.clear()
        for memory in (self.asked, self.tracebacks, self.reported, self.given_up, self.said):
            memory.clear()
        self.refuses, self.ends_as, self.reports, self.is_silent = {}, "success", False, False

    def hears_of(self, status: str) -> None:
        """Wait until a share was reported to it in this status. An older report may come later, if another process of
        the server wrote it: FATE takes no step back from an end."""
        eventually(lambda: status in [one["party_status"] for one in self.reported], lambda: self.reported)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    # ------------------------------------------------------------------ what it answers

    def serve(self, path: str, body: dict[str, Any]) -> Envelope:
        """The answer; what it says by itself meanwhile, it says before, as FATE does."""
        with self._lock:
            answer = self._to_initiator(path.strip("/").split("/"), body) or self.answer(path, body)
            if self.ends_as and (self.reports or path.endswith("/collect")):
                self._end_what_runs()
            said, self.said = self.said, []
        for endpoint, described in said:
            self.post(endpoint.strip("/"), described)
        return answer

    def _to_initiator(self, parts: list[str], body: dict[str, Any]) -> Envelope | None:
        if parts[0] == "initiator" and parts[-1] == "report":
            assert body["party_status"] in KNOWN, body
            self.reported.append(body)
        elif parts[0] == "initiator" and parts[4:] == ["stop", "failed"]:
            self.given_up.append(parts[1])
        else:
            return None
        return {"retcode": 0, "retmsg": "success"}

    def _end_what_runs(self) -> None:
        for job in self.jobs.values():
            for task in job.newest():
                if task.party_status == "running":
                    self.ends(job.job_id, task.task_id.removeprefix(f"{job.job_id}_"), self.ends_as)

    # ------------------------------------------------------------------ what it says as an initiator

    def post(self, endpoint: str, body: object = None) -> Envelope:
        head = {"src-party-id": self.party_id, "src-role": "guest", "service": "fateflow", "SRC-FATE-VER": "1.11.2"}
        answer = requests.post(f"{self.server_url}/v1/{endpoint}", json=body or {}, headers=head, timeout=30)
        document = answer.json()
        assert isinstance(document, dict), document
        return document

    @contextmanager
    def aligning(self, endpoint: str, seconds: float = 0.2) -> Iterator[None]:
        """FATE's heartbeat, all the while."""
        done = threading.Event()

        def align() -> None:
            while not done.wait(seconds):
                self.post(endpoint, {"job_id": endpoint.split("/")[1], "role": "guest", "party_id": self.party_id})

        thread = threading.Thread(target=align, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
