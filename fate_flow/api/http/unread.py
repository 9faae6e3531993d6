"""gunicorn's own answers in the envelope: for input that is not a valid request and never reaches the application.

Without this, they would be HTML pages. The OpenAPI document (`openapi.py`) lists each status as an answer of every
route.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from flask import Flask
from gunicorn import util
from gunicorn.http import errors
from gunicorn.workers.gthread import ThreadWorker

from fate_flow.api.http.envelope import error_response, to_json
from fate_flow.core.text.phrases import sanitized

UNREADABLE: Mapping[int, str] = {
    400: "The input is not an HTTP/1.1 request.",
    414: "The request line is too long: method, path and query.",
    417: "The header Expect is not 100-continue.",
    431: "There are too many header fields, or one of them is too long.",
    500: "The server has failed; its log says why.",
    501: "The transfer encoding of the body is not supported.",
}
"""The messages by HTTP status, which is also the retcode."""

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


class EnvelopeWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn is not typed
    """gunicorn's worker with threads; it answers in the envelope if a request does not reach the application."""

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:  # noqa: ARG002  # gunicorn's own signature
        status = status_of(exc)
        if status == 500:
            self.log.error("a request failed outside of the application", exc_info=exc)
        else:
            self.log.warning("input from %s is not a request: %s", addr[0] if addr else "a socket", exc)
        with suppress(OSError):             # the client has gone
            util.write_nonblock(client, answer(status, exc))


def install_broken_bodies(app: Flask) -> None:
    """Answer 400 to a body that ends too early; it is not a failure of the server."""
    for kind in (errors.ParseException, errors.NoMoreData):      # raised while the application reads the body
        app.register_error_handler(kind, lambda error: error_response(400, _text(400, error)))


def status_of(error: Exception) -> int:
    return next((status for kind, status in _STATUS_OF.items() if isinstance(error, kind)), 500)


def answer(status: int, error: Exception) -> bytes:
    """Return the whole HTTP message, which closes the connection. It quotes a short part of the input."""
    body = to_json({"retcode": status, "retmsg": _text(status, error)}).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def _text(status: int, error: Exception) -> str:
    meaning = UNREADABLE[status].removesuffix(".")
    return meaning if status == 500 else f"{meaning}: {sanitized(str(error), 200)}"
