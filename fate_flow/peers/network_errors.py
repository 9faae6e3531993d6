"""Errors for answers that do not count, and text for people about network errors: without class names of libraries or
addresses of objects."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from json import JSONDecodeError

import requests
from urllib3.exceptions import ReadTimeoutError

from fate_flow.core.text.peer_problems import ITS_STATUS
from fate_flow.core.text.phrases import sanitized
from fate_flow.peers.dialed import NotConnected
from fate_flow.peers.signed_answers import NotProved

_MOST_LETTERS = 300
_LONGEST_TEXT = 250          # characters of another server's text in a message
_BY_NUMBER = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection lost",
    errno.ECONNABORTED: "connection lost",
    errno.EPIPE: "connection lost",
    errno.EHOSTUNREACH: "no route to its host",
    errno.ENETUNREACH: "no route to its network",
}

NAME, REFUSED, NO_WAY, TLS, SIGNATURE, TIMEOUT, LOST, NOT_DIALED, UNREADABLE = (
    "name", "refused", "no_route", "tls", "signature", "timeout", "lost", "not_dialed", "unreadable",
)  # fmt: skip
ERROR_CLASSES = (NAME, REFUSED, NO_WAY, TLS, SIGNATURE, TIMEOUT, LOST, NOT_DIALED, UNREADABLE)
_CLASS_BY_NUMBER = {errno.ECONNREFUSED: REFUSED, errno.EHOSTUNREACH: NO_WAY, errno.ENETUNREACH: NO_WAY}

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


def class_of_error(error: Exception) -> str:
    """Return the class of an error that `describe_network_error` describes: one of `ERROR_CLASSES`."""
    if isinstance(error, NotProved):
        return SIGNATURE
    if isinstance(error, requests.exceptions.Timeout):
        return TIMEOUT
    if isinstance(error, requests.exceptions.ConnectionError):
        return next(filter(None, map(_class_of_cause, (error, *_causes(error)))), LOST)
    is_cut = isinstance(error, requests.exceptions.ChunkedEncodingError)
    return LOST if is_cut else UNREADABLE


def _class_of_cause(cause: BaseException) -> str:
    if isinstance(cause, socket.gaierror):
        return NAME
    if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return LOST
    if isinstance(cause, ssl.SSLError | requests.exceptions.SSLError):
        return TLS
    if isinstance(cause, NotConnected):
        return NOT_DIALED
    if isinstance(cause, TimeoutError | ReadTimeoutError):
        return TIMEOUT
    if isinstance(cause, OSError):
        return _CLASS_BY_NUMBER.get(cause.errno or 0, "")
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the wrapped exceptions, from the outside in; `requests` and `urllib3` wrap an exception several times."""
    inside = [getattr(error, "reason", None), error.__cause__, *error.args]
    for one in inside:
        if isinstance(one, BaseException):
            yield one
            yield from _causes(one)


class BadStatus(ValueError):
    """An answer with an HTTP status that means that nothing was carried out."""

    def __init__(self, status: int, said_by: str, text: object) -> None:
        self.is_unknown_route = status in (404, 405)
        what, message = ITS_STATUS if said_by else "HTTP status", _printable(text)
        super().__init__(f"{what} {status}" + (f": {message}" if message else ""))


class Nameless(ValueError):
    """An answer without the name of its party, which has named itself before."""

    def __init__(self, url: str, text: object) -> None:
        message = sanitized(text, _LONGEST_TEXT)
        super().__init__(f"another server, which does not say whose it is, answers at {url}: {message}")


class NotBelieved(ValueError):
    """To the party, the request is not authenticated. Nothing was carried out; it can be once the keys are right."""

    def __init__(self, why: object) -> None:
        super().__init__(f"not authenticated: {_printable(why)}")


def may_know_no_batches(error: Exception) -> bool:
    """Return whether the answer to a batch may be that of a plain v1 server, which has carried out nothing of it."""
    return isinstance(error, Nameless) or (isinstance(error, BadStatus) and error.is_unknown_route)


def _printable(message: object) -> str:
    return "".join(one if one.isprintable() else "?" for one in sanitized(message, _LONGEST_TEXT))
