"""The proxy does to requests and replies what it says: else a run of chaos would show nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from tests.chaos.parties import wait_until
from tests.chaos.proxy import ADDRESS, CALM, DEAF, RAIN, REFUSING, SILENT, Link, Proxy

SECONDS = 60.0
BODY = b"x" * 3_000


class Peer:
    """A server that keeps what reached it whole."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if len(body) < int(self.headers["Content-Length"]):
                    return
                peer.seen.append(body)
                self.send_response(200)
                self.send_header("Content-Length", str(len(BODY)))
                self.end_headers()
                self.wfile.write(BODY)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer((ADDRESS, 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.server.shutdown()
    peer.server.server_close()


@pytest.fixture
def link(peer: Peer) -> Iterator[Link]:
    proxy = Proxy(("1", "2"), 1, rain=1.0)
    link = proxy.links["1", "2"]
    link.upstream = peer.server.server_address[1]
    yield link
    proxy.close()


def ask(link: Link) -> bool:
    """Whether a whole reply came."""
    try:
        return requests.post(f"http://{ADDRESS}:{link.port}/", data=b"hello", timeout=SECONDS).content == BODY
    except requests.RequestException:
        return False


def with_fault(link: Link, fault: str) -> Link:
    link.weather = RAIN
    link.rng.choice = lambda _: fault  # type: ignore[method-assign,assignment,return-value]
    return link


@pytest.mark.parametrize(
    ("fault", "is_answered", "arrivals"),
    [
        ("drop", False, 0), ("drop reply", False, 1), ("delay", True, 1), ("delay reply", True, 1), ("double", True, 2),
        ("cut", False, 0), ("cut reply", False, 1), ("late", False, 1),
    ],
)  # fmt: skip
def test_a_fault_is_what_it_says(peer: Peer, link: Link, fault: str, is_answered: bool, arrivals: int) -> None:
    assert ask(with_fault(link, fault)) is is_answered
    assert wait_until(lambda: len(peer.seen) == arrivals, SECONDS)
    assert set(peer.seen) <= {b"hello"}
    assert link.counts[fault] == 1


def test_in_calm_weather_everything_passes_on_one_connection(peer: Peer, link: Link) -> None:
    with requests.Session() as session:
        for _ in range(3):
            assert session.post(f"http://{ADDRESS}:{link.port}/", data=b"hello", timeout=SECONDS).content == BODY
    assert len(peer.seen) == 3


def test_who_refuses_lets_nothing_through(peer: Peer, link: Link) -> None:
    link.weather = REFUSING
    assert not ask(link)
    assert peer.seen == []


@pytest.mark.parametrize(("weather", "arrivals"), [(SILENT, 0), (DEAF, 1)])
def test_who_hears_nothing_waits_until_the_weather_changes(
    peer: Peer, link: Link, weather: str, arrivals: int
) -> None:
    link.weather = weather
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(ask(link)))
    thread.start()
    assert wait_until(lambda: link.counts["swallowed"] + link.counts["reply lost"] == 1, SECONDS)
    assert (answers, len(peer.seen)) == ([], arrivals)
    link.weather = CALM
    thread.join()
    assert answers == [False]
