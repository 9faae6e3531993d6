"""Questions to another party's server, over a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer
from fate_flow.peers.inquiry import Inquirer
from tests.kit.values import HOST

WAIT = 60.0       # seconds; the answer comes at once


class Peer(HTTPServer):
    """Answers every request with `text`, and notes who asked for what."""

    text = '{"retcode": 0, "retmsg": "success", "data": [1]}'
    elsewhere = ""
    says_who = ""
    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, object]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Peer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, self.headers["SRC-PARTY-ID"], json.loads(body)))
        self.send_response(307 if self.server.elsewhere else self.server.status)
        if self.server.elsewhere:
            self.send_header("Location", self.server.elsewhere)
        if self.server.says_who:
            self.send_header("SRC-PARTY-ID", self.server.says_who)
        self.end_headers()
        self.wfile.write(self.server.text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def peer() -> Iterator[Peer]:
    server = Peer()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_the_party_answers_and_knows_who_asked(peer: Peer) -> None:
    found = Inquirer("9999", {"10000": peer.url}, WAIT).ask(HOST, "/tracker/x", {"a": 1})
    assert found == Answer(0, "success", [1])
    assert peer.asked == [("/v1/tracker/x", "9999", {"a": 1})]


@pytest.mark.parametrize(("says_who", "is_taken"), [("10000", True), ("", True), ("7777", False)])
def test_what_another_party_says_is_no_answer(peer: Peer, says_who: str, is_taken: bool) -> None:
    peer.says_who = says_who
    found = Inquirer("9999", {"10000": peer.url}, WAIT).ask(HOST, "/tracker/x", {})
    text = f"party 10000 does not answer: another server, that of party 7777, answers at {peer.url}"
    assert found == (Answer(0, "success", [1]) if is_taken else Answer(UNREACHABLE, text))


@pytest.mark.parametrize("text", ["", "<html>", "[]", '{"data": 1}'])
def test_what_is_no_envelope_is_no_answer(peer: Peer, text: str) -> None:
    peer.text = text
    found = Inquirer("9999", {"10000": peer.url}, WAIT).ask(HOST, "/tracker/x", {})
    assert (found.retcode, "party 10000 does not answer" in found.retmsg) == (UNREACHABLE, True)


@pytest.mark.parametrize("status", [404, 405])
def test_a_plain_v1_server_answers_what_it_does_not_know(peer: Peer, status: int) -> None:
    """It is reached, and that is all that there is to know."""
    peer.status, peer.text = status, "<html>"
    asked = Inquirer("9999", {"10000": peer.url}, WAIT)
    assert asked.ask(HOST, "/party/intake", {}) == Answer(404, "it has no such route: it speaks plain v1")
    assert asked.why_unreached("10000") == ""
    peer.says_who = "10000"
    assert asked.ask(HOST, "/party/intake", {}).retcode == UNREACHABLE


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"retcode": 0, "retmsg": "success", "data": {}}', ""),
        ('{"retcode": 108, "retmsg": "party 9999 has no route here"}', ""),
        ('{"retcode": 109, "retmsg": "the key is not known"}', "not authenticated: the key is not known"),
        ('{"retcode": 403, "retmsg": "Host: x is no name of this server"}',
         "refuses our requests: Host: x is no name of this server"),
        ('{"retcode": 100, "retmsg": "<NotFound \'404: Not Found\'>"}', ""),
        ("<html>", "its answer is not JSON"),
    ],
)  # fmt: skip
def test_why_a_party_takes_nothing_of_ours(peer: Peer, text: str, why: str) -> None:
    peer.text = text
    assert Inquirer("9999", {"10000": peer.url}, WAIT).why_unreached("10000") == why
    assert peer.asked == [("/v1/party/intake", "9999", {})], "a call back asks for none itself"


def test_a_party_that_is_down_and_one_without_a_route_are_named(peer: Peer) -> None:
    peer.shutdown()          # else its listener lives until the thread of the server wakes up
    peer.server_close()
    down = Inquirer("9999", {"10000": peer.url}, WAIT).ask(HOST, "/tracker/x", {})
    assert (down.retcode, down.retmsg) == (UNREACHABLE, "party 10000 does not answer: connection refused")
    unknown = Inquirer("9999", {}).ask(HOST, "/tracker/x", {})
    assert (unknown.retcode, unknown.retmsg[:31]) == (UNREACHABLE, "party 10000 has no route here (")


def test_a_request_with_our_signature_goes_nowhere_else(peer: Peer) -> None:
    """Neither does the question: a party's server could have us ask any address that it likes."""
    peer.elsewhere, peer.text = f"{peer.url}/v1/other", ""
    assert Inquirer("9999", {"10000": peer.url}, WAIT).ask(HOST, "/tracker/x", {}).retcode == UNREACHABLE
    assert [path for path, _, _ in peer.asked] == ["/v1/tracker/x"]
