"""Requests to Ray: what has surely not reached it, and what may have."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fate_flow.engines.placed.cluster import Unreadable
from fate_flow.engines.ray.client import NoAnswer, NoCredentials, NotSent, RayClient

MOST = 1000
Serve = Callable[[socket.socket], object]


@contextmanager
def server(serve: Serve) -> Iterator[str]:
    """The address of a server that does this with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def run() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        connection.recv(65536)
                        serve(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def says(text: bytes) -> Serve:
    """Answer with this text. The rest of the request is read to its end, or the system would reset the connection."""
    def serve(connection: socket.socket) -> None:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass

    return serve


def answer(body: bytes, head: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body)


def test_an_answer_has_any_status() -> None:
    with server(says(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")) as address:
        found = RayClient(address).get("/api/jobs/", MOST)
    assert (found.status, found.text) == (503, "busy")


def test_what_nobody_listens_to_was_not_sent() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(NotSent, match="Connection refused"):
            RayClient(f"http://127.0.0.1:{held.getsockname()[1]}").post("/api/jobs/", {}, MOST)


def test_what_has_no_address_was_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", none)
    with pytest.raises(NotSent, match="its host name is not known"):
        RayClient("http://head:8265").post("/api/jobs/", {}, MOST)


@pytest.mark.parametrize(("serve", "why"), [
    (says(b""), "without response"),
    (says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"), "5 bytes read"),
    (says(b"SSH-2.0\r\n"), "SSH-2.0"),
    (says(answer(b"x" * (MOST + 1))), f"longer than {MOST} bytes"),
    (says(answer(b"x", b"Content-Encoding: gzip\r\n")), "Content-Encoding"),
], ids=["nothing", "a part", "not HTTP", "too long", "packed"])  # fmt: skip
def test_what_was_sent_and_not_answered_may_have_arrived(serve: Serve, why: str) -> None:
    with server(serve) as address, pytest.raises(NoAnswer, match=why):
        RayClient(address).post("/api/jobs/", {}, MOST)


def test_what_a_job_has_printed_is_read_or_it_is_said_why_not() -> None:
    with server(says(answer(b'{"logs": "one"}'))) as address:
        assert RayClient(address).printed("w") == "one"
    for text, why in (
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "status 404"), (answer(b"<html>"), "Expecting value"),
        (b"", "without response"),
    ):  # fmt: skip
        with server(says(text)) as address, pytest.raises(Unreadable, match=why):
            RayClient(address).printed("w")
    with pytest.raises(Unreadable, match="Connection refused"):
        RayClient("http://127.0.0.1:9").printed("w")


def test_a_request_ends_in_time() -> None:
    over = threading.Event()
    with server(lambda _: over.wait()) as address:
        with pytest.raises(NoAnswer, match=r"no answer within 0\.2 s"):
            RayClient(address, seconds=0.2).get("/api/jobs/", MOST)
        over.set()


def test_a_redirect_is_not_followed() -> None:
    asked: list[bytes] = []

    def other(connection: socket.socket) -> None:
        asked.append(b"")
        connection.sendall(answer(b"[]"))

    with server(other) as elsewhere:
        moved = b"HTTP/1.1 307 Moved\r\nLocation: %s/\r\nContent-Length: 0\r\n\r\n" % elsewhere.encode()
        with server(says(moved)) as address:
            assert RayClient(address).post("/api/jobs/", {}, MOST).status == 307
    assert asked == []


def test_the_token_is_read_for_each_request(tmp_path: Path) -> None:
    heads: list[bytes] = []
    token = tmp_path / "token"
    token.touch(0o600)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        def run() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    heads.append(connection.recv(65536))
                    connection.sendall(answer(b"[]"))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        client = RayClient(f"http://127.0.0.1:{listener.getsockname()[1]}", token)
        for text in ("old\n", "new\n"):
            token.write_text(text)
            client.get("/api/jobs/", MOST)
        thread.join()
    assert [b"Authorization: Bearer old\r\n" in heads[0], b"Authorization: Bearer new\r\n" in heads[1]] == [True, True]


@pytest.mark.parametrize(("text", "mode", "why"), [
    (None, 0, "cannot be read: No such file"),
    ("secret", 0o640, "mode 0600"),
    ("", 0o600, "has no token"),
    ("two\nlines", 0o600, "has no token"),
    ("tökèn", 0o600, "has no token"),
])  # fmt: skip
def test_without_its_token_nothing_is_sent(tmp_path: Path, text: str | None, mode: int, why: str) -> None:
    token = tmp_path / "token"
    if text is not None:
        token.write_text(text, encoding="utf-8")
        token.chmod(mode)
    with pytest.raises(NoCredentials, match=why):
        RayClient("http://127.0.0.1:9", token).post("/api/jobs/", {}, MOST)


def test_the_environment_of_the_server_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with server(says(answer(b"[]"))) as address:
        assert RayClient(address).get("/api/jobs/", MOST).document() == []


def test_an_authority_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoCredentials, match="authority, is not there"):
        RayClient("https://127.0.0.1:9", ca_file=tmp_path / "ca.pem").get("/api/jobs/", MOST)
