"""A peer of flesh and blood on a free port, what is sent to it, and what comes back."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from typing import Any

from fate_flow.core.metrics.spans import NoSpans, Spans
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.heartbeat import HeartbeatReply
from fate_flow.peers.peer_senders import PeerListener, PeerSender
from fate_flow.peers.signature import SiteSignature
from tests.kit.values import HOST, JOB_ID

K = CommandKind
WAIT = 120.0       # seconds; what is waited for comes at once
BATCH = {"extensions": {"batch": 1}}

Reply = tuple[int, bytes] | Callable[[BaseHTTPRequestHandler], None]


def ok(data: Any = None) -> Reply:
    return 200, json.dumps({"retcode": 0, "retmsg": "success", "data": data}).encode()


class Peer:
    """A party's server that answers as the test says: `replies` one after the other, then always `usual`."""

    def __init__(self, port: int = 0) -> None:
        self.asked: list[tuple[str, Any, Any]] = []
        self.connections: set[tuple[str, int]] = set()
        self.replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self.usual: Callable[[str, Any], Reply] = self._obliging
        self.says_who = ""            # it is, in its answers; a plain v1 server does not
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                peer.connections.add(self.client_address)
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                who = peer.says_who       # first: a test that changes both changes this one last
                reply = peer.usual(self.path, body) if peer.replies.empty() else peer.replies.get()
                # Last: a test that sees a request here and adds a reply means it for the next request.
                peer.asked.append((self.path, body, self.headers))
                if callable(reply):
                    reply(self)
                    return
                self.send_response(reply[0])
                self.send_header("Content-Length", str(len(reply[1])))
                if who:
                    self.send_header("SRC-PARTY-ID", who)
                self.end_headers()
                self.wfile.write(reply[1])

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def _obliging(self, path: str, body: Any) -> Reply:
        if path == "/v1/party/batch":
            return ok([{"retcode": 0, "retmsg": "success", "data": None} for _ in body["commands"]])
        if path == "/v1/party/heartbeat":
            return ok({"ended": {}, **BATCH})
        return ok()

    @property
    def paths(self) -> list[str]:
        return [path.removeprefix("/v1") for path, _, _ in self.asked]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Recorder:
    """What a sender said to its scheduler and to the log."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[tuple[Command, Answer]] = queue.SimpleQueue()
        self.ended: queue.SimpleQueue[tuple[str, dict[str, str], dict[str, int]]] = queue.SimpleQueue()
        self.silence: queue.SimpleQueue[tuple[str, float]] = queue.SimpleQueue()
        self.failures: list[tuple[str, float, str]] = []
        self.replies: list[HeartbeatReply] = []
        self.log: list[str] = []

    def _record(self, party_id: str, reply: HeartbeatReply, runs: Any) -> None:
        self.replies.append(reply)
        self.ended.put((party_id, dict(reply.ended), dict(runs)))

    def listener(self) -> PeerListener:
        return PeerListener(
            lambda answers: [self.answers.put(one) for one in answers],
            lambda party_id, reply, runs: self._record(party_id, reply, runs),
            lambda party_id, seconds: self.silence.put((party_id, seconds)),
            lambda party_id, seconds, error: self.failures.append((party_id, seconds, error)),
        )

    def requested(self, job_id: str, url: str) -> None:
        self.log.append(f"{job_id} asked {url.split('/v1')[1]}")

    def answered(self, job_id: str, endpoint: str, body: Any) -> None:
        self.log.append(f"{job_id} answered {endpoint} {body['retcode']}")

    def take(self, count: int = 1) -> list[tuple[Command, Answer]]:
        return [self.answers.get(timeout=WAIT) for _ in range(count)]

    def retcodes(self, count: int) -> list[int]:
        return [answer.retcode for _, answer in self.take(count)]


def make_sender(
    port: int, recorder: Recorder, party_id: str = "10000", timeout: float = WAIT, silence: float = 60.0,
    auth: SiteSignature | None = None, first_pause: float = 0.01, probe_pause: float = 1.0, longest_gap: float = inf,
    spans: Spans | None = None,
) -> PeerSender:  # fmt: skip
    return PeerSender(
        party_id, f"http://127.0.0.1:{port}", "9999", lambda command: f"/party/{command.argument}",
        recorder.listener(), recorder,
        timeout, silence, first_pause=first_pause, probe_pause=probe_pause, auth=auth,
        longest_gap=longest_gap, spans=spans or NoSpans(),
    )  # fmt: skip


def commands(count: int, kind: CommandKind = K.STATUS, to: Party = HOST) -> list[Command]:
    """Numbered, with their number as the path."""
    return [Command(kind, JOB_ID, to, argument=str(number), body={"n": number}, id=number) for number in range(count)]


def answer(handler: BaseHTTPRequestHandler, body: bytes, **head: str) -> None:
    handler.send_response(200)
    for name, value in {"Content-Length": str(len(body)), **head}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)
