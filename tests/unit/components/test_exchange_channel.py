"""The worker's end of the exchange: numbering, repeating, giving up."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fate_flow.components.base import exchange
from fate_flow.components.base.errors import ExchangeError
from fate_flow.components.base.exchange import ExchangeReply, HttpChannel, HttpTransport
from tests.kit.components.memory_channel import GUEST, HOSTS

HOST = HOSTS[0]


@dataclass
class OwnServer:
    """Both ends of one channel: what is pushed can be popped; answers in `first` come before all that."""

    first: list[ExchangeReply | Exception] = field(default_factory=list)
    chunks: dict[tuple[str, int], tuple[bytes, bool]] = field(default_factory=dict)
    asked: list[tuple[str, dict]] = field(default_factory=list)
    clock: float = 0.0

    def __call__(self, operation, query, body):
        self.asked.append((operation, dict(query)))
        if self.first:
            answer = self.first.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        if operation == "push":
            self.chunks[query["topic"], query["seq"]] = (body, query["last"] == 1)
            return ExchangeReply(200)
        if operation == "release":
            return ExchangeReply(200)
        found = self.chunks.get((query["topic"], query["seq"]))
        return ExchangeReply(200, *found) if found else ExchangeReply(204)

    def channel(self) -> HttpChannel:
        def sleep(seconds: float) -> None:
            self.clock += seconds
        return HttpChannel(self, now=lambda: self.clock, sleep=sleep)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(exchange, "CHUNK", 4)


@pytest.mark.parametrize("message", [b"", b"abc", b"abcd", b"abcdefghij"])
def test_a_message_arrives_as_it_was_sent(message):
    channel = OwnServer().channel()
    channel.push("t", HOST, message)
    channel.push("t", HOST, b"next")
    assert [channel.pop("t", HOST), channel.pop("t", HOST)] == [message, b"next"]


@pytest.mark.parametrize("chunk", [b"x" * 100, b""])
def test_a_message_without_an_end_is_given_up(chunk):
    server = OwnServer()
    server.chunks = {("t", seq): (chunk, False) for seq in range(1000)}
    channel = server.channel()
    channel.most_bytes = 1000
    with pytest.raises(ExchangeError, match="pop of t from host 10000: the message is longer than 1000 bytes, half of"):
        channel.pop("t", HOST)
    assert len(server.asked) < 20


def test_a_message_may_take_half_of_the_memory():
    assert OwnServer().channel().most_bytes > 1 << 28


def test_chunks_are_numbered_from_message_to_message():
    server = OwnServer()
    channel = server.channel()
    channel.push("t", HOST, b"abcde")
    channel.push("t", HOST, b"f")
    channel.push("u", HOST, b"")
    assert [(query["topic"], query["seq"], query["last"]) for _, query in server.asked] == [
        ("t", 0, 0), ("t", 1, 1), ("t", 2, 1), ("u", 0, 1),
    ]
    assert server.asked[0][1]["role"] == "host"
    assert server.asked[0][1]["party_id"] == "10000"


def test_pop_asks_again_at_once_while_nothing_has_come():
    server = OwnServer(first=[ExchangeReply(204)] * 5)
    server.chunks["t", 0] = (b"x", True)
    assert server.channel().pop("t", GUEST) == b"x"
    assert len(server.asked) == 6
    assert server.clock == 0
    assert all(query["wait_ms"] == 1000 for _, query in server.asked)


def test_pop_leaves_a_server_alone_that_had_no_thread_to_wait_with():
    server = OwnServer(first=[ExchangeReply(204, pause_seconds=0.05)] * 4)
    server.chunks["t", 0] = (b"x", True)
    assert server.channel().pop("t", GUEST) == b"x"
    assert server.clock == pytest.approx(0.2)


@pytest.mark.parametrize("hiccup", [
    ExchangeReply(408), ExchangeReply(425), ExchangeReply(429), ExchangeReply(502), ExchangeReply(503),
    ExchangeReply(507), ConnectionResetError(), TimeoutError(),
])
def test_what_may_pass_is_asked_again(hiccup):
    server = OwnServer(first=[hiccup] * 3)
    channel = server.channel()
    channel.push("t", HOST, b"x")
    assert channel.pop("t", HOST) == b"x"
    assert {query["seq"] for operation, query in server.asked} == {0}


def test_a_connection_that_was_closed_costs_no_time():
    server = OwnServer(first=[ConnectionResetError()])
    server.channel().push("t", HOST, b"x")
    assert server.clock == 0


@pytest.mark.parametrize(("status", "meaning"), [
    (401, "token"), (404, "not a party"), (409, "numbering"), (410, "the session has ended"), (413, "chunk"), (500, ""),
])
def test_what_never_passes_is_an_error_at_once(status, meaning):
    body = json.dumps({"retcode": 100, "retmsg": "so it is\n"}).encode()
    server = OwnServer(first=[ExchangeReply(status, body)])
    with pytest.raises(ExchangeError) as error:
        server.channel().push("t", HOST, b"x")
    assert f"push of t to host 10000: {status}" in error.value.message
    assert meaning in error.value.message
    assert "so it is" in error.value.message
    assert "\n" not in error.value.message
    assert len(server.asked) == 1


def test_a_server_that_stays_away_ends_in_an_error_after_ten_minutes(caplog):
    server = OwnServer(first=[ConnectionRefusedError()] * 1000)
    with pytest.raises(ExchangeError, match=r"pop of t from guest 9999: no success within 60\d s.*connection lost"):
        server.channel().pop("t", GUEST)
    assert 600 <= server.clock < 603
    assert len(caplog.records) == 1


def test_a_receiver_that_is_full_is_waited_for_without_end():
    server = OwnServer(first=[ExchangeReply(429)] * 10_000)
    server.channel().push("t", HOST, b"x")
    assert server.clock > 1000


def test_a_pop_without_a_free_slot_is_waited_for_without_end():
    server = OwnServer(first=[ExchangeReply(503)] * 10_000)
    server.chunks["t", 0] = (b"x", True)
    assert server.channel().pop("t", HOST) == b"x"
    assert server.clock > 1000


def test_release_is_passed_on():
    server = OwnServer()
    server.channel().release("t", GUEST)
    assert server.asked == [("release", {"topic": "t", "role": "guest", "party_id": "9999"})]


class _Handler(BaseHTTPRequestHandler):
    """Echoes what it was asked; answers with X-Last: 0, and hangs up after each second request."""

    protocol_version = "HTTP/1.1"
    count = 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        said = f"{self.path} {self.headers['Authorization']} ".encode() + body
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.send_header("X-Last", "0")
        self.send_header("Retry-After-Ms", "50")
        self.end_headers()
        self.wfile.write(said)
        _Handler.count += 1
        self.close_connection = _Handler.count % 2 == 0

    def log_message(self, *_):
        pass


@pytest.fixture
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1/exchange"
    server.shutdown()
    server.server_close()
    thread.join()


def test_requests_go_over_http(address):
    transport = HttpTransport(address, "secret")
    answer = transport("push", {"topic": "a b", "seq": 0}, b"\0data")
    asked = b"/v1/exchange/push?topic=a+b&seq=0 Bearer secret \0data"
    assert answer == ExchangeReply(200, asked, is_last=False, pause_seconds=0.05)


def test_a_connection_that_the_server_closed_is_opened_anew(address):
    channel = HttpChannel(HttpTransport(address, "secret"), sleep=lambda _: None)
    for _ in range(7):
        channel.push("t", HOST, b"xy")


def test_an_answer_is_read_up_to_a_limit(address, monkeypatch):
    monkeypatch.setattr(exchange, "_MOST_ANSWER", 10)
    with pytest.raises(HTTPException, match="the answer is longer than 10 bytes"):
        HttpTransport(address, "secret")("push", {"topic": "t", "seq": 0}, b"x" * 20)


def test_an_address_of_another_kind_is_refused():
    with pytest.raises(ExchangeError, match=r"exchange\.url"):
        HttpTransport("unix:/tmp/x", "secret")
