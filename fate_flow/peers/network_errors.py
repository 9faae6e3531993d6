"""Text for people about network errors, without class names of libraries or addresses of objects."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from json import JSONDecodeError

import requests
from urllib3.exceptions import ReadTimeoutError

from fate_flow.peers.dialed import NotConnected

_MOST_LETTERS = 300
_BY_NUMBER = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection lost",
    errno.ECONNABORTED: "connection lost",
    errno.EPIPE: "connection lost",
    errno.EHOSTUNREACH: "no route to its host",
    errno.ENETUNREACH: "no route to its network",
}

_BY_ALERT = {
    "TLSV1_ALERT_UNKNOWN_CA": "it accepts none of our keys: its operator has revoked or removed this party, or needs "
    "our newest key list (fate_flow key show)",
}
"""By the reason of an SSLError: what the other server has said."""


def describe_network_error(error: Exception) -> str:
    """Return text that says why there is no readable answer."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return "no connection in time"
    if isinstance(error, requests.exceptions.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.ConnectionError):
        return next(filter(None, map(describe_cause, _causes(error))), "connection lost")
    if isinstance(error, JSONDecodeError | requests.exceptions.JSONDecodeError):
        return "its answer is not JSON"
    if isinstance(error, requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError):
        return "its answer is broken off or garbled"
    return str(error)[:_MOST_LETTERS] or "its answer cannot be read"


def describe_cause(cause: BaseException) -> str:
    """Return text about one exception; empty if it only wraps another."""
    if isinstance(cause, socket.gaierror):
        return f"the name of its host cannot be resolved ({cause.strerror})"
    if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "connection lost"
    if isinstance(cause, ssl.SSLError):
        reason = getattr(cause, "reason", None) or ""         # one of ours has only a text
        return f"no TLS connection ({_BY_ALERT.get(reason) or reason or cause.strerror})"
    if isinstance(cause, NotConnected):
        return str(cause)
    if isinstance(cause, TimeoutError | ReadTimeoutError):
        return "no answer in time"
    if isinstance(cause, OSError) and cause.errno:
        return _BY_NUMBER.get(cause.errno, os.strerror(cause.errno))
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the wrapped exceptions, from the outside in; `requests` and `urllib3` wrap an exception several times."""
    inside = [getattr(error, "reason", None), error.__cause__, *error.args]
    for one in inside:
        if isinstance(one, BaseException):
            yield one
            yield from _causes(one)
