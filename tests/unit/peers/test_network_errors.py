"""Why another party gave no answer, said to people."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable
from json import JSONDecodeError

import pytest
import requests
from urllib3.exceptions import MaxRetryError, NewConnectionError, ProtocolError, ReadTimeoutError

from fate_flow.peers.network_errors import describe_network_error
from tests.kit.notifications.receivers import nobody_listens


def asked(url: str) -> Exception:
    with pytest.raises(requests.RequestException) as found:
        requests.get(url, timeout=10)
    return found.value


def wrapped(cause: OSError) -> requests.ConnectionError:
    """As `urllib3` and `requests` do it."""
    inner = NewConnectionError(None, str(cause))  # type: ignore[arg-type]
    inner.__cause__ = cause
    return requests.ConnectionError(MaxRetryError(None, "/", inner))  # type: ignore[arg-type]


def test_a_port_where_nobody_listens() -> None:
    assert describe_network_error(asked(f"http://127.0.0.1:{nobody_listens()}/")) == "connection refused"


@pytest.mark.parametrize(("make", "text"), [
    (lambda: wrapped(ConnectionRefusedError(errno.ECONNREFUSED, "x")), "connection refused"),
    (lambda: wrapped(OSError(errno.EHOSTUNREACH, "x")), "no route to its host"),
    (lambda: wrapped(OSError(errno.EMFILE, "x")), "Too many open files"),
    (lambda: wrapped(socket.gaierror(-2, "Name or service not known")),
     "the name of its host cannot be resolved (Name or service not known)"),
    (lambda: requests.ConnectionError(ProtocolError("Connection aborted.", ConnectionResetError(104, "x"))),
     "connection lost"),
    (lambda: requests.ConnectionError(ProtocolError("Connection aborted.")), "connection lost"),
    (lambda: wrapped(ssl.SSLEOFError(8, "EOF occurred in violation of protocol")), "connection lost"),
    (lambda: wrapped(ssl.SSLError(1, "no valid key")), "no TLS connection (no valid key)"),
    (lambda: requests.ConnectionError(ReadTimeoutError(None, "/", "x")), "no answer in time"),  # type: ignore[arg-type]
    (lambda: requests.ConnectTimeout(), "no connection in time"),
    (lambda: requests.ReadTimeout(), "no answer in time"),
    (lambda: JSONDecodeError("x", "<html>", 0), "its answer is not JSON"),
    (lambda: requests.exceptions.ChunkedEncodingError("x"), "its answer is broken off or garbled"),
    (lambda: ValueError("HTTP 502: b'later'"), "HTTP 502: b'later'"),
    (lambda: ValueError(), "its answer cannot be read"),
])  # fmt: skip
def test_each_error_in_words(make: Callable[[], Exception], text: str) -> None:
    assert describe_network_error(make()) == text
