"""Commands on their way to other parties, against a peer of flesh and blood on a free port."""

from __future__ import annotations

import itertools
import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hostile_server import DRIPPING, HostileServer

from fate_flow.core.job import UNREACHABLE, Answer, Command, CommandKind
from fate_flow.core.peer import HeartbeatReply
from fate_flow.core.spec import Party
from fate_flow.federation.lanes import Ears, Lane, Lanes, PartyState
from fate_flow.federation.signature import INPUT, SIGNATURE, Covered, SiteSignature, digest_of, read_claim
from tests.factories import HOST, JOB_ID, OTHER
from tests.site_keys import write_private_key

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
                peer.asked.append((self.path, body, self.headers))
                who = peer.says_who       # first: a test that changes both changes this one last
                reply = peer.usual(self.path, body) if peer.replies.empty() else peer.replies.get()
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


class Heard:
    """What a lane said to its scheduler and to the log."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[tuple[Command, Answer]] = queue.SimpleQueue()
        self.ended: queue.SimpleQueue[tuple[str, dict[str, str], dict[str, int]]] = queue.SimpleQueue()
        self.silence: queue.SimpleQueue[tuple[str, float]] = queue.SimpleQueue()
        self.failures: list[tuple[str, float, str]] = []
        self.replies: list[HeartbeatReply] = []
        self.log: list[str] = []

    def _hear(self, party_id: str, reply: HeartbeatReply, runs: Any) -> None:
        self.replies.append(reply)
        self.ended.put((party_id, dict(reply.ended), dict(runs)))

    def ears(self) -> Ears:
        return Ears(
            lambda answers: [self.answers.put(one) for one in answers],
            lambda party_id, reply, runs: self._hear(party_id, reply, runs),
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


@pytest.fixture
def peer() -> Iterator[Peer]:
    one = Peer()
    yield one
    one.close()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def lane(peer: Peer, heard: Heard) -> Iterator[Lane]:
    one = make_lane(peer.port, heard)
    yield one
    one.close()


def make_lane(
    port: int, heard: Heard, party_id: str = "10000", timeout: float = WAIT, silence: float = 60.0,
    auth: SiteSignature | None = None, first_pause: float = 0.01, probe_pause: float = 1.0, longest_gap: float = inf,
) -> Lane:  # fmt: skip
    return Lane(
        party_id, f"http://127.0.0.1:{port}", "9999", lambda command: f"/party/{command.argument}", heard.ears(), heard,
        timeout, silence, first_pause=first_pause, probe_pause=probe_pause, auth=auth,
        longest_gap=longest_gap,
    )  # fmt: skip


def commands(count: int, kind: CommandKind = K.STATUS, to: Party = HOST) -> list[Command]:
    """Numbered, with their number as the path."""
    return [Command(kind, JOB_ID, to, argument=str(number), body={"n": number}, id=number) for number in range(count)]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Nobody listens there. It is held: no other process gets it meanwhile, only a `Peer` of the test may listen."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


# ---------------------------------------------------------------------- the usual way


def test_commands_arrive_in_their_order_over_one_connection(peer: Peer, heard: Heard, lane: Lane) -> None:
    sent = commands(30)
    lane.post(sent[:10])
    lane.post(sent[10:])
    assert [command for command, _ in heard.take(30)] == sent
    assert peer.paths == [f"/party/{number}" for number in range(30)]
    assert [body for _, body, _ in peer.asked] == [{"n": number, "run": 0} for number in range(30)]
    assert len(peer.connections) == 1
    _, _, head = peer.asked[0]
    assert (head["SRC-PARTY-ID"], head["DEST-PARTY-ID"]) == ("9999", "10000")


def test_an_answer_is_the_envelope_of_the_peer(peer: Peer, heard: Heard, lane: Lane) -> None:
    peer.usual = lambda *_: (200, b'{"retcode": 103, "retmsg": "no room", "data": {"free_cores": 1}}')
    lane.post(commands(1, K.APPLY))
    assert heard.take() == [(commands(1, K.APPLY)[0], Answer(103, "no room", {"free_cores": 1}))]
    assert heard.log == [f"{JOB_ID} asked /party/0", f"{JOB_ID} answered /v1/party/0 103"]


def test_a_peer_that_announces_it_gets_several_commands_in_one_request(peer: Peer, heard: Heard, lane: Lane) -> None:
    peer.replies.put(ok(BATCH))
    lane.post(commands(1, K.CREATE))
    heard.take()
    sent = commands(100)
    lane.post(sent)
    assert [command for command, _ in heard.take(100)] == sent
    batches = [body["commands"] for path, body, _ in peer.asked if path == "/v1/party/batch"]
    assert [len(one) for one in batches] == [64, 36]
    assert batches[0][3] == {"endpoint": "/party/3", "body": {"n": 3, "run": 0}}


@pytest.mark.parametrize("data", [{}, {"extensions": {}}, {"extensions": ["batch"]}, {"extensions": None}, None])
def test_a_plain_v1_peer_gets_them_one_by_one(data: Any, peer: Peer, heard: Heard, lane: Lane) -> None:
    peer.replies.put(ok(data))
    lane.post(commands(1, K.CREATE))
    heard.take()
    lane.post(commands(5))
    heard.take(5)
    assert "/party/batch" not in peer.paths


def test_after_a_restart_the_first_heartbeat_learns_what_the_peer_understands(
    peer: Peer, heard: Heard, lane: Lane
) -> None:
    lane.beat(((JOB_ID, 0),))
    assert heard.ended.get(timeout=WAIT) == ("10000", {}, {JOB_ID: 0})
    lane.post(commands(5))
    heard.take(5)
    assert peer.paths[0] == "/party/heartbeat"
    assert peer.asked[0][1] == {"jobs": [[JOB_ID, 0]]}
    assert "/party/batch" in peer.paths


def test_a_heartbeat_brings_what_is_over_there(peer: Peer, heard: Heard, lane: Lane) -> None:
    peer.replies.put(ok({"ended": {JOB_ID: "done", "x": 7}}))
    lane.beat(((JOB_ID, 2),))
    assert heard.ended.get(timeout=WAIT) == ("10000", {JOB_ID: "done", "x": "7"}, {JOB_ID: 2})


@pytest.mark.parametrize(
    "reply",
    [
        (404, b"<html>not found</html>"), (405, b""),
        (200, b'{"retcode": 100, "retmsg": "404 Not Found"}'),              # as FATE says it
        (200, b'{"retcode": 0, "data": {"ended": ["x"]}}'),
    ],
)
def test_a_peer_without_heartbeats_is_not_silent(reply: Reply, peer: Peer, heard: Heard, lane: Lane) -> None:
    peer.replies.put(reply)
    lane.beat(())
    lane.post(commands(3))
    assert heard.retcodes(3) == [0, 0, 0]
    assert lane.state().is_answering
    assert "/party/batch" not in peer.paths


def test_an_answer_to_a_heartbeat_that_is_no_envelope_is_none(peer: Peer, heard: Heard) -> None:
    peer.replies.put((200, b'{"message": "welcome to the portal"}'))
    lane = make_lane(peer.port, heard, first_pause=WAIT)      # the next request is not sent before it is over
    lane.beat(())
    lane.post(commands(1, K.CHECK))
    assert heard.retcodes(1) == [UNREACHABLE]
    assert peer.paths == ["/party/heartbeat"]
    lane.close()


def test_a_newer_heartbeat_replaces_one_that_has_not_left(peer: Peer, heard: Heard, lane: Lane) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold(handler: BaseHTTPRequestHandler) -> None:
        entered.set()
        leave.wait(WAIT)
        answer(handler, b'{"retcode": 0}')

    peer.replies.put(hold)
    lane.post(commands(1))
    entered.wait(WAIT)
    for run in range(3):
        lane.beat(((JOB_ID, run),))
    leave.set()
    heard.ended.get(timeout=WAIT)
    beats = [body for path, body, _ in peer.asked if path.endswith("heartbeat")]
    assert beats == [{"jobs": [[JOB_ID, 2]]}]


def answer(handler: BaseHTTPRequestHandler, body: bytes, **head: str) -> None:
    handler.send_response(200)
    for name, value in {"Content-Length": str(len(body)), **head}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


# ---------------------------------------------------------------------- when another one answers


NOT_HERE = 101, "party_id: this server is party 7777, not 10000"
REFUSAL: Reply = (200, json.dumps(dict(zip(("retcode", "retmsg"), NOT_HERE, strict=True))).encode())


def unreachable(heard: Heard) -> str:
    [(_, said)] = heard.take()
    assert said.retcode == UNREACHABLE
    return said.retmsg.removeprefix("Federated schedule error, party 10000: ")


@pytest.mark.parametrize("reply", [REFUSAL, ok(), (404, b"<html>"), (500, b"")])
@pytest.mark.parametrize("kind", [K.CREATE, K.CHECK, K.APPLY])
def test_what_another_party_says_is_no_answer(
    kind: CommandKind, reply: Reply, peer: Peer, heard: Heard, lane: Lane
) -> None:
    peer.says_who = "7777"
    peer.replies.put(reply)
    lane.post(commands(1, kind))
    assert unreachable(heard) == f"another server, that of party 7777, answers at {lane.url}"
    assert not lane.state().is_answering


@pytest.mark.parametrize("reply", [REFUSAL, ok({"ended": {JOB_ID: "it is not known here"}}), (404, b""), (405, b"")])
@pytest.mark.parametrize("says_who", ["7777", ""])
def test_a_heartbeat_that_another_server_answers_is_not_heard(
    says_who: str, reply: Reply, peer: Peer, heard: Heard
) -> None:
    """Neither is the job that it does not know over at the party, nor does the party live."""
    lane = make_lane(peer.port, heard, silence=0.05)
    peer.says_who = "10000"
    lane.beat(())
    heard.ended.get(timeout=WAIT)
    peer.says_who, peer.usual = says_who, lambda *_: reply
    lane.beat(((JOB_ID, 0),))
    lane.post(commands(1))            # must arrive, so it goes on asking
    assert heard.silence.get(timeout=WAIT)[0] == "10000"
    assert heard.ended.empty()
    assert not lane.state().is_answering
    peer.usual = peer._obliging
    peer.says_who = "10000"
    assert heard.retcodes(1) == [0]
    assert lane.state().is_answering
    lane.close()


def test_who_has_said_who_it_is_does_not_leave_it_out(peer: Peer, heard: Heard, lane: Lane) -> None:
    peer.says_who = "10000"
    lane.post(commands(1, K.CHECK))
    assert heard.retcodes(1) == [0]
    peer.says_who = ""
    peer.replies.put(REFUSAL)
    lane.post(commands(1, K.CHECK))
    where = f"another server, which does not say whose it is, answers at {lane.url}"
    assert unreachable(heard) == f"{where}: {NOT_HERE[1]}"


def test_what_is_known_of_a_party_outlives_the_process(peer: Peer, heard: Heard) -> None:
    lane = make_lane(peer.port, heard)
    lane.says_who = True              # as it is made for a party that takes part in a job
    peer.replies.put(REFUSAL)
    lane.post(commands(1, K.CHECK))
    assert unreachable(heard).endswith(NOT_HERE[1])
    lane.close()


@pytest.mark.parametrize(("reply", "is_taken"), [(ok(), True), (REFUSAL, False)])
def test_a_party_that_accepts_a_job_as_a_plain_v1_one_is_one(
    reply: Reply, is_taken: bool, peer: Peer, heard: Heard
) -> None:
    lane = make_lane(peer.port, heard)
    lane.says_who = True
    peer.replies.put(reply)
    lane.post(commands(1, K.CREATE))
    assert heard.retcodes(1) == [0 if is_taken else UNREACHABLE]
    assert lane.says_who is not is_taken
    lane.close()


CONF = {"dsl_version": 2, "job_parameters": {"common": {"task_cores": 1}, "role": {}}, "component_parameters": {}}
ON_PARTY = {"dsl_version": 2, "job_parameters": {"task_cores": 1}, "component_parameters": {}}


@pytest.mark.parametrize(("is_known", "is_doubted"), [(False, False), (True, False), (True, True)])
def test_who_is_not_known_to_be_ours_gets_with_a_job_what_fate_needs(
    is_known: bool, is_doubted: bool, peer: Peer, heard: Heard
) -> None:
    lane = make_lane(peer.port, heard, probe_pause=0.0)
    peer.says_who, lane.says_who = "10000" if is_known else "", is_known
    create = Command(K.CREATE, JOB_ID, HOST, argument="0", body={"runtime_conf": CONF})
    if is_doubted:
        peer.replies.put((500, b"what?"))
        lane.post([create])
        heard.take()
    lane.post([create])
    heard.take()
    body = peer.asked[-1][1]
    assert body["runtime_conf"] == CONF
    assert body.get("runtime_conf_on_party") == (None if is_known and not is_doubted else ON_PARTY)
    lane.close()


# ---------------------------------------------------------------------- when it does not answer


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def drip(handler: BaseHTTPRequestHandler) -> None:
    """One byte after the other, for ever."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    with pytest.raises(OSError):      # noqa: PT012
        while True:
            handler.wfile.write(b"1\r\n[\r\n")
            handler.wfile.flush()
    handler.close_connection = True


GARBAGE: dict[str, Reply] = {
    "an error": (500, b'{"retcode": 500, "retmsg": "the database is locked"}'),
    "busy": (503, b"try again"),
    "not found": (404, b"<html>"),
    "not JSON": (200, b"<html>hello</html>"),
    "empty": (200, b""),
    "a list": (200, b"[1]"),
    "no envelope": (200, b'{"message": "welcome to the portal"}'),
    "no retcode": (200, b'{"retcode": "0"}'),
    "not UTF-8": (200, b'{"retcode": 0, "retmsg": "\xff\xfe"}'),
    "deep": (200, b"[" * 100_000),
    "a redirect": (307, b""),
    "a closed connection": hang_up,
    "too much": lambda handler: answer(handler, b'{"retcode": 0, "retmsg": "' + b"x" * 17_000_000 + b'"}'),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_what_must_arrive_is_sent_again_until_it_has_an_answer_and_the_order_stays(
    what: str, peer: Peer, heard: Heard, lane: Lane
) -> None:
    for _ in range(3):
        peer.replies.put(GARBAGE[what])
    sent = commands(3)
    lane.post(sent)
    assert heard.take(3) == [(command, Answer(0, "success")) for command in sent]
    paths = [path for path, _ in itertools.groupby(peer.paths)]
    assert paths == ["/party/0", "/party/1", "/party/2"]
    assert peer.paths.count("/party/0") >= 3
    assert lane.state().is_answering


@pytest.mark.parametrize("what", [what for what in GARBAGE if what != "a closed connection"])
@pytest.mark.parametrize("kind", [K.CREATE, K.CHECK, K.APPLY])
def test_what_may_fail_fails_at_once(kind: CommandKind, what: str, peer: Peer, heard: Heard, lane: Lane) -> None:
    peer.replies.put(GARBAGE[what])
    lane.post(commands(1, kind))
    [(command, said)] = heard.take()
    assert (command, said.retcode) == (commands(1, kind)[0], UNREACHABLE)
    assert said.retmsg.startswith("Federated schedule error, party 10000: ")
    assert peer.paths == ["/party/0"]


@pytest.mark.parametrize(("reply", "words"), [
    ((403, b'{"retcode": 403, "retmsg": "Host: x is no name of this server"}'), ": Host: x is no name of this server"),
    ((502, b"<h1>Bad\r\n gateway</h1>"), ": <h1>Bad gateway</h1>"), ((503, b""), ""), ((500, b"[1]"), ""),
    ((400, b'{"retmsg": "a\\u0007b"}'), ": a?b"),
])  # fmt: skip
def test_what_a_server_refuses_by_its_http_status_is_told_in_its_words(
    reply: Reply, words: str, peer: Peer, heard: Heard, lane: Lane
) -> None:
    peer.replies.put(reply)
    lane.post(commands(1, K.APPLY))
    [(_, said)] = heard.take()
    assert isinstance(reply, tuple)
    assert said.retmsg == f"Federated schedule error, party 10000: HTTP status {reply[0]}{words}"


def test_an_answer_without_end_is_left(peer: Peer, heard: Heard) -> None:
    peer.replies.put(drip)
    lane = make_lane(peer.port, heard, timeout=0.3)
    lane.post(commands(1, K.APPLY))
    [(_, said)] = heard.take()
    assert said.retmsg == "Federated schedule error, party 10000: no answer in time"
    lane.close()


@pytest.mark.parametrize("what", ["a head", "a body", "the size of a chunk"])
def test_a_party_that_sends_a_byte_now_and_then_is_silent(what: str, heard: Heard) -> None:
    server = HostileServer(DRIPPING[what], drips=True)
    lane = make_lane(server.port, heard, timeout=0.3, silence=0.0)
    lane.beat(((JOB_ID, 0),))
    assert heard.silence.get(timeout=WAIT)[0] == "10000"
    assert not lane.state().is_answering
    assert lane.state().error == "no answer in time"
    lane.close()
    server.close()


def a_clock_that_jumps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the lanes read; its one number is for how many seconds this process stood still."""
    steady, stood_still = time.monotonic, [0.0]
    monkeypatch.setattr("fate_flow.federation.peer_http._LATE_SECONDS", WAIT)     # the peer may be slow to write it
    for module in ("lanes", "peer_http"):
        clock = SimpleNamespace(monotonic=lambda: steady() + stood_still[0])
        monkeypatch.setattr(f"fate_flow.federation.{module}.time", clock)
    return stood_still


@pytest.mark.parametrize("longest_gap", [50.0, inf])
def test_a_party_that_was_silent_before_this_process_stood_still_is_asked_before_it_is_lost(
    closed_port: int, heard: Heard, monkeypatch: pytest.MonkeyPatch, longest_gap: float
) -> None:
    stood_still = a_clock_that_jumps(monkeypatch)
    lane = make_lane(closed_port, heard, silence=60.0, longest_gap=longest_gap)
    lane.post(commands(1, K.CHECK))
    assert heard.retcodes(1) == [UNREACHABLE]
    stood_still[0] = 100.0
    lane.tell_silence()
    assert heard.silence.empty() is (longest_gap < 100)
    lane.close()


def test_an_answer_that_came_while_this_process_stood_still_counts(
    peer: Peer, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a server that was stopped for long would take the others for silent when it goes on."""
    stood_still = a_clock_that_jumps(monkeypatch)

    def while_stopped(handler: BaseHTTPRequestHandler) -> None:
        stood_still[0] = 100.0
        answer(handler, b'{"retcode": 0, "retmsg": "success"}')

    peer.replies.put(while_stopped)
    lane = make_lane(peer.port, heard, timeout=50.0, silence=60.0)
    lane.post(commands(1))
    assert heard.retcodes(1) == [0]
    assert lane.state().is_answering
    assert heard.silence.empty()
    lane.close()


def test_nobody_there(closed_port: int, heard: Heard) -> None:
    lane = make_lane(closed_port, heard)
    lane.post(commands(1, K.CREATE))
    [(_, said)] = heard.take()
    assert said.retmsg == "Federated schedule error, party 10000: connection refused"
    lane.close()


def test_a_peer_that_hangs_costs_the_time_of_one_request(peer: Peer, heard: Heard) -> None:
    leave = threading.Event()
    peer.replies.put(lambda _: leave.wait(WAIT) and None)
    lane = make_lane(peer.port, heard, timeout=0.3)
    lane.post(commands(1, K.APPLY))
    [(_, said)] = heard.take()
    assert said.retmsg == "Federated schedule error, party 10000: no answer in time"
    leave.set()
    lane.close()


def test_while_it_is_known_not_to_answer_what_may_fail_is_not_even_sent(
    closed_port: int, heard: Heard
) -> None:
    lane = make_lane(closed_port, heard, first_pause=WAIT, probe_pause=WAIT)
    lane.post(commands(1, K.APPLY))
    heard.take()
    kept, lost = commands(1), [Command(K.CHECK, JOB_ID, HOST, id=7), Command(K.CREATE, JOB_ID, HOST, id=8)]
    before = len(heard.log)
    lane.post([lost[0], *kept, lost[1]])
    assert [(command, said.retcode) for command, said in heard.take(2)] == [(one, UNREACHABLE) for one in lost]
    soon = pytest.approx(0, abs=WAIT)
    assert lane.state() == PartyState("10000", lane.url, "open", soon, 1, "connection refused", 1, soon)
    assert len(heard.log) == before
    lane.close()


def test_a_party_that_is_asked_whether_it_is_back_is_probed_and_the_log_tells_each_turn(
    peer: Peer, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    leave, asked = threading.Event(), threading.Event()

    def slow(handler: BaseHTTPRequestHandler) -> None:
        asked.set()
        leave.wait(WAIT)
        answer(handler, b'{"retcode": 0, "retmsg": "success"}')

    peer.replies.put(hang_up)
    peer.replies.put(slow)
    lane = make_lane(peer.port, heard)
    lane.post(commands(1))
    assert asked.wait(WAIT)
    assert (lane.state().circuit, lane.state().failures) == ("probing", 1)
    leave.set()
    heard.take()
    assert lane.state() == PartyState("10000", lane.url)
    lane.close()
    assert "party 10000 does not answer: connection lost; circuit open, asked again in 0.01 s" in caplog.text
    assert "and 1 tries; circuit closed" in caplog.text


def test_a_job_that_somebody_waits_for_finds_a_party_that_is_back(closed_port: int, heard: Heard) -> None:
    lane = make_lane(closed_port, heard, first_pause=WAIT, probe_pause=0.0)
    lane.post(commands(1, K.APPLY))
    assert heard.retcodes(1) == [UNREACHABLE]
    peer = Peer(closed_port)
    lane.post(commands(1, K.CREATE))
    assert heard.retcodes(1) == [0]
    assert lane.state().is_answering
    lane.close()
    peer.close()


def test_a_heartbeat_that_nobody_heard_keeps_the_commands_behind_it(peer: Peer, heard: Heard, lane: Lane) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold(handler: BaseHTTPRequestHandler) -> None:
        entered.set()
        leave.wait(WAIT)
        answer(handler, b'{"retcode": 0}')

    peer.replies.put(hold)
    peer.replies.put((500, b""))
    lane.post(commands(1))
    entered.wait(WAIT)
    lane.beat(())
    lane.post(commands(3)[1:])
    leave.set()
    assert [command.argument for command, _ in heard.take(3)] == ["0", "1", "2"]
    assert peer.paths[:2] == ["/party/0", "/party/heartbeat"]


@pytest.mark.parametrize(
    "data", [None, "text", [], [{"retcode": 0}], [{"retcode": 0}] * 4, [{"retcode": 0}, 7, None], [{}, {}, {}]]
)
def test_an_answer_to_a_batch_that_does_not_fit_it_is_none(data: Any, peer: Peer, heard: Heard, lane: Lane) -> None:
    peer.replies.put(ok(BATCH))
    lane.post(commands(1, K.CREATE))
    heard.take()
    peer.replies.put(ok(data))
    lane.post(commands(3))
    assert heard.retcodes(3) == [0, 0, 0]
    assert [path for path in peer.paths if path == "/party/batch"] == ["/party/batch"] * 2


def test_of_a_batch_that_nobody_answered_what_may_fail_fails_and_the_rest_is_sent_again(
    peer: Peer, heard: Heard, lane: Lane
) -> None:
    peer.replies.put(ok(BATCH))
    lane.post(commands(1, K.CREATE))
    heard.take()
    first, second, third = commands(3)
    may_fail = Command(K.APPLY, JOB_ID, HOST, argument="1", id=1)
    peer.replies.put((500, b""))
    lane.post([first, may_fail, third])
    assert [(command.argument, said.retcode) for command, said in heard.take(3)] == [
        ("1", UNREACHABLE), ("0", 0), ("2", 0)]  # fmt: skip
    assert second.argument == "1"


def test_silence_is_told_when_it_has_lasted_too_long(closed_port: int, heard: Heard) -> None:
    lane = make_lane(closed_port, heard, silence=0.05)
    lane.post(commands(1))
    party_id, seconds = heard.silence.get(timeout=WAIT)
    assert (party_id, seconds > 0.05) == ("10000", True)
    heard.silence.get(timeout=WAIT)               # and again, as long as it lasts
    lane.close()


def test_silence_counts_from_the_first_question_that_got_no_answer(heard: Heard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        lane = make_lane(deaf.getsockname()[1], heard, timeout=0.2, silence=0.15)
        lane.post(commands(1))
        assert heard.silence.get(timeout=WAIT)[1] >= 0.2       # with the very first failure
        lane.tell_silence()
        assert heard.silence.get(timeout=WAIT)
        lane.close()


def test_a_party_that_answers_is_not_silent(lane: Lane, heard: Heard) -> None:
    lane.post(commands(1))
    heard.take()
    lane.tell_silence()
    assert heard.silence.empty()


def test_what_is_forgotten_is_not_sent(closed_port: int, heard: Heard) -> None:
    # Nothing is under way when it is told to forget.
    lane = make_lane(closed_port, heard, silence=0.0, first_pause=WAIT, probe_pause=0.0)
    lane.post(commands(3))
    heard.silence.get(timeout=WAIT)
    lane.beat((("x", 0),))
    lane.forget()
    peer = Peer(closed_port)
    lane.post(commands(5, K.CREATE)[4:])
    assert heard.retcodes(1) == [0]
    assert peer.paths == ["/party/4"]
    lane.close()
    peer.close()


def test_a_server_that_comes_back_gets_what_was_kept_for_it(closed_port: int, heard: Heard) -> None:
    lane = make_lane(closed_port, heard, silence=0.0)
    lane.post(commands(2))
    heard.silence.get(timeout=WAIT)
    assert not lane.state().is_answering
    peer = Peer(closed_port)
    assert heard.retcodes(2) == [0, 0]
    assert lane.state() == PartyState("10000", lane.url)
    lane.close()
    peer.close()


def test_a_kept_connection_that_the_peer_has_closed_is_opened_again_without_a_failure(
    peer: Peer, heard: Heard, lane: Lane
) -> None:
    def close_after(handler: BaseHTTPRequestHandler) -> None:
        answer(handler, b'{"retcode": 0}')          # promises to keep the connection, and does not
        handler.close_connection = True

    for number in range(3):
        peer.replies.put(close_after)
        lane.post([Command(K.APPLY, JOB_ID, HOST, argument=str(number))])
        assert heard.retcodes(1) == [0]
    assert len(peer.connections) == 3


def test_a_lane_survives_what_an_answer_does_to_its_listener(
    peer: Peer, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    failures = iter([RuntimeError("a defect")])

    def stumble(answers: list[tuple[Command, Answer]]) -> None:
        for failure in failures:
            raise failure
        heard.ears().answers(answers)

    lane = make_lane(peer.port, heard)
    lane.ears = replace(heard.ears(), answers=stumble)
    lane.post(commands(2))
    assert heard.retcodes(2) == [0, 0]
    assert "lane to party 10000" in caplog.text
    lane.close()


def test_a_closed_lane_ends_its_thread(lane: Lane) -> None:
    assert lane._thread.is_alive()
    lane.close()
    lane._thread.join(WAIT)
    assert not lane._thread.is_alive()


# ---------------------------------------------------------------------- all lanes of a server


def test_each_party_has_a_lane_of_its_own(peer: Peer, heard: Heard) -> None:
    stuck = threading.Event()
    slow = Peer()
    slow.replies.put(lambda _: stuck.wait(WAIT) and None)
    ports = {"10000": peer.port, "10001": slow.port}
    lanes = Lanes(
        lambda party_id: make_lane(ports[party_id], heard, party_id) if party_id in ports else None, heard.ears()
    )
    mixed = [one for pair in zip(commands(3, to=OTHER), commands(3), strict=True) for one in pair]
    lanes.post(tuple(mixed))
    assert [command.to for command, _ in heard.take(3)] == [HOST] * 3        # the slow one delays nobody else
    lanes.heartbeat("10000", ())
    assert heard.ended.get(timeout=WAIT) == ("10000", {}, {})
    assert {state.party_id for state in lanes.states()} == {"10000", "10001"}
    stuck.set()
    lanes.close()
    slow.close()


def test_a_party_without_a_route_does_not_answer(heard: Heard) -> None:
    lanes = Lanes(lambda _: None, heard.ears())
    lanes.post(tuple(commands(2)))
    assert heard.take(2) == [(one, Answer(UNREACHABLE, "party 10000 has no route here")) for one in commands(2)]
    lanes.heartbeat("10000", ())
    assert lanes.states() == []


# ---------------------------------------------------------------------- signatures


REFUSED: Reply = 200, b'{"retcode": 109, "retmsg": "party 10000 has no public key of party 9999\\u001b[31m"}'


def test_a_party_that_does_not_believe_us_gets_it_again_signed_anew(
    peer: Peer, heard: Heard, tmp_path: Path
) -> None:
    """Nothing was carried out, and may be when the keys are right."""
    key = write_private_key(tmp_path / "site.pem", 1)
    lane = make_lane(peer.port, heard, auth=SiteSignature(key, lambda: 1_700_000_000_000))
    peer.replies.put(REFUSED)
    peer.replies.put(REFUSED)
    sent = commands(1, K.RETURN)
    lane.post(sent)
    assert heard.take() == [(sent[0], Answer(0, "success"))]
    lane.close()
    assert peer.paths == ["/party/0"] * 3
    claims = [read_claim(head[INPUT], head[SIGNATURE]) for _, _, head in peer.asked]
    assert len({claim.nonce for claim in claims if claim}) == 3
    for claim, (path, body, _) in zip(claims, peer.asked, strict=True):
        text = json.dumps(body, separators=(",", ":")).encode()
        assert claim is not None
        assert claim.holds(key.public, Covered("POST", path, digest_of(text), "9999", "10000"))


def test_what_may_fail_fails_with_the_words_of_the_refusal(peer: Peer, heard: Heard, lane: Lane) -> None:
    peer.usual = lambda *_: REFUSED
    lane.post(commands(1, K.CREATE))
    [(_, answer)] = heard.take()
    assert answer.retcode == UNREACHABLE
    assert "party 10000: refuses our signature: party 10000 has no public key of party 9999" in answer.retmsg
    assert "\x1b" not in answer.retmsg
    assert lane.state().error == answer.retmsg.partition("party 10000: ")[2]
