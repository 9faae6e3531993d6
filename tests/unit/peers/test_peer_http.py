"""Requests to other parties' servers cost no more time, memory, threads and sockets than they may."""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
import tracemalloc
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import requests

from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer
from fate_flow.core.wire.v1.chunks import Chunk
from fate_flow.core.wire.v1.envelope import headers
from fate_flow.peers.inquiry import Inquirer
from fate_flow.peers.network_errors import describe_network_error
from fate_flow.peers.peer_http import PeerHttp, PeerResponse
from fate_flow.peers.signature import Covered, SiteSignature, digest_of, read_signature_input
from fate_flow.relay.spool_session import Session
from fate_flow.server.runtime import Forwarder
from fate_flow.settings.parties import Route
from fate_flow.settings.settings import Settings
from tests.kit.peers.hostile_server import (
    CHUNKED,
    DRIPPING,
    FLOODING,
    HEAD,
    SUCCESS,
    HostileServer,
    Script,
    answer,
    gzip_of,
    once,
)
from tests.kit.peers.peer_server import Peer
from tests.kit.peers.peer_server import answer as say
from tests.kit.site_keys import private_key
from tests.kit.tls import Authority
from tests.kit.values import HOST, JOB_ID

pytestmark = pytest.mark.long

ENOUGH = 120.0       # seconds in which what ends at all has ended, on a busy machine too
SECONDS = 0.5
MOST = 100_000
SESSION = Session(JOB_ID, f"{JOB_ID}_a", 0, "a1" * 16, "guest", "9999")

Start = Callable[..., HostileServer]


@pytest.fixture(autouse=True)
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.peers.bounded_connections._LATE_SECONDS", 0.1)


@pytest.fixture
def start() -> Iterator[Start]:
    servers: list[HostileServer] = []

    def begin(script: Script, **more: Any) -> HostileServer:
        servers.append(HostileServer(script, **more))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()


def in_time(work: Callable[[], Any]) -> Any:
    """What this returns or raises; fails when it does neither."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except (requests.RequestException, ValueError) as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(ENOUGH)
    assert found, "it hangs"
    return found[0]


def post(server: HostileServer, http: PeerHttp, seconds: float = SECONDS, most: int = MOST, ca_file: str = "") -> Any:
    url = f"{server.url}/v1/x"
    return in_time(lambda: http.post(url, b"{}", {}, seconds=seconds, most_bytes=most, ca_file=ca_file))


@pytest.mark.parametrize("what", DRIPPING)
def test_an_answer_that_never_ends_is_left_at_the_deadline(what: str, start: Start) -> None:
    server, http = start(DRIPPING[what], drips=True), PeerHttp()
    error = post(server, http)
    assert isinstance(error, requests.exceptions.Timeout), repr(error)
    assert describe_network_error(error) == "no answer in time"
    assert server.await_no_connection(ENOUGH)
    assert server.accepted == 1


@pytest.mark.parametrize("what", ["nothing", "a head", "a body", "the size of a chunk"])
def test_so_it_is_with_tls(what: str, start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, http = start(DRIPPING[what], drips=True, context=authority.server_context()), PeerHttp()
    error = post(server, http, seconds=3.0, ca_file=str(authority.file))      # a handshake takes its time
    assert isinstance(error, requests.exceptions.Timeout), repr(error)
    assert server.await_no_connection(ENOUGH)


@pytest.mark.parametrize("what", FLOODING)
def test_an_answer_beyond_its_size_is_left_unread(what: str, start: Start) -> None:
    server, http = start(FLOODING[what]), PeerHttp()
    tracemalloc.start()
    try:
        error = post(server, http, seconds=ENOUGH)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(error, (requests.RequestException, ValueError)), repr(error)
    assert not isinstance(error, requests.exceptions.Timeout)
    assert peak < 20 * MOST
    assert server.await_no_connection(ENOUGH)


def test_chunks_may_be_as_small_as_their_framing(start: Start) -> None:
    """A thousand chunks of a byte take seven kilobytes; beyond 128 KiB, a half has to be body."""
    for size, count in ((1, 1000), (6, 10_000)):
        chunk = b"%x\r\n%s\r\n" % (size, b"x" * size)
        found = post(start(once(CHUNKED + chunk * count + b"0\r\n\r\n")), PeerHttp(), ENOUGH)
        assert found.body == b"x" * size * count


@pytest.mark.parametrize("what", ["continuations", "small chunks"])
def test_what_is_no_body_is_left_unread_long_before_the_longest_body(what: str, start: Start) -> None:
    error = post(start(FLOODING[what]), PeerHttp(), ENOUGH, 16 << 20)
    assert isinstance(error, ValueError), repr(error)
    assert str(error) == "too many bytes of its answer are its head, or the framing of its chunks"


@pytest.mark.parametrize(("body", "text"), [
    (b"[" * 200_000, "its answer is nested too deeply"),
    (b"[" + b"[]," * 1_100_000 + b"0]", "its answer has more than"),
    (b"{" + b" " * 17_000_000 + b"}", "its answer is longer than 16777216 bytes"),
])  # fmt: skip
def test_json_that_is_small_and_costs_much_is_not_read(body: bytes, text: str, start: Start) -> None:
    server = start(once(answer(body)))
    found = in_time(lambda: Inquirer("9999", {"10000": server.url}, ENOUGH).ask(HOST, "/x", {}))
    assert found.retcode == UNREACHABLE
    assert found.retmsg.startswith(f"party 10000 does not answer: {text}")


@pytest.mark.parametrize("what", ["nothing", "a head", "a body", "the size of a chunk"])
def test_the_inquirer_waits_no_longer_than_it_may(what: str, start: Start) -> None:
    server = start(DRIPPING[what], drips=True)
    found = in_time(lambda: Inquirer("9999", {"10000": server.url}, SECONDS).ask(HOST, "/x", {}))
    assert found == Answer(UNREACHABLE, "party 10000 does not answer: no answer in time")


@pytest.mark.parametrize("what", ["nothing", "a head", "a body", "the size of a chunk"])
def test_the_forwarder_waits_no_longer_than_it_may(
    what: str, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fate_flow.server.runtime._FORWARD_SECONDS", SECONDS)
    found = in_time(lambda: forward(start(DRIPPING[what], drips=True), tmp_path))
    assert (found.status, found.message) == (502, "party 10000 does not answer: no answer in time")


@pytest.mark.parametrize("what", ["a bomb", "a redirect with a bomb", "a body"])
def test_the_forwarder_reads_no_more_than_it_may(what: str, start: Start, tmp_path: Path) -> None:
    assert in_time(lambda: forward(start(FLOODING[what]), tmp_path)).status == 502


@pytest.mark.parametrize(("body", "status", "text"), [
    (SUCCESS, 200, ""),
    (b'{"retcode": 100, "retmsg": "<NotFound>"}', 501, "party 10000 accepts no messages: <NotFound>"),
    (b"<h1>hello</h1>", 502, "party 10000 does not confirm the chunk: "),
    (b"{}", 502, "party 10000 does not confirm the chunk: "),
])  # fmt: skip
def test_a_message_is_delivered_only_to_who_says_so(
    body: bytes, status: int, text: str, start: Start, tmp_path: Path
) -> None:
    """FATE's servers answer every path with HTTP status 200."""
    found = forward(start(once(answer(body))), tmp_path)
    assert found.status == status
    assert found.message.startswith(text)


@pytest.mark.parametrize(("body", "text"), [
    (b'{"retcode": 403, "retmsg": "another document"}', "another document"),
    (b"<h1>hello</h1>", "<h1>hello</h1>"), (b'{"what": 1}', '{"what": 1}'), (b"", ""),
])  # fmt: skip
def test_a_refusal_is_handed_on_with_its_reason(body: bytes, text: str, start: Start, tmp_path: Path) -> None:
    found = forward(start(once(answer(body, "403 Forbidden"))), tmp_path)
    assert (found.status, found.message) == (403, text)


def test_the_forwarder_sends_what_the_chunk_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sent: list[Any] = []

    def post(_: PeerHttp, url: str, data: bytes, *__: object, query: Any, **___: object) -> PeerResponse:
        sent.append((url.partition("/deliver/")[2], data, query))
        return PeerResponse(200, SUCCESS, "10000")

    monkeypatch.setattr(PeerHttp, "post", post)
    chunk = Chunk("t", 7, False, "native:" + "1" * 64)
    settings = Settings("9999", tmp_path, routes={"10000": Route("http://10000")})
    assert Forwarder(settings, None)(SESSION, "host", "10000", chunk, b"x").status == 200
    [(path, data, query)] = sent
    assert (path.split("/")[-2:], data) == (["host", "10000"], b"x")
    assert query == {"topic": "t", "seq": 7, "last": 0, "document": "native:" + "1" * 64}


def forward(server: HostileServer, home: Path) -> Any:
    settings = Settings("9999", home, routes={"10000": Route(server.url)})
    return Forwarder(settings, None)(SESSION, "host", "10000", Chunk("t", 0, True), b"x" * 1000)


def test_neither_threads_nor_sockets_stay(start: Start) -> None:
    servers, http = [start(script, drips=True) for script in DRIPPING.values()], PeerHttp()
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for server in servers:
        post(server, http, seconds=0.3)
    assert all(server.await_no_connection(ENOUGH) for server in servers)
    deadline = time.monotonic() + ENOUGH         # a thread that has closed its connection still has to end
    while threading.active_count() > threads or len(os.listdir("/proc/self/fd")) > files:
        assert time.monotonic() < deadline, (threading.enumerate(), threads, files)
        time.sleep(0.01)


# ---------------------------------------------------------------------- what is to be read all the same


@pytest.mark.parametrize("text", [
    answer(SUCCESS), HEAD + b"\r\n" + SUCCESS, b"HTTP/1.0 200 OK\r\n\r\n" + SUCCESS,
    CHUNKED + b"".join(b"1\r\n%c\r\n" % one for one in SUCCESS) + b"0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + answer(SUCCESS), answer(SUCCESS, "200 OK", "Content-Encoding: identity"),
])  # fmt: skip
def test_an_answer_in_any_form_of_http_is_read(text: bytes, start: Start) -> None:
    def in_pieces() -> Iterator[bytes]:
        yield from (text[at : at + 7] for at in range(0, len(text), 7))
        if b"Length" not in text and b"chunked" not in text:
            raise OSError("the end of the connection is the end of the answer")

    found = post(start(in_pieces, drips=True), PeerHttp(), seconds=ENOUGH)
    assert (found.status, found.body) == (200, SUCCESS)


def test_nothing_is_sent_back_that_another_server_has_set(peer: Peer) -> None:
    def sets_a_cookie(handler: BaseHTTPRequestHandler) -> None:
        say(handler, SUCCESS, **{"Set-Cookie": "a=b; Path=/"})

    http = PeerHttp()
    for _ in range(2):
        peer.replies.put(sets_a_cookie)
        url = f"http://127.0.0.1:{peer.port}/v1/x"
        assert http.post(url, b"{}", {}, seconds=ENOUGH, most_bytes=MOST).status == 200
    assert [head.get("Cookie") for _, _, head in peer.asked] == [None, None]
    http.close()


@pytest.mark.parametrize("target", [
    "/v1/x?topic=a%2Fb+c%3Fd&seq=7", "/v1/%C3%A4/%7E", "/v1/a%20b?x=%25",
])  # fmt: skip
def test_what_is_signed_is_what_is_sent(target: str, peer: Peer) -> None:
    key = private_key(1)
    http = PeerHttp(SiteSignature(key, lambda: 1_700_000_000_000))
    url = f"http://127.0.0.1:{peer.port}{target}"
    assert http.post(url, b"{}", headers("9999", "10000"), seconds=ENOUGH, most_bytes=MOST).status == 200
    [(sent, _, head)] = peer.asked
    signature = read_signature_input(head["Signature-Input"], head["Signature"])
    assert signature is not None
    assert signature.holds(key.public, Covered("POST", sent, digest_of(b"{}"), "9999", "10000"))
    http.close()


def test_a_caller_s_head_is_sent_once_and_says_nothing_of_the_body(peer: Peer) -> None:
    """It may have read some of the names from a file, in any case."""
    head = {
        "content-type": "text/x", "user-agent": "me", "accept-encoding": "gzip", "content-length": "1",
        "transfer-encoding": "chunked", "Content-Type": "application/json",
    }  # fmt: skip
    http = PeerHttp()
    for body in (b"{}", b'{"a": 1}'):
        assert http.post(f"http://127.0.0.1:{peer.port}/", body, head, seconds=ENOUGH, most_bytes=MOST).status == 200
    for body, (_, _, sent) in zip(({}, {"a": 1}), peer.asked, strict=True):
        names = [name.lower() for name in sent]
        assert len(names) == len(set(names))
        assert (sent["Content-Type"], sent["User-Agent"]) == ("application/json", "me")
        assert (sent["Accept-Encoding"], "Transfer-Encoding" in sent) == ("identity", False)
        assert int(sent["Content-Length"]) == len(json.dumps(body))
    http.close()


def test_the_login_of_an_address_is_sent_unless_requests_are_signed(peer: Peer) -> None:
    url = f"http://ann:se%40cret@127.0.0.1:{peer.port}/v1/x"
    for auth in (None, SiteSignature(private_key(1), lambda: 1_700_000_000_000)):
        http = PeerHttp(auth)
        assert http.post(url, b"{}", headers("9999", "10000"), seconds=ENOUGH, most_bytes=MOST).status == 200
        http.close()
    sent = [head.get("Authorization") for _, _, head in peer.asked]
    assert sent == ["Basic " + b64encode(b"ann:se@cret").decode(), None]


@pytest.mark.parametrize("url", [
    "", "/v1/x", "ftp://10000/x", "http://", "http://[::1/SECRET", "https://:443/x", "https://a:SECRET@b .example/x",
])  # fmt: skip
def test_what_is_no_address_is_an_error_without_its_text(url: str) -> None:
    with pytest.raises(requests.exceptions.InvalidURL) as error:
        PeerHttp().post(url, b"", {}, seconds=SECONDS, most_bytes=MOST)
    assert describe_network_error(error.value) == "its address is not https://HOST:PORT/PATH"


def test_a_file_of_authorities_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = str(tmp_path / "none.pem")
    with pytest.raises(requests.exceptions.SSLError) as error:
        PeerHttp().post("https://127.0.0.1:1/x", b"", {}, seconds=SECONDS, most_bytes=MOST, ca_file=file)
    assert describe_network_error(error.value) == (
        f"no TLS connection (the authorities of its certificate: there is no file {file})"
    )


def test_a_server_of_an_authority_of_ones_own(start: Start, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "another")
    server = start(once(answer(SUCCESS)), context=authority.server_context())

    def ask(**more: Any) -> Answer:
        found: Answer = in_time(lambda: Inquirer("9999", {"10000": server.url}, ENOUGH, **more).ask(HOST, "/x", {}))
        return found

    assert ask(ca_files={"10000": str(authority.file)}) == Answer(0, "success")
    for files in ({}, {"10001": str(authority.file)}, {"10000": str(other.file)}):
        refused = ask(ca_files=files)
        assert (refused.retcode, "no TLS connection" in refused.retmsg) == (UNREACHABLE, True), refused


def test_a_certificate_for_another_address_is_refused(start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = start(once(answer(SUCCESS)), context=authority.server_context("127.0.0.2"))
    inquirer = Inquirer("9999", {"10000": server.url}, ENOUGH, ca_files={"10000": str(authority.file)})
    asked = in_time(lambda: inquirer.ask(HOST, "/x", {}))
    assert (asked.retcode, "no TLS connection" in asked.retmsg) == (UNREACHABLE, True)


def test_a_bomb_of_the_hostile_server_is_one() -> None:
    assert gzip.decompress(gzip_of(b"two ", 3)) == b"two two two "


def test_each_request_is_noted_once_with_whether_it_was_answered(start: Start) -> None:
    seen: list[tuple[str, str, bool]] = []
    http = PeerHttp(on_request=lambda *said: seen.append(said))
    server, silent = start(once(answer(SUCCESS))), start(once(HEAD))
    for one, seconds in ((server, ENOUGH), (silent, SECONDS)):
        with suppress(requests.RequestException, ValueError):
            http.post(f"{one.url}/v1/a", b"", {"DEST-PARTY-ID": "10000"}, seconds=seconds, most_bytes=MOST)
    http.close()
    assert seen == [("10000", f"{server.url}/v1/a", True), ("10000", f"{silent.url}/v1/a", False)]
