"""gunicorn's own answers, in the envelope: to what cannot be read as a request, so that no application is asked.

Without this they are pages of HTML. Each status is in the OpenAPI document (`openapi.py`), as an answer of every route.
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
    400: "What was sent is not a request of HTTP/1.1.",
    414: "The request line is too long: method, path and query.",
    417: "The header Expect wants something else than 100-continue.",
    431: "There are too many header fields, or one of them is too long.",
    500: "The server has failed; its log says why.",
    501: "The body is encoded for its transfer in a way that is not known here.",
}
"""By HTTP status, which is the retcode as well."""

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
"""The first that fits; 500 for all others."""


class EnvelopeWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn is not typed
    """gunicorn's worker with threads, which says in the envelope what it does not pass on."""

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:  # noqa: ARG002  # gunicorn's own signature
        status = status_of(exc)
        if status == 500:
            self.log.error("a request failed outside of the application", exc_info=exc)
        else:
            self.log.warning("what came from %s is no request: %s", addr[0] if addr else "a socket", exc)
        with suppress(OSError):             # gone meanwhile
            util.write_nonblock(client, answer(status, exc))


def install_broken_bodies(app: Flask) -> None:
    """Who sends a body that ends in the middle is told so; it is no failure of the server."""
    for kind in (errors.ParseException, errors.NoMoreData):      # they come up while the application reads it
        app.register_error_handler(kind, lambda error: error_response(400, _text(400, error)))


def status_of(error: Exception) -> int:
    return next((status for kind, status in _STATUS_OF.items() if isinstance(error, kind)), 500)


def answer(status: int, error: Exception) -> bytes:
    """The whole message, after which the connection is closed. What was sent is quoted in short."""
    body = to_json({"retcode": status, "retmsg": _text(status, error)}).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def _text(status: int, error: Exception) -> str:
    meaning = UNREADABLE[status].removesuffix(".")
    return meaning if status == 500 else f"{meaning}: {sanitized(str(error), 200)}"
