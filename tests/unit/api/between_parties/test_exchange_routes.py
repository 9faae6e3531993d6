"""The routes of the exchange: who may ask what, what is refused before it is read, and what an answer looks like."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from fate_flow.api.between_parties.exchange import (
    STATUS_OF,
    ExchangeEnvelope,
    ForwardReply,
    deliver_blueprint,
    worker_blueprint,
)
from fate_flow.api.http.errors import Api, register_apis
from fate_flow.api.http.request_origin import OriginCheck
from fate_flow.api.http.unread import TooLate
from fate_flow.core.model.errors import PeerUnreachable, StorageFailed
from fate_flow.core.model.spec import Party
from fate_flow.core.record.carried import Direction
from fate_flow.core.wire.v1.chunks import Chunk
from fate_flow.relay.channel_files import Message
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_result import Problem, Refusal
from fate_flow.relay.spool_session import Session

GUEST, HOST, ARBITER = ("guest", "9999"), ("host", "10000"), ("arbiter", "9999")
AT_GUEST = Session("20260101120000", "20260101120000_psi_0", 2, "a1b2c3d4", *GUEST)
AT_ARBITER = Session("20260101120000", "20260101120000_psi_0", 2, "a1b2c3d4", *ARBITER)
LIMIT = 4096
SLOTS = 2
TO_HOST = {"topic": "t", "role": "host", "party_id": "10000", "seq": 0, "last": 1}
TO_ARBITER = TO_HOST | {"role": "arbiter", "party_id": "9999"}
FROM_HOST = {"topic": "t", "role": "host", "party_id": "10000", "seq": 0}
DELIVER = "/v1/exchange/deliver/20260101120000/20260101120000_psi_0/2/a1b2c3d4/host/10000/guest/9999"


class Peer:
    """The other side: remembers what was forwarded to it, answers as told."""

    def __init__(self) -> None:
        self.got: list[tuple[Any, ...]] = []
        self.answer: Callable[[], ForwardReply] = lambda: ForwardReply(200)

    def __call__(self, *chunk: Any) -> ForwardReply:
        self.got.append(chunk)
        return self.answer()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    limits = SpoolLimits(chunk_bytes=LIMIT, unread_bytes=2 * LIMIT, total_bytes=8 * LIMIT)
    spool = Spool(tmp_path, limits, lambda: None)
    spool.open(AT_GUEST, (GUEST, HOST, ARBITER), "guest-token")
    spool.open(AT_ARBITER, (GUEST, HOST, ARBITER), "arbiter-token")
    return spool


@pytest.fixture
def peer() -> Peer:
    return Peer()


@pytest.fixture
def client(spool: Spool, peer: Peer) -> FlaskClient:
    app = Flask("exchange")
    blueprints = worker_blueprint(spool, peer, SLOTS), deliver_blueprint(spool, "9999")
    register_apis(app, Api(ExchangeEnvelope(), blueprints))
    return app.test_client()


def ask(
    client: FlaskClient, route: str, query: dict[str, Any] | str, data: bytes = b"", token: str = "guest-token"
) -> TestResponse:
    text = query if isinstance(query, str) else urlencode(query)
    return client.post(f"/v1/exchange/{route}?{text}", data=data, headers={"Authorization": f"Bearer {token}"},
                       environ_overrides={"CONTENT_LENGTH": str(len(data))})


def deliver(client: FlaskClient, path: str = DELIVER, query: str = "topic=t&seq=0&last=1",
            data: bytes = b"hello", party: str = "10000") -> TestResponse:
    return client.post(f"{path}?{query}", data=data, headers={"src-party-id": party},
                       environ_overrides={"CONTENT_LENGTH": str(len(data))})


def said(response: TestResponse, status: int) -> str:
    """The reason, once the answer has the shape of a refusal with this status."""
    body: Any = response.json
    assert (response.status_code, body["retcode"]) == (status, status), response.data
    assert set(body) == {"retcode", "retmsg"}
    return str(body["retmsg"])


# push


def test_a_push_for_another_party_is_forwarded(client: FlaskClient, peer: Peer, spool: Spool) -> None:
    response = ask(client, "push", TO_HOST | {"seq": 7, "last": 0, "topic": "a b/ü&="}, b"\x00bytes")
    assert (response.status_code, response.json) == (200, {"retcode": 0, "retmsg": "success"})
    assert peer.got == [(AT_GUEST, "host", "10000", Chunk("a b/ü&=", 7, False), b"\x00bytes")]


def test_what_the_peer_has_confirmed_is_counted_for_the_record(tmp_path: Path, peer: Peer) -> None:
    spool = Spool(tmp_path, SpoolLimits(), lambda: None, keeps_digests=True)
    spool.open(AT_GUEST, (GUEST, HOST, ARBITER), "guest-token")
    app = Flask("exchange")
    register_apis(app, Api(ExchangeEnvelope(), (worker_blueprint(spool, peer, SLOTS),)))
    peer.answer = lambda: ForwardReply(429, "slowly")
    assert ask(app.test_client(), "push", TO_HOST, b"x").status_code == 429
    assert tuple(spool.carried(AT_GUEST)) == ()
    peer.answer = lambda: ForwardReply(200)
    assert ask(app.test_client(), "push", TO_HOST, b"x").status_code == 200
    [found] = spool.carried(AT_GUEST)
    assert (found.direction, found.other, found.messages, found.size) == (Direction.SENT, Party(*HOST), 1, 1)


def test_a_push_for_another_seat_of_this_party_stays_here(client: FlaskClient, peer: Peer, spool: Spool) -> None:
    assert ask(client, "push", TO_ARBITER, b"x").status_code == 200
    assert peer.got == []
    assert spool.get(AT_ARBITER, "t", GUEST, 0) == Message(b"x", True)


@pytest.mark.parametrize(("answer", "status"), [
    (ForwardReply(425, "not yet"), 425), (ForwardReply(429, "slowly"), 429), (ForwardReply(410, "gone"), 410),
])
def test_what_the_peer_says_is_handed_back(client: FlaskClient, peer: Peer, answer: ForwardReply, status: int) -> None:
    peer.answer = lambda: answer
    assert said(ask(client, "push", TO_HOST), status) == answer.message


def test_a_peer_that_does_not_answer_is_a_502(client: FlaskClient, peer: Peer) -> None:
    def silent() -> ForwardReply:
        raise PeerUnreachable("host 10000: no answer in 3 s")

    peer.answer = silent
    assert said(ask(client, "push", TO_HOST), 502) == "host 10000: no answer in 3 s"


def test_pushes_that_hang_at_a_peer_leave_threads_for_the_rest(client: FlaskClient, peer: Peer, spool: Spool) -> None:
    hangs, goes_on = threading.Event(), threading.Event()

    def hang() -> ForwardReply:
        hangs.set()
        assert goes_on.wait(90)
        return ForwardReply(200)

    peer.answer = hang
    first = threading.Thread(target=ask, args=(client.application.test_client(), "push", TO_HOST))
    first.start()
    assert hangs.wait(90)
    refused = ask(client, "push", TO_HOST)
    assert "no free slot" in said(refused, 503)
    assert refused.headers["Retry-After-Ms"] == "50"
    assert ask(client, "push", TO_ARBITER).status_code == 200
    goes_on.set()
    first.join()
    assert ask(client, "push", TO_HOST).status_code == 200


# pop, peek, release


def test_a_pop_brings_the_bytes_and_whether_they_end_the_message(client: FlaskClient, spool: Spool) -> None:
    spool.put(AT_GUEST, "t", HOST, 0, False, b"\xff\x00")
    spool.put(AT_GUEST, "t", HOST, 1, True, b"")
    for seq, (data, last) in enumerate([(b"\xff\x00", "0"), (b"", "1")]):
        response = ask(client, "pop", FROM_HOST | {"seq": seq})
        assert (response.status_code, response.data, response.headers["X-Last"]) == (200, data, last)
        assert response.mimetype == "application/octet-stream"
    assert "confirmed" in said(ask(client, "pop", FROM_HOST), 409)


def test_a_pop_of_nothing_is_a_204(client: FlaskClient) -> None:
    response = ask(client, "pop", FROM_HOST | {"wait_ms": 1})
    assert (response.status_code, response.data) == (204, b"")
    assert "Retry-After-Ms" not in response.headers


@pytest.mark.parametrize(("wait_ms", "seconds"), [(0, 0.0), (250, 0.25), (1000, 1.0), (999_999, 1.0)])
def test_a_pop_waits_for_a_second_at_most(
    client: FlaskClient, spool: Spool, monkeypatch: pytest.MonkeyPatch, wait_ms: int, seconds: float
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(spool, "get", lambda *args: waited.append(args[-1]))
    ask(client, "pop", FROM_HOST | {"wait_ms": wait_ms})
    assert waited == [seconds]


class Waiting:
    """A spool whose waiting pops are counted and end when the test says so."""

    def __init__(self, spool: Spool) -> None:
        self.inside = threading.Semaphore(0)
        self.ended = threading.Event()
        self._get = spool.get

    def get(self, session: Session, topic: str, sender: tuple[str, str], seq: int, wait_seconds: float) -> object:
        if wait_seconds:
            self.inside.release()
            assert self.ended.wait(120)
        return self._get(session, topic, sender, seq, 0.0)


@pytest.fixture
def waiting(spool: Spool, client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    """All slots are taken by pops that wait."""
    waiting = Waiting(spool)
    monkeypatch.setattr(spool, "get", waiting.get)
    query = FROM_HOST | {"topic": "other", "wait_ms": 1000}
    pops = [threading.Thread(target=ask, args=(client.application.test_client(), "pop", query)) for _ in range(SLOTS)]
    for thread in pops:
        thread.start()
    for _ in pops:
        assert waiting.inside.acquire(timeout=120)
    yield waiting
    waiting.ended.set()
    for thread in pops:
        thread.join()


def test_a_pop_without_a_slot_is_answered_at_once(client: FlaskClient, spool: Spool, waiting: Waiting) -> None:
    query = FROM_HOST | {"wait_ms": 1000}
    response = ask(client, "pop", query)
    assert (response.status_code, response.headers["Retry-After-Ms"]) == (204, "50")
    assert "Retry-After-Ms" not in ask(client, "pop", FROM_HOST).headers
    spool.put(AT_GUEST, "t", HOST, 0, True, b"there")
    assert ask(client, "pop", query).data == b"there"


def test_a_slot_comes_back_when_a_wait_ends(client: FlaskClient, waiting: Waiting) -> None:
    waiting.ended.set()
    deadline = threading.Event()
    for _ in range(6000):
        response = ask(client, "pop", FROM_HOST | {"wait_ms": 1})
        if "Retry-After-Ms" not in response.headers:
            return
        deadline.wait(0.01)
    pytest.fail("the slots were never given back")


def test_a_slot_comes_back_when_a_wait_breaks(
    client: FlaskClient, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise StorageFailed("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(spool, "get", broken)
        for _ in range(SLOTS + 1):
            assert said(ask(client, "pop", FROM_HOST | {"wait_ms": 1}), 500) == "the disk is gone"
    assert "Retry-After-Ms" not in ask(client, "pop", FROM_HOST | {"wait_ms": 1}).headers


@pytest.mark.parametrize("path", ["/v1/exchange/push?topic=t&role=arbiter&party_id=9999&seq=0&last=1",
                                  f"{DELIVER}?topic=t&seq=0&last=1"])
def test_a_chunk_that_does_not_come_in_time_may_be_sent_again(client: FlaskClient, path: str) -> None:
    class Stopped(BytesIO):
        def read(self, *_: Any) -> bytes:
            raise TooLate("a part of the request is missing")

        readinto = read

    head = {"Authorization": "Bearer guest-token", "src-party-id": "10000"}
    environ: dict[str, Any] = {"CONTENT_LENGTH": "5", "wsgi.input": Stopped()}
    assert "in time" in said(client.post(path, headers=head, environ_overrides=environ), 408)


def test_a_peek_neither_waits_nor_confirms(client: FlaskClient, spool: Spool) -> None:
    assert ask(client, "peek", FROM_HOST | {"wait_ms": 1000}).status_code == 204
    for seq in range(2):
        spool.put(AT_GUEST, "t", HOST, seq, True, b"%d" % seq)
    assert [ask(client, "peek", FROM_HOST | {"seq": seq}).data for seq in (1, 0)] == [b"1", b"0"]


def test_release_forgets(client: FlaskClient, spool: Spool) -> None:
    spool.put(AT_GUEST, "t", HOST, 0, True, b"x")
    assert ask(client, "release", FROM_HOST).json == {"retcode": 0, "retmsg": "success"}
    assert "confirmed" in said(ask(client, "peek", FROM_HOST), 409)
    assert "guest 123" in said(ask(client, "release", FROM_HOST | {"role": "guest", "party_id": "123"}), 404)


# who asks


@pytest.mark.parametrize("route", ["push", "pop", "peek", "release"])
@pytest.mark.parametrize("headers", [
    {}, {"Authorization": "Bearer"}, {"Authorization": "Bearer wrong"}, {"Authorization": "guest-token"},
    {"Authorization": "Basic Z3Vlc3Q6dG9rZW4="},
])
def test_without_a_known_token_nothing_is_answered(client: FlaskClient, route: str, headers: dict[str, str]) -> None:
    response = client.post(f"/v1/exchange/{route}?{urlencode(TO_HOST)}", headers=headers)
    assert "Authorization" in said(response, 401)


def test_an_ended_session_is_gone_and_a_purged_one_unknown(client: FlaskClient, spool: Spool, peer: Peer) -> None:
    spool.close(AT_GUEST)
    for route in ("push", "pop", "peek", "release"):
        assert str(AT_GUEST) in said(ask(client, route, TO_HOST), 410)
    spool.purge(AT_GUEST.job_id)
    said(ask(client, "push", TO_HOST), 401)
    assert peer.got == []


def test_a_party_outside_the_task_gets_nothing(client: FlaskClient, peer: Peer) -> None:
    assert "host 10001" in said(ask(client, "push", TO_HOST | {"party_id": "10001"}), 404)
    assert "host 10001" in said(ask(client, "pop", FROM_HOST | {"party_id": "10001"}), 404)
    assert peer.got == []


# grammar and bounds


BAD_QUERIES = [
    ("topic", {"topic": None}), ("topic", {"topic": ""}), ("topic", {"topic": "x" * 257}),
    ("role", {"role": None}), ("role", {"role": "admin"}), ("role", {"role": "../guest"}),
    ("party_id", {"party_id": "10000/.."}), ("party_id", {"party_id": "\u0661"}), ("party_id", {"party_id": "1" * 11}),
    ("seq", {"seq": None}), ("seq", {"seq": "-1"}), ("seq", {"seq": "1e3"}), ("seq", {"seq": "9" * 19}),
    ("seq", {"seq": "+1"}), ("seq", {"seq": "1_0"}),
]


@pytest.mark.parametrize("route", ["push", "pop", "peek"])
@pytest.mark.parametrize(("key", "change"), BAD_QUERIES)
def test_every_value_of_a_query_is_checked(
    client: FlaskClient, peer: Peer, route: str, key: str, change: dict[str, Any]
) -> None:
    query = {name: value for name, value in (TO_HOST | change).items() if value is not None}
    assert key in said(ask(client, route, query), 400)
    assert peer.got == []


@pytest.mark.parametrize("last", [None, "", "2", "true", "01"])
def test_last_is_0_or_1(client: FlaskClient, last: str | None) -> None:
    query = {name: value for name, value in (TO_HOST | {"last": last}).items() if value is not None}
    assert "last" in said(ask(client, "push", query), 400)


@pytest.mark.parametrize("wait_ms", ["", "-1", "1.5", "soon"])
def test_wait_ms_is_a_whole_number(client: FlaskClient, wait_ms: str) -> None:
    assert "wait_ms" in said(ask(client, "pop", FROM_HOST | {"wait_ms": wait_ms}), 400)


@pytest.mark.parametrize("tail", ["&topic=u", "&seq=0", "&x=%ff", "&" + "&".join(f"k{n}=" for n in range(20))])
def test_a_query_that_can_be_read_in_two_ways_is_refused(client: FlaskClient, tail: str) -> None:
    said(ask(client, "pop", urlencode(FROM_HOST) + tail), 400)


def test_topics_in_bytes_that_are_no_text_are_refused(client: FlaskClient) -> None:
    said(ask(client, "pop", "topic=%ff%fe&role=host&party_id=10000&seq=0"), 400)


class Untouched(BytesIO):
    def read(self, *_: object) -> bytes:
        raise AssertionError("the body was read")


@pytest.mark.parametrize(("headers", "status"), [
    ({"CONTENT_LENGTH": str(LIMIT + 1)}, 413), ({"CONTENT_LENGTH": "99999999999999"}, 413),
    ({}, 411), ({"CONTENT_LENGTH": ""}, 411), ({"CONTENT_LENGTH": "-5"}, 411), ({"CONTENT_LENGTH": "many"}, 411),
    ({"CONTENT_LENGTH": "5", "HTTP_TRANSFER_ENCODING": "chunked"}, 411),
])
@pytest.mark.parametrize("path", [f"/v1/exchange/push?{urlencode(TO_HOST)}", f"{DELIVER}?topic=t&seq=0&last=1"])
def test_a_body_of_unknown_or_too_large_size_is_not_read(
    client: FlaskClient, peer: Peer, path: str, headers: dict[str, str], status: int
) -> None:
    environ = {"HTTP_AUTHORIZATION": "Bearer guest-token", "HTTP_SRC_PARTY_ID": "10000", "wsgi.input": Untouched(),
               "wsgi.input_terminated": True}
    response = client.post(path, environ_overrides=environ | headers)
    assert "Content-Length" in said(response, status)
    assert peer.got == []


def test_a_body_that_is_cut_short_is_not_stored(client: FlaskClient, peer: Peer) -> None:
    environ = {"HTTP_AUTHORIZATION": "Bearer guest-token", "CONTENT_LENGTH": "10", "wsgi.input": BytesIO(b"short")}
    said(client.post(f"/v1/exchange/push?{urlencode(TO_HOST)}", environ_overrides=environ), 400)
    assert peer.got == []


def test_a_chunk_of_the_largest_size_passes(client: FlaskClient, peer: Peer) -> None:
    assert ask(client, "push", TO_HOST, b"x" * LIMIT).status_code == 200
    assert len(peer.got[0][-1]) == LIMIT


# deliver


def test_what_a_peer_delivers_is_there_to_pop(client: FlaskClient) -> None:
    assert deliver(client).json == {"retcode": 0, "retmsg": "success"}
    assert deliver(client).status_code == 200
    assert ask(client, "pop", FROM_HOST).data == b"hello"


def test_a_peer_speaks_for_itself_only(client: FlaskClient, spool: Spool) -> None:
    for party in ("", "10001", "9999"):
        assert "10000" in said(deliver(client, party=party), 403)
    assert spool.peek(AT_GUEST, "t", HOST, 0) is None


def test_a_peer_without_a_seat_in_the_task_is_a_stranger(client: FlaskClient) -> None:
    assert "guest 10000" in said(deliver(client, DELIVER.replace("host/10000", "guest/10000")), 404)


@pytest.mark.parametrize(("status", "change"), [
    (425, {"/2/": "/3/"}), (425, {"a1b2c3d4": "c3d4a1b2"}), (425, {"/guest/9999": "/guest/8888"}),
    (400, {"20260101120000/": "../"}), (400, {"20260101120000/": "2026 0101/"}),
    (400, {"psi_0": quote("psi_0\n")}), (400, {"/2/": "/x/"}),
    (400, {"/2/": "/99999999999/"}), (400, {"a1b2c3d4": "."}), (400, {"/host/": "/Host/"}), (400, {"10000": "0x10"}),
    (400, {"/guest/": "/all/"}), (400, {"psi_0": "x" * 101}), (400, {"psi_0": "%ff"}),
])
def test_every_piece_of_the_path_is_checked(client: FlaskClient, status: int, change: dict[str, str]) -> None:
    path = DELIVER
    for old, new in change.items():
        path = path.replace(old, new)
    said(deliver(client, path), status)


@pytest.mark.parametrize(("query", "data", "status"), [
    ("topic=t&seq=1&last=1", b"x", 409), ("topic=t&seq=0&last=1", b"x" * (LIMIT + 1), 413), ("topic=t&seq=0", b"", 400),
])
def test_a_delivery_that_is_refused_says_why(client: FlaskClient, query: str, data: bytes, status: int) -> None:
    said(deliver(client, query=query, data=data), status)


def test_the_bounds_of_the_spool_reach_the_peer(client: FlaskClient, spool: Spool) -> None:
    for seq in range(2):
        assert deliver(client, query=f"topic=t&seq={seq}&last=1").status_code == 200
    assert "unread" in said(deliver(client, query="topic=t&seq=2&last=1"), 429)
    assert "seq: 0" in said(deliver(client, data=b"other"), 409)
    for topic in range(3):
        response = deliver(client, query=f"topic={topic}&seq=0&last=1")
    assert "full" in said(response, 507)
    spool.close(AT_GUEST)
    assert "ended" in said(deliver(client, query="topic=t&seq=2&last=1"), 410)


def test_every_refusal_of_the_spool_has_a_status() -> None:
    assert set(STATUS_OF) == set(Problem)
    assert Refusal(Problem.GONE, "").problem in STATUS_OF


# what goes wrong here


@pytest.mark.parametrize("is_delivered", [True, False])
def test_a_defect_is_a_500_and_its_words_stay_here(
    client: FlaskClient, spool: Spool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    is_delivered: bool,
) -> None:  # fmt: skip
    """Not a 200: that would say that the message has been taken."""

    def stumble(*_: object) -> None:
        raise ZeroDivisionError("secret-of-9999")

    monkeypatch.setattr(spool, "put", stumble)
    response = deliver(client) if is_delivered else ask(client, "push", TO_ARBITER, b"x")
    text, _, incident = said(response, 500).rpartition(" ")
    assert text == "unexpected error; the log of this server has the reason: error"
    assert f"failed: error {incident}\n" in caplog.text
    assert "secret-of-9999" in caplog.text


def test_a_message_that_a_web_page_sends_is_refused(client: FlaskClient) -> None:
    client.application.before_request(OriginCheck().check)
    response = client.post(f"{DELIVER}?topic=t&seq=0&last=1", headers={"Origin": "http://evil.example"})
    assert said(response, 403).startswith("Origin: ")
    response = client.post(f"/v1/exchange/push?{urlencode(TO_HOST)}", headers={"Host": "evil.example"})
    assert said(response, 403).startswith("Host: ")
