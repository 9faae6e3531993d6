"""gunicorn's own answers, in an envelope: for input that is not a valid request and never reaches the application.

Without this, they would be HTML pages. The OpenAPI document of v1 lists each status as an answer of every route.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from gunicorn import util
from gunicorn.http import errors
from gunicorn.workers.gthread import ThreadWorker

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.text.phrases import sanitized

UNREADABLE: Mapping[int, str] = {
    400: "The input is not an HTTP/1.1 request.",
    414: "The request line is too long: method, path and query.",
    417: "The header Expect is not 100-continue.",
    431: "There are too many header fields, or one of them is too long.",
    500: "The server has failed; its log says why.",
    501: "The transfer encoding of the body is not supported.",
}
"""The messages by HTTP status."""

_STATUS_OF: Mapping[type[Exception], int] = {
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


BROKEN_BODIES = (errors.ParseException, errors.NoMoreData)


def broken_body(error: Exception) -> BrokenBody:
    return BrokenBody(_text(400, error))


class _EnvelopeWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn is not typed
    """gunicorn's worker with threads; it answers in an envelope if a request does not reach the application, and no
    client that keeps its connection open makes others wait."""

    body_of: BodyOf

    def handle(self, conn: Any) -> Any:
        """Carry out a request, in a thread of the pool. Where the connection ends with it, end it here: gunicorn would
        wait in its main thread, for up to 2 s, until the client ends it too, and serve nobody else meanwhile."""
        result = super().handle(conn)
        if not result:
            conn.close(graceful=True)
        return result

    def finish_request(self, conn: Any, fs: Any) -> None:
        """What is left to do in the main thread after a request."""
        if conn.sock.fileno() == -1:
            self.nr_conns -= 1             # `handle` has closed it
        else:
            super().finish_request(conn, fs)

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:  # noqa: ARG002  # gunicorn's own signature
        status = status_of(exc)
        if status == 500:
            self.log.error("a request failed outside of the application", exc_info=exc)
        else:
            self.log.warning("input from %s is not a request: %s", addr[0] if addr else "a socket", exc)
        with suppress(OSError):             # the client has gone
            util.write_nonblock(client, answer(status, type(self).body_of(status, _text(status, exc))))


def worker_class(body_of: BodyOf) -> type[ThreadWorker]:
    """Return a class of gunicorn's workers for applications that answer in this envelope."""
    return type("EnvelopeWorker", (_EnvelopeWorker,), {"body_of": staticmethod(body_of)})


def status_of(error: Exception) -> int:
    return next((status for kind, status in _STATUS_OF.items() if isinstance(error, kind)), 500)


def answer(status: int, body: bytes) -> bytes:
    """Return the whole HTTP message, which closes the connection."""
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def _text(status: int, error: Exception) -> str:
    """Return the message, which quotes a short part of the input."""
    meaning = UNREADABLE[status].removesuffix(".")
    return meaning if status == 500 else f"{meaning}: {sanitized(str(error), 200)}"
