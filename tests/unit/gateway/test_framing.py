"""What the gateway passes on is one request, and gunicorn reads it as the one that the gateway has read.

Made requests, well formed and not, go through a `PeerConnection`. What it passes on is framed as for the application,
and read by the parser of gunicorn that the application runs behind.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11
import pytest
from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.errors import NoMoreData
from gunicorn.http.parser import RequestParser
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_flow.gateway.application import Answer, framed
from fate_flow.gateway.bodies import Body
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.peer_connection import PeerConnection, Setting
from fate_flow.gateway.shares import Shares
from fate_flow.peers.tls import PeerKey
from tests.kit.gateway.framing_inputs import CHUNKED, CLEAN, OTHER, REFUSED
from tests.kit.gateway.virtual_time import VirtualTimeLoop

LIMITS = Limits()
PEER = PeerKey("10000", "ab" * 32, "")
IDENTITY = f"10000 {'ab' * 32}"
GUNICORN = Config()
GUNICORN.set("limit_request_line", 8190)
GUNICORN.set("header_map", "dangerous")        # the most permissive one


@dataclass
class Pieces:
    """The stream of a peer that sends these pieces, and then ends."""

    left: list[bytes]
    sent: bytes = b""
    version: str = "TLSv1.3"
    is_finished: bool = False

    async def receive(self) -> bytes:
        return self.left.pop(0) if self.left else b""

    async def send(self, data: bytes) -> None:
        self.sent += data

    async def finish(self, seconds: float) -> None:
        self.is_finished = True


@dataclass
class Recorder:
    """An application that keeps the bytes of each request."""

    got: list[bytes] = field(default_factory=list)

    async def ask(self, identity: bytes, request: h11.Request, body: Body) -> Answer:
        assert identity == IDENTITY.encode()
        self.got.append(b"".join(framed(h11.Connection(h11.CLIENT), request, body)))
        answer = Body(1000, Path())
        answer.add(b"" if request.method == b"HEAD" else b"{}")
        return Answer(h11.Response(status_code=200, headers=[("Content-Length", "2")]), answer)


@dataclass(frozen=True)
class Passage:
    """What came of the bytes of one connection."""

    passed_on: list[bytes]
    answers: bytes
    is_finished: bool
    is_last: bool

    @property
    def statuses(self) -> list[int]:
        return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n", self.answers)]


Passing = Callable[..., Passage]


@pytest.fixture(scope="module")
def pass_on() -> Iterator[Passing]:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:

        def passed(*pieces: bytes) -> Passage:
            return run_on(runner, _passed([one for one in pieces if one]))

        yield passed


def run_on(runner: asyncio.Runner, work: Coroutine[Any, Any, Passage]) -> Passage:
    return runner.run(work)


async def _passed(pieces: list[bytes]) -> Passage:
    stream, recorder, shares = Pieces(pieces), Recorder(), Shares(LIMITS)
    connection = PeerConnection(
        stream, PEER, "10.0.0.2", Setting("9999", "ab" * 32, LIMITS, shares, recorder, Path(), lambda *_: None)
    )
    with shares.connection("10000") as share:
        await connection.serve(share)
        assert share.stored_bytes == 0
    return Passage(recorder.got, stream.sent, stream.is_finished, connection.is_last)


@dataclass(frozen=True)
class Parsed:
    method: str
    target: str
    body: bytes
    environ: dict[str, Any]
    has_trailers: bool


def gunicorn_reads(data: bytes) -> Parsed:
    """The one request that gunicorn reads of this; the test fails if it reads another one, or nothing."""
    parser = RequestParser(GUNICORN, iter([data]), "")
    request = next(parser)
    body = request.body.read()
    _, environ = wsgi.create(request, None, "", "unix:parties.sock", GUNICORN)
    with pytest.raises((StopIteration, NoMoreData)):
        next(parser)
    assert parser.unreader.read() == b"", "something is left for another request"
    return Parsed(request.method, request.uri, body, environ, bool(request.trailers))


def h11_reads(data: bytes) -> tuple[h11.Request, bytes]:
    """The first request that h11 reads of this, with its body."""
    http = h11.Connection(h11.SERVER, LIMITS.head_bytes)
    http.receive_data(data)
    head = http.next_event()
    assert isinstance(head, h11.Request)
    body = b""
    while isinstance(event := http.next_event(), h11.Data):
        body += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)
    return head, body


def check(data: bytes, passage: Passage) -> None:
    """Fail unless the passage has one clean request, or none."""
    assert len(passage.passed_on) <= 1
    assert len(passage.statuses) <= 1
    if not passage.passed_on:
        assert b"".join(passage.answers.split()[:1]) in (b"", b"HTTP/1.1")
        assert passage.statuses == [] or passage.statuses[0] >= 400
        assert passage.statuses == [] or (passage.is_last and passage.is_finished)
        return
    parsed = gunicorn_reads(passage.passed_on[0])
    head, body = h11_reads(data)
    assert (parsed.method.encode(), parsed.target.encode(), parsed.body) == (head.method, head.target, body)
    assert not parsed.has_trailers
    environ = parsed.environ
    assert environ["HTTP_X_FATE_FLOW_PEER"] == IDENTITY
    assert environ["HTTP_X_FATE_FLOW_ADDRESS"] == "10.0.0.2"
    assert environ["HTTP_HOST"] == "127.0.0.1"
    assert environ["CONTENT_LENGTH"] == str(len(body))
    assert (environ["SCRIPT_NAME"], environ["wsgi.url_scheme"]) == ("", "http")
    ours = {key for key in environ if key.startswith(("HTTP_X_FATE_FLOW", "HTTP_X_FORWARDED"))}
    assert ours == {"HTTP_X_FATE_FLOW_PEER", "HTTP_X_FATE_FLOW_ADDRESS", "HTTP_X_FATE_FLOW_TLS"}
    assert not {"HTTP_TRANSFER_ENCODING", "HTTP_UPGRADE", "HTTP_EXPECT", "HTTP_TE"} & set(environ)


# ---------------------------------------------------------------------- attacks by name

@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_two_servers_could_read_in_two_ways_is_refused(name: str, pass_on: Passing) -> None:
    data, status = REFUSED[name]
    for pieces in ((data,), tuple(bytes([one]) for one in data)):
        passage = pass_on(*pieces)
        assert (passage.statuses, passage.passed_on) == ([status], [])
        assert passage.is_last
        assert passage.is_finished
        assert b"Connection: close" in passage.answers


@pytest.mark.parametrize("name", sorted(CLEAN))
def test_the_rest_is_passed_on_as_one_clean_request(name: str, pass_on: Passing) -> None:
    data = CLEAN[name]
    for pieces in ((data,), tuple(bytes([one]) for one in data)):
        passage = pass_on(*pieces)
        assert passage.statuses == [200]
        check(data, passage)


@pytest.mark.parametrize("first", [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab",
    CHUNKED + b"2\r\nab\r\n0\r\n\r\n",
])  # fmt: skip
def test_what_is_sent_ahead_is_not_read_as_a_request(first: bytes, pass_on: Passing) -> None:
    passage = pass_on(first + OTHER)
    assert (passage.statuses, len(passage.passed_on)) == ([200], 1)
    assert b"stolen" not in passage.passed_on[0]
    assert passage.is_last
    assert passage.is_finished
    assert b"Connection: close" in passage.answers


def test_a_request_after_an_answer_is_read(pass_on: Passing) -> None:
    passage = pass_on(OTHER, OTHER)
    assert (passage.statuses, len(passage.passed_on)) == ([200, 200], 2)


def test_a_peer_that_waits_for_leave_to_send_its_body_gets_it(pass_on: Passing) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    passage = pass_on(head, b"ab")
    assert passage.statuses == [100, 200]
    assert gunicorn_reads(passage.passed_on[0]).body == b"ab"
    too_large = pass_on(head.replace(b"Length: 2", b"Length: 99999999"), b"ab")
    assert too_large.statuses == [413]


@pytest.mark.parametrize("spelled", [
    "X-Fate-Flow-Peer", "x-fate-flow-peer", "X_FATE_FLOW_PEER", "X-Fate_Flow-Peer", "X_Fate-Flow_Address",
    "X-Fate-Flow-Address", "x-fate-flow-anything", "X-Forwarded-For", "X_Forwarded_Proto", "X-Forwarded-Proto",
    "Forwarded", "SCRIPT_NAME", "PATH_INFO", "SRC_PARTY_ID", "X-Real-IP", "Transfer_Encoding", "Content_Length",
])  # fmt: skip
def test_fields_of_ours_never_come_from_outside(spelled: str, pass_on: Passing) -> None:
    value = f"10001 {'cd' * 32}" if "eer" in spelled.lower() else "https"
    data = f"POST / HTTP/1.1\r\nHost: x\r\n{spelled}: {value}\r\nSRC-PARTY-ID: 10000\r\nA: b\r\n\r\n".encode()
    passage = pass_on(data)
    check(data, passage)
    environ = gunicorn_reads(passage.passed_on[0]).environ
    assert value not in [text for key, text in environ.items() if key.startswith("HTTP_")]
    assert (environ["HTTP_SRC_PARTY_ID"], environ["HTTP_A"]) == ("10000", "b")


def test_a_field_that_connection_names_cannot_remove_ours(pass_on: Passing) -> None:
    data = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: X-Fate-Flow-Peer, Host, Content-Length\r\n\r\n"
    check(data, pass_on(data))


# ---------------------------------------------------------------------- attacks by chance

HOST = b"Host: x\r\n"
TOKENS = st.text("!#$%&'*+-.^_`|~aZ0", min_size=1, max_size=8).map(str.encode)
BYTES = st.binary(max_size=12)
NAMES = st.sampled_from([
    b"Content-Length", b"Transfer-Encoding", b"Host", b"Connection", b"X-Fate-Flow-Peer", b"X_FATE_FLOW_PEER",
    b"Expect", b"Upgrade", b"SRC-PARTY-ID", b"SCRIPT_NAME", b"Content-Type", b"TE", b"X-Forwarded-Proto",
])  # fmt: skip
VALUES = st.sampled_from([
    b"0", b"2", b"5", b"05", b"+5", b"5, 5", b"chunked", b"Chunked", b"identity", b"gzip, chunked", b"close",
    b"keep-alive", b"100-continue", b"x", b"", b"https", b"10001 " + b"cd" * 32, b"trailers",
])  # fmt: skip
BREAKS = st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\r", b"\r\r\n", b"\r\n ", b"\n\t", b"\0\r\n", b"\x0b\r\n"])
COLONS = st.sampled_from([b": "] * 12 + [b":", b" : ", b":\t", b"\t:", b" "])
FIELDS = st.builds(
    lambda name, colon, value, end: name + colon + value + end, NAMES | TOKENS, COLONS, VALUES | BYTES, BREAKS
)
METHODS = st.sampled_from([b"GET", b"POST", b"HEAD", b"CONNECT", b"OPTIONS", b"post", b"P@ST", b""])
TARGETS = st.sampled_from([b"/", b"/a?b=c", b"//x/y", b"*", b"http://x/", b"x:80", b"/a#b", b"/\xff", b"/a b", b""])
VERSIONS = st.sampled_from([b"HTTP/1.1"] * 8 + [b"HTTP/1.0", b"HTTP/2.0", b"http/1.1", b"HTTP/1.1 "])
CHUNK_SIZES = st.sampled_from([b"2", b"02", b"2;a=b", b"2 ", b"0x2", b"+2", b"2\t;x", b"2;\"", b"F" * 21])
BODIES = st.one_of(
    st.sampled_from([b"", b"ab", b"abcde", OTHER]),
    st.lists(st.builds(lambda size, end: size + end + b"ab" + end, CHUNK_SIZES, BREAKS), max_size=3).map(
        lambda chunks: b"".join(chunks) + b"0\r\n\r\n"
    ),
    BYTES,
)
REQUESTS = st.builds(
    lambda line, end, fields, body, more: b" ".join(line) + end + b"".join(fields) + b"\r\n" + body + more,
    st.tuples(METHODS, TARGETS, VERSIONS), BREAKS,
    st.lists(FIELDS, max_size=5).map(lambda found: [HOST, *found]), BODIES, st.sampled_from([b"", b"", OTHER]),
)


@pytest.mark.long
@settings(max_examples=400)
@given(data=REQUESTS, cuts=st.lists(st.integers(0, 300), max_size=4))
def test_made_requests_end_in_one_clean_request_or_in_a_refusal(data: bytes, cuts: list[int], pass_on: Passing) -> None:
    first = pass_on(data)
    if first.is_last or len(first.passed_on) < 2:          # several pieces may be several requests, one after the other
        if first.statuses[:1] == [100]:
            assert len(first.passed_on) <= 1
        else:
            check(data, first)
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    pieces = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    for one in pass_on(*pieces).passed_on:
        gunicorn_reads(one)


WELL_FORMED = st.builds(
    lambda method, target, fields, body: (method, target, fields, body),
    st.sampled_from([b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS"]),
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#"), max_size=60).map(
        lambda text: b"/" + text.encode()
    ),
    st.lists(
        st.tuples(TOKENS.map(lambda name: b"A" + name), st.text(
            st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f\x85\xa0"), max_size=40
        ).map(lambda text: text.strip(" ").encode("latin-1"))), max_size=8,
    ),
    st.binary(max_size=400),
)  # fmt: skip


@settings(max_examples=150)
@given(made=WELL_FORMED, is_chunked=st.booleans(), size=st.integers(16, 64))
def test_well_formed_requests_are_all_passed_on(
    made: tuple[bytes, bytes, list[tuple[bytes, bytes]], bytes], is_chunked: bool, size: int, pass_on: Passing
) -> None:
    method, target, fields, body = made
    framing = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % len(body)
    head = b"".join(b"%s: %s\r\n" % one for one in fields)
    content = body
    if is_chunked:
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
        content = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    data = b"%s %s HTTP/1.1\r\nHost: x\r\n%s%s\r\n\r\n%s" % (method, target, head, framing, content)
    passage = pass_on(data)
    check(data, passage)
    assert (passage.statuses, len(passage.passed_on)) == ([200], 1)
    environ = gunicorn_reads(passage.passed_on[0]).environ
    for name, value in fields:
        if b"_" not in name:
            key = "HTTP_" + name.decode().upper().replace("-", "_")
            assert value.decode("latin-1") in environ[key]
