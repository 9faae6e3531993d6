"""gunicorn's worker gives threads to complete requests, and to few large ones: a slow caller holds none."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from select import select
from threading import Event, Lock
from typing import Any

import pytest

from fate_flow.api.http import caller_socket, gunicorn_worker
from fate_flow.api.http.caller_socket import PIECE, CallerSocket, Collected
from fate_flow.api.http.gunicorn_worker import CallerLimits, TokenLimits, given_away
from tests.kit.api.gunicorn_worker import GunicornWorker
from tests.kit.waiting import eventually

SECONDS = 60.0
NEVER = 3600.0                # a deadline that no test reaches
SOON = 0.3
LARGE = 4 * PIECE             # of a body
SMALL = b"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
LAST = SMALL.replace(b"Host: x", b"Host: x\r\nConnection: close")
HELD = SMALL.replace(b"/small", b"/held")
HUGE_ANSWER = 64 * 1024 * 1024


class App:
    """Answers with the length of the body; `/huge` with a long answer, `/held` when the test says so, `/broken` with a
    part of its answer. The test answers `/given` itself, over the connections in `given`."""

    def __init__(self) -> None:
        self.free = Event()
        self.held = self.most_held = 0
        self._lock = Lock()
        self.given: list[socket.socket] = []

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read()
        if environ["PATH_INFO"] == "/broken":
            start_response("200 OK", [])
            return (one or bytes(1 // 0) for one in (b"a part", b""))
        if environ["PATH_INFO"] == "/held":
            self._hold()
        if environ["PATH_INFO"] == "/given" and (connection := given_away(environ)) is not None:
            self.given.append(connection)
        text = b"h" * HUGE_ANSWER if environ["PATH_INFO"] == "/huge" else str(len(body)).encode()
        start_response("200 OK", [("Content-Length", str(len(text)))])
        return [text]

    def _hold(self) -> None:
        with self._lock:
            self.held += 1
            self.most_held = max(self.most_held, self.held)
        assert self.free.wait(SECONDS)
        with self._lock:
            self.held -= 1


class Served(GunicornWorker):
    app: App

    def open(self, data: bytes = b"") -> socket.socket:
        sock = socket.create_connection(self.listener.getsockname(), timeout=SECONDS)
        sock.sendall(data)
        return sock

    def close(self) -> None:
        self.app.free.set()
        super().close()


Start = Callable[..., Served]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def started(limits: CallerLimits, threads: int = 2, connections: int = 100) -> Served:
            served = Served(tmp_path, App(), limits, threads, connections)
            stack.callback(served.close)
            return served

        yield started


def said(sock: socket.socket) -> tuple[int, bytes]:
    """The next answer over a connection."""
    response = HTTPResponse(sock)
    response.begin()
    return response.status, response.read()


def large(length: int = LARGE, sent: int = 1) -> bytes:
    return f"POST /large HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode() + b"b" * sent


@pytest.mark.parametrize("part", [
    b"", b"POST / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf", b"\r\n",
], ids=["nothing", "half a head", "half a body", "an empty line"])  # fmt: skip
def test_half_requests_hold_no_thread_and_others_are_answered(start: Start, part: bytes) -> None:
    served = start(CallerLimits(bodies=1, seconds=NEVER))
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(served.open(part))
        with served.open(SMALL) as honest:
            assert said(honest) == (200, b"4")
            honest.sendall(SMALL[:30])              # the next request of the same connection comes in two parts
            with served.open(SMALL) as other:
                assert said(other) == (200, b"4")
            honest.sendall(SMALL[30:])
            assert said(honest) == (200, b"4")


class Looked(bytearray):
    """Notes from where on it is searched."""

    starts: list[int]

    def find(self, what: Any, start: Any = 0, end: Any = None) -> int:
        self.starts.append(start)
        return super().find(what, start, end)


def test_each_byte_of_a_request_is_looked_at_once_however_slowly_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread serves all callers: a head of 60 KiB and a body byte by byte must not cost it as much as 60 KiB
    for each byte."""
    heads, size = list[bytes](), caller_socket._size
    monkeypatch.setattr(caller_socket, "_size", lambda head: (heads.append(head), size(head))[1])
    pad = b"X-Pad: " + b"x" * 60_000
    head = b"POST / HTTP/1.1\r\nHost: x\r\n" + pad + b"\r\nContent-Length: 2000\r\n\r\n"
    made, caller = socket.socketpair()
    with caller, CallerSocket(made, NEVER) as sock:
        sock.ahead = Looked()
        sock.ahead.starts = []
        parts = [head[:-6], *(bytes([one]) for one in head[-6:]), *([b"b"] * 2_000)]
        found = []
        for part in parts:
            caller.sendall(part)
            while part:
                part = part[sock.collect() or 0 :]
            found.append(sock.has())
        assert found == [Collected.A_PART] * (len(parts) - 1) + [Collected.ALL]
        assert heads == [head[:-2]]
        assert sock.ahead.starts == [0, *range(len(head) - 9, len(head) - 3)]
        sock.begin(may_wait=False)
        sock.ahead[:] = SMALL
        assert sock.has() is Collected.ALL


def test_a_request_that_does_not_come_ends_its_connection(start: Start) -> None:
    served = start(CallerLimits(bodies=1, seconds=SOON))
    with served.open() as silent:
        assert silent.recv(1) == b""
    eventually(lambda: ended(served, b"POST / HTTP/1.1\r\n") == (
        408, b'[408, "The request has not arrived in time."]'
    ), "an answer to half a head")  # fmt: skip


def test_a_large_body_that_stops_ends_its_connection(start: Start) -> None:
    served = start(CallerLimits(bodies=1, seconds=SOON), threads=1)
    eventually(lambda: (ended(served, large(sent=PIECE + 5)) or (0,))[0] == 408, "an answer to a part of a body")
    eventually(lambda: ended(served, LAST) == (200, b"4"), "an answer to another caller")


def test_a_caller_that_does_not_read_its_answer_is_left(start: Start) -> None:
    served = start(CallerLimits(bodies=1, seconds=SOON), threads=1)
    with served.open(SMALL.replace(b"/small", b"/huge")):
        eventually(lambda: ended(served, LAST) == (200, b"4"), "an answer to another caller")


def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one(start: Start) -> None:
    served = start(CallerLimits(bodies=1, seconds=NEVER))
    with served.open(SMALL.replace(b"/small", b"/broken")) as sock, pytest.raises(IncompleteRead) as broken:
        said(sock)
    assert broken.value.partial == b"a part"


def ended(served: Served, data: bytes) -> tuple[int, bytes] | None:
    """The answer after which the server ends the connection; None if it only ends it. A test that stood still for too
    long has sent nothing in time: it has to try again."""
    try:
        with served.open(data) as sock:
            answer = said(sock)
            assert sock.recv(1) == b""
            return answer
    except (ConnectionError, HTTPException):
        return None


def test_large_bodies_leave_threads_free_and_wait_for_a_thread(start: Start) -> None:
    served = start(CallerLimits(bodies=1, seconds=NEVER, wait_seconds=NEVER))
    with ExitStack() as stack:
        first = stack.enter_context(served.open(large()))
        eventually(lambda: served.worker._bodies, "a thread that reads the first body")
        second, chunked = (stack.enter_context(served.open(data)) for data in (
            large(sent=LARGE), b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        ))  # fmt: skip
        with served.open(SMALL) as honest:
            assert said(honest) == (200, b"4")
        first.sendall(b"b" * (LARGE - 1))
        assert [said(first), said(second)] == [(200, str(LARGE).encode())] * 2
        chunked.sendall(b"0\r\n\r\n")
        assert said(chunked) == (200, b"2")


def test_a_large_body_that_gets_no_thread_in_time_is_asked_to_come_later(start: Start) -> None:
    served = start(CallerLimits(bodies=1, seconds=NEVER, wait_seconds=SOON))
    with served.open(large()) as first:
        eventually(lambda: served.worker._bodies, "a thread that reads the first body")
        with served.open(large()) as second:
            assert said(second)[0] == 503
        first.sendall(b"b" * (LARGE - 1))
        assert said(first)[0] == 200


def test_slow_bodies_with_one_token_leave_threads_for_others(start: Start) -> None:
    served = start(CallerLimits(bodies=2, seconds=NEVER, wait_seconds=NEVER, tokens=TokenLimits(9, 1)), threads=3)
    with ExitStack() as stack:
        slow = [stack.enter_context(served.open(shown("mine", large()))) for _ in range(5)]
        eventually(lambda: served.worker._bodies and len(served.worker._queued) == 4, "bodies that wait")
        for data, length in ((large(sent=LARGE), LARGE), (SMALL, 4)):
            with served.open(shown("another", data)) as honest:
                assert said(honest) == (200, b"%d" % length)
        for sock in slow:
            sock.sendall(b"b" * (LARGE - 1))
        assert [said(sock) for sock in slow] == [(200, b"%d" % LARGE)] * 5


def test_requests_with_one_token_leave_threads_for_others(start: Start) -> None:
    limits = CallerLimits(bodies=1, seconds=NEVER, wait_seconds=NEVER, tokens=TokenLimits(2, 1))
    served = start(limits, threads=3)
    with ExitStack() as stack:
        held = [
            stack.enter_context(served.open(shown("mine", SMALL.replace(b"/small", b"/held")))) for _ in range(4)
        ]
        eventually(lambda: len(served.worker._queued) == 2, "requests that wait")
        with served.open(shown("another", SMALL)) as honest:
            assert said(honest) == (200, b"4")
        served.app.free.set()
        assert [said(sock) for sock in held] == [(200, b"4")] * 4
    eventually(lambda: not served.worker._under_way, "no request under way")


def test_a_body_with_a_token_counts_until_it_was_read(start: Start) -> None:
    limits = CallerLimits(bodies=1, seconds=NEVER, wait_seconds=NEVER, tokens=TokenLimits(9, 1))
    served = start(limits, threads=3)
    with served.open(large(sent=LARGE).replace(b"/large", b"/held")) as held:
        with served.open(large(sent=LARGE)) as other:
            assert said(other) == (200, b"%d" % LARGE)
        served.app.free.set()
        assert said(held) == (200, b"%d" % LARGE)


def test_requests_of_a_route_that_only_reads_are_carried_out_one_at_a_time(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gunicorn_worker, "_ALONE_SECONDS", SECONDS)
    served = start(CallerLimits(bodies=1, seconds=NEVER, alone=(b"POST /held ",)), threads=6)
    with ExitStack() as stack:
        socks = [stack.enter_context(served.open(HELD)) for _ in range(4)]
        eventually(lambda: served.worker.nr_conns == 4 and served.app.held == 1, "the first of them")
        with served.open(SMALL) as other:               # another route does not wait for them
            assert said(other) == (200, b"4")
        assert served.app.held == 1
        served.app.free.set()
        assert [said(sock) for sock in socks] == [(200, b"4")] * 4
    assert served.app.most_held == 1


def test_a_request_that_is_carried_out_alone_does_not_wait_long_for_another(start: Start) -> None:
    served = start(CallerLimits(bodies=1, seconds=NEVER, alone=(b"POST /held ",)), threads=6)
    with ExitStack() as stack:
        socks = [stack.enter_context(served.open(HELD)) for _ in range(4)]
        eventually(lambda: served.app.held == 4, "all of them")
        served.app.free.set()
        assert [said(sock) for sock in socks] == [(200, b"4")] * 4
        for _ in range(2):                              # whoever had waited in vain has not freed what it had not got
            socks[0].sendall(HELD)
            assert said(socks[0]) == (200, b"4")
    # It is freed when the last answer has been sent, so its caller may look before that.
    eventually(lambda: not served.worker._alone.locked(), "the end of the last request")


def shown(token: str, request: bytes) -> bytes:
    """The request with this token."""
    return request.replace(b"Host: x", f"Host: x\r\nauthorization: Bearer {token}".encode())


def test_a_body_that_comes_slowly_to_its_end_is_refused(start: Start) -> None:
    """Each piece of it comes in time."""
    served = start(CallerLimits(bodies=1, seconds=SOON, earned_seconds=0.0))
    with served.open(large(length=1 << 40)) as slow, served.open() as honest, suppress(ConnectionError):
        while not select([slow], [], [], 0)[0]:
            slow.sendall(b"b" * PIECE)
            honest.sendall(SMALL)
            assert said(honest) == (200, b"4")
        assert said(slow)[0] == 408


def test_an_answer_that_is_read_slowly_ends(start: Start) -> None:
    """Each piece of it is read in time."""
    served, got = start(CallerLimits(bodies=1, seconds=SOON, earned_seconds=0.0)), 0
    with served.open(SMALL.replace(b"/small", b"/huge")) as slow:
        # A test that stood still for seconds sees only that the connection has been closed.
        while not served.worker._ends and (data := slow.recv(8192)):
            got += len(data)
            assert got < HUGE_ANSWER // 2
            eventually(lambda: is_answered(served), "an answer to another caller")


def is_answered(served: Served) -> bool:
    """Whether a request on a new connection has its answer. As above, a test that stood still has to try again."""
    try:
        with served.open(SMALL) as sock:
            return said(sock) == (200, b"4")
    except (ConnectionError, HTTPException):
        return False


def test_requests_that_are_sent_ahead_are_answered_in_their_order(start: Start) -> None:
    served = start(CallerLimits(bodies=1, seconds=NEVER))
    third = SMALL.replace(b"4\r\n\r\nbody", b"6\r\n\r\nlonger")
    with served.open(SMALL + SMALL.replace(b"4\r\n\r\nbody", b"2\r\n\r\nok") + third[:9]) as sock:
        text = b""
        for rest, said_so_far in ((b"", [b"4", b"2"]), (third[9:], [b"4", b"2", b"6"])):
            sock.sendall(rest)
            while re.findall(rb"\r\n\r\n([0-9])", text) != said_so_far:
                text += (data := sock.recv(4096))
                assert data


def test_a_connection_that_has_ended_holds_no_thread_and_is_closed(start: Start) -> None:
    served = start(CallerLimits(bodies=1, seconds=NEVER), threads=1)
    with ExitStack() as stack:
        for _ in range(10):
            sock = stack.enter_context(served.open(LAST))
            assert said(sock) == (200, b"4")
            assert sock.recv(1) == b""               # and it is not closed here
        eventually(lambda: served.worker.nr_conns == 0, "the ends of the connections")


def test_too_many_connections_cost_the_oldest_without_a_request(start: Start) -> None:
    served = start(CallerLimits(bodies=1, seconds=NEVER), connections=8)
    with ExitStack() as stack:
        kept = stack.enter_context(served.open(SMALL))
        assert said(kept) == (200, b"4")
        silent = [stack.enter_context(served.open()) for _ in range(30)]
        with served.open(SMALL) as honest:
            assert said(honest) == (200, b"4")
        assert silent[0].recv(1) == b""
        kept.sendall(SMALL)
        assert said(kept) == (200, b"4")


def test_a_caller_that_goes_leaves_nothing(start: Start) -> None:
    served = start(CallerLimits(bodies=1, seconds=NEVER))
    for data in (b"", SMALL[:20], large(), SMALL, SMALL * 3):
        served.open(data).close()
    eventually(lambda: served.worker.nr_conns == 0 and not served.worker._bodies, "the ends of the connections")


@pytest.mark.parametrize("request_bytes", [SMALL, LAST], ids=["kept", "last"])
def test_a_connection_that_was_given_away_holds_no_thread_and_is_not_ended(start: Start, request_bytes: bytes) -> None:
    """gunicorn drops its own answer, and counts the connection no longer."""
    served = start(CallerLimits(bodies=1, seconds=SOON), threads=1)
    with ExitStack() as stack:
        socks = [stack.enter_context(served.open(request_bytes.replace(b"/small", b"/given"))) for _ in range(5)]
        eventually(lambda: len(served.app.given) == 5 and served.worker.nr_conns == 0, "connections without a thread")
        eventually(lambda: ended(served, LAST) == (200, b"4"), "an answer to another caller")
        for number, connection in enumerate(served.app.given):
            assert not os.get_blocking(connection.fileno())
            stack.enter_context(connection).sendall(b"event %d" % number)
        assert sorted(sock.recv(100) for sock in socks) == [b"event %d" % number for number in range(5)]
    assert given_away({"gunicorn.socket": None}) is None


@pytest.fixture
def at_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> Served:
    """Takes each next request for one that comes at once, and its thread waits for it as long as the test lasts."""
    monkeypatch.setattr(gunicorn_worker, "_AT_ONCE_SECONDS", NEVER)
    limits = CallerLimits(bodies=1, seconds=NEVER, wait_seconds=NEVER, tokens=TokenLimits(1, 1))
    return start(limits, threads=3)


def ask_again(served: Served, sock: socket.socket, data: bytes = SMALL) -> None:
    """Ask twice: a thread waits for the third request then."""
    for _ in range(2):
        sock.sendall(data)
        assert said(sock) == (200, b"4")
    eventually(lambda: served.worker._waiters, "a thread that waits for the next request")


def test_requests_that_come_at_once_have_one_thread(at_once: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    handed = list[Any]()
    monkeypatch.setattr(at_once.worker, "enqueue_req", lambda conn: (handed.append(conn), enqueue(conn)))
    enqueue = type(at_once.worker).enqueue_req.__get__(at_once.worker)
    with at_once.open() as sock:
        ask_again(at_once, sock)
        for _ in range(5):
            sock.sendall(SMALL)
            assert said(sock) == (200, b"4")
    assert len(handed) == 2
    eventually(lambda: not at_once.worker._given and not at_once.worker.nr_conns, "the end of the connection")


def test_who_asks_late_holds_no_thread(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gunicorn_worker, "_AT_ONCE_SECONDS", 0.0)
    served = start(CallerLimits(bodies=1, seconds=NEVER), threads=1)
    with served.open() as first, served.open() as second:
        for _ in range(3):
            for sock in (first, second):
                sock.sendall(SMALL)
                assert said(sock) == (200, b"4")


def test_a_part_of_the_next_request_holds_no_thread(at_once: Served) -> None:
    with at_once.open() as sock:
        ask_again(at_once, sock)
        sock.sendall(SMALL[:30])
        eventually(lambda: not at_once.worker._given, "a thread that has left it to the main thread")
        sock.sendall(SMALL[30:])
        assert said(sock) == (200, b"4")


def test_threads_that_wait_for_next_requests_leave_others_free(at_once: Served) -> None:
    with ExitStack() as stack:
        for number in range(5):
            ask_again(at_once, stack.enter_context(at_once.open()), shown(str(number), SMALL))
        assert at_once.worker._waiters == 1, "half of three threads"
        with at_once.open(SMALL) as other:
            assert said(other) == (200, b"4")


def test_who_waits_for_a_thread_comes_before_the_next_request_of_another(at_once: Served) -> None:
    with ExitStack() as stack:
        sock = stack.enter_context(at_once.open())
        ask_again(at_once, sock)
        held = [stack.enter_context(at_once.open(shown(str(number), HELD))) for number in range(2)]
        eventually(lambda: at_once.app.held == 2, "two threads that are held")
        other = stack.enter_context(at_once.open(shown("other", HELD)))
        eventually(lambda: at_once.worker._given == 4, "a request that waits for a thread")
        sock.sendall(SMALL)
        eventually(lambda: at_once.app.held == 3, "its turn")
        at_once.app.free.set()
        assert [said(one) for one in (*held, other, sock)] == [(200, b"4")] * 4


def test_a_next_request_with_another_token_counts_for_that_one(at_once: Served) -> None:
    with at_once.open() as sock, at_once.open(shown("mine", HELD)) as held:
        ask_again(at_once, sock, shown("another", SMALL))
        eventually(lambda: at_once.app.held == 1, "a request with this token")
        sock.sendall(shown("mine", HELD))
        eventually(lambda: at_once.worker._queued, "a second one that waits")
        at_once.app.free.set()
        assert [said(held), said(sock)] == [(200, b"4")] * 2
    assert at_once.app.most_held == 1
    eventually(lambda: not at_once.worker._under_way, "no request under way")
