"""gunicorn's own answers, in an envelope: for input that is not a valid request and never reaches the application.

Without this, they would be HTML pages. The OpenAPI document of v1 lists each status as an answer of every route.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus

from gunicorn.http import errors

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.text.phrases import sanitized

UNREADABLE: Mapping[int, str] = {
    400: "The input is not an HTTP/1.1 request.",
    408: "The request has not arrived in time.",
    414: "The request line is too long: method, path and query.",
    417: "The header Expect is not 100-continue.",
    431: "There are too many header fields, or one of them is too long.",
    500: "The server has failed; its log says why.",
    501: "The transfer encoding of the body is not supported.",
    503: "The server receives other large requests; try again later.",
}
"""The messages by HTTP status."""


class TooLate(errors.ParseException):  # type: ignore[misc]  # gunicorn is not typed
    """A part of a request has not arrived in time."""


_STATUS_OF: Mapping[type[Exception], int] = {
    TooLate: 408,
    errors.LimitRequestLine: 414,
    errors.ExpectationFailed: 417,
    errors.LimitRequestHeaders: 431,
    errors.UnsupportedTransferCoding: 501,
    errors.ConfigurationProblem: 500,
    errors.InvalidResponseHeader: 500,
    errors.InvalidResponseHeaderName: 500,
    errors.ParseException: 400,
    errors.NoMoreData: 400,
}
"""The statuses of gunicorn's errors; the first class that fits counts, all others have 500."""


BodyOf = Callable[[int, str], bytes]
"""Makes the body of an answer from its HTTP status and its text."""


class BrokenBody(BadRequest):
    """The body of a request ends too early, or is not encoded as its headers say; no failure of the server."""


class LateBody(BadRequest):
    """The body of a request has not arrived in time; no failure of the server."""


BROKEN_BODIES = (errors.ParseException, errors.NoMoreData)


def broken_body(error: Exception) -> BrokenBody | LateBody:
    return LateBody(text_of(408, error)) if isinstance(error, TooLate) else BrokenBody(text_of(400, error))


def status_of(error: Exception) -> int:
    return next((status for kind, status in _STATUS_OF.items() if isinstance(error, kind)), 500)


_RETRY_LATER = "Retry-After: 1\r\n"


def answer(status: int, body: bytes) -> bytes:
    """Return the whole HTTP message, which closes the connection."""
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"{_RETRY_LATER if status == 503 else ''}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def text_of(status: int, error: Exception) -> str:
    """Return the message, which quotes a short part of the input."""
    meaning = UNREADABLE[status].removesuffix(".")
    return meaning if status == 500 else f"{meaning}: {sanitized(str(error), 200)}"
