"""The v1 envelope (reference: client-api-v1, section 1): read a body, write an answer, report an error.

A client finds the outcome in `retcode`. The HTTP status is 200 even for failures, except for those in `STATUS_OF`, for
`error_response`, and for routes whose 200 means that a file follows (`file_follows`).
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import Any, ParamSpec

from flask import Flask, Response, current_app, g, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, RequestEntityTooLarge

from fate_flow.api.http.declared import WARNINGS, Declaration, declaration_of, reads_a_body, unknown_keys, warns_in_data
from fate_flow.core.model.errors import (
    BadRequest,
    Busy,
    CommitUnknown,
    FlowError,
    NotFound,
    PermissionDenied,
    StorageFailed,
    StorageUnavailable,
)
from fate_flow.core.model.job import Answer
from fate_flow.jobspec.text.json_text import JsonText, RepeatedKey, read_json_text

LOG = logging.getLogger(__name__)

P = ParamSpec("P")

SUCCESS = "success"
UNCAUGHT = 100
_RETRY_AFTER = {"Retry-After": "1"}


class HttpError(FlowError):
    """An error that ends the request with this HTTP status, which is also the retcode."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.retcode = status


STATUS_OF: Mapping[type[FlowError], int] = {Busy: 503, StorageFailed: 500}
"""The HTTP statuses of errors on every route; all other errors have 200."""

STATUS_OF_NO_FILE: Mapping[type[FlowError], int] = {BadRequest: 400, PermissionDenied: 403, NotFound: 404}
"""The HTTP statuses of errors on routes that answer with a file; all other errors have 500 there."""


# ---------------------------------------------------------------------- reading


def silent_json() -> dict[str, Any]:
    """Return the body as JSON, whatever its content type; no body, or null, is an empty object. Raise BadRequest."""
    if not request.get_data():
        return {}
    try:
        body = request.get_json(force=True, silent=True)
    except RecursionError:       # a few kilobytes of brackets
        body = None
    if body is None and request.get_data().strip() == b"null":
        return {}
    if not isinstance(body, dict):
        raise BadRequest("the body is not a JSON object")
    note_sent(body)
    return body


def note_sent(said: Mapping[str, Any]) -> None:
    """Remember what the client sent: the answer of a route for clients names its unknown keys."""
    g.sent = said


def install_unread_bodies(app: Flask) -> None:
    """Read the body for routes of clients that ignore it, before they act: so the answer can name its keys, too."""

    @app.before_request
    def read() -> None:
        declaration = _declaration()
        if (
            request.method == "POST"
            and declaration is not None
            and not declaration.never
            and not reads_a_body(declaration)
        ):
            silent_json()


def _declaration() -> Declaration | None:
    """Return the declaration of the requested route; None if it has none."""
    return declaration_of(current_app.view_functions[request.endpoint]) if request.endpoint else None


def arguments(*required: str) -> dict[str, Any]:
    """Return the body of the request. Raise BadRequest with FATE's text if one of these keys is missing."""
    body = silent_json()
    require(body, *required)
    return body


def documents() -> dict[str, Any]:
    """Return the body of a request with documents that people wrote. Raise BadRequest for a key that occurs twice in an
    object: one of the two would be lost silently."""
    body = arguments()
    try:
        read_json_text(request.get_data())
    except RepeatedKey as error:
        raise BadRequest(str(error)) from error
    except (ValueError, RecursionError):
        pass        # not JSON, NaN, or too deep: the reader of the documents reports it
    return body


def require(body: Mapping[str, Any], *names: str) -> None:
    """Raise BadRequest with the names of all missing keys."""
    missing = [name for name in names if body.get(name) is None]
    if missing:
        raise BadRequest(f"required argument are missing: {','.join(missing)}; ")


# ---------------------------------------------------------------------- writing


def ok(data: Any = None, retmsg: str = SUCCESS, **extra: Any) -> Response:
    """Return a success; `extra` has keys beside `data`: jobId, meta."""
    content = {"retcode": 0, "retmsg": retmsg, "data": data, **extra}
    return _envelope(200, {**content, **_warned(data)})


def _warned(data: Any) -> dict[str, Any]:
    """Return the keys of the answer that have the warnings about unknown keys; {} if there are none."""
    if "sent" not in g:
        return {}
    declaration = _declaration()
    unknown = list(unknown_keys(declaration, g.sent)) if declaration is not None else []
    if declaration is None or not unknown:
        return {}
    if not warns_in_data(declaration):
        return {WARNINGS: unknown}
    return {"data": {**(data or {}), WARNINGS: [*(data or {}).get(WARNINGS, ()), *unknown]}}


def failed(retcode: int, retmsg: str, data: Any = None, **extra: Any) -> Response:
    """Return a failure with HTTP status 200; the client finds the retcode in the body."""
    return _envelope(200, {"retcode": retcode, "retmsg": retmsg, "data": data, **extra})


def reply(answer: Answer) -> Response:
    """Return the answer of a use case to another party."""
    return failed(answer.retcode, answer.retmsg, answer.data)


def error_response(status: int, retmsg: str) -> Response:
    """Return a failure whose HTTP status is the retcode."""
    return _envelope(status, {"retcode": status, "retmsg": retmsg})


def attached(content: Mapping[str, Any], file_name: str) -> Response:
    """Return an answer that is a JSON file."""
    headers = {"Content-Disposition": f"attachment; filename={file_name}"}
    return Response(to_json(content), mimetype="application/json", headers=headers)


def to_json(value: Any) -> str:
    """Return compact JSON with sorted keys in one line, as FATE writes it; a JsonText is inserted unchanged."""
    texts: list[str] = []
    mark = secrets.token_hex(16)        # random, so it cannot occur in a row

    def json_value(value: object) -> Any:
        if isinstance(value, JsonText):
            texts.append(value.text)
            return mark
        return _json_value(value)

    pieces = json.dumps(value, separators=(",", ":"), sort_keys=True, default=json_value).split(f'"{mark}"')
    return "".join(chain.from_iterable(zip(pieces, [*texts, "\n"], strict=True)))


def _envelope(status: int, content: Mapping[str, Any]) -> Response:
    body = to_json({key: value for key, value in content.items() if value is not None})
    return Response(body, status, mimetype="application/json")


def _json_value(value: object) -> Any:
    """Return a JSON value for a type that JSON does not have."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written into an answer")


# ---------------------------------------------------------------------- errors


def install_errors(app: Flask) -> None:
    """Install a handler for each kind of error, for every route without a handler of its own."""
    app.register_error_handler(FlowError, _on_flow_error)
    app.register_error_handler(HTTPException, _on_http_error)
    app.register_error_handler(Exception, _on_any_error)


def file_follows(view: Callable[P, Response]) -> Callable[P, Response]:
    """Mark a route whose clients take HTTP 200 to mean that a file follows: no error may have that status."""

    @wraps(view)
    def marked(*args: P.args, **kwargs: P.kwargs) -> Response:
        g.file_follows = True
        return view(*args, **kwargs)

    marked.__dict__[_MARK] = True
    return marked


_MARK = "leads_to_a_file"


def leads_to_a_file(view: Callable[..., Any]) -> bool:
    """Return whether `file_follows` marks this view; for checks that refuse a request before the view is called."""
    return bool(getattr(view, _MARK, False))


def _on_flow_error(error: FlowError) -> Response:
    status = _status_of(error)
    if status >= 500:
        LOG.error("%s %s: %s", request.method, request.path, error.message, exc_info=_traceback_of(error))
    if status != 200:
        response = error_response(status, error.message)
        response.headers.update(_RETRY_AFTER if status == 503 else {})
        return response
    return failed(error.retcode, error.message, error.data)


def _traceback_of(error: FlowError) -> FlowError | None:
    """Return the error for a traceback in the log; None if the database failed: that is no bug of ours."""
    return None if isinstance(error, (StorageUnavailable, CommitUnknown)) else error


def _status_of(error: FlowError) -> int:
    if isinstance(error, HttpError):
        return error.retcode
    status = _first(STATUS_OF, error)
    if status is None and "file_follows" in g:
        status = _first(STATUS_OF_NO_FILE, error) or 500
    return status or 200


def _first(table: Mapping[type[FlowError], int], error: FlowError) -> int | None:
    return next((status for kind, status in table.items() if isinstance(error, kind)), None)


def _on_http_error(error: HTTPException) -> Response:
    if isinstance(error, RequestEntityTooLarge):
        limit = request.max_content_length
        return error_response(413, f"the body is larger than {limit} bytes, the limit of this server")
    if isinstance(error, MethodNotAllowed):
        return _other_methods(sorted(error.valid_methods or ()))
    if "file_follows" in g:
        return error_response(error.code or 500, repr(error))
    return failed(UNCAUGHT, repr(error))


def _other_methods(methods: Sequence[str]) -> Response:
    listed = ", ".join(methods)
    response = error_response(405, f"{request.method} is not a method of this path, which has {listed}")
    response.headers["Allow"] = listed
    return response


def _on_any_error(error: Exception) -> Response:
    message = unexpected(error)
    return error_response(500, message) if "file_follows" in g else failed(UNCAUGHT, message)


def unexpected(error: Exception) -> str:
    """Return the text for a caller about a bug: the id of the entry in our log. The exception's own text could contain
    anything."""
    incident = secrets.token_hex(6)
    LOG.error("%s %s failed: error %s", request.method, request.path, incident, exc_info=error)
    return f"unexpected error; the log of this server has the reason: error {incident}"
