"""The v1 envelope (reference: client-api-v1, section 1): how a body is read, an answer written, an error told.

A client finds the outcome in `retcode`; the HTTP status is 200 even for failures, but for those of `STATUS_OF`, for
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
    """Ends the request with this HTTP status, which is the retcode as well."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.retcode = status


STATUS_OF: Mapping[type[FlowError], int] = {Busy: 503, StorageFailed: 500}
"""Errors that have an HTTP status of their own wherever they come up; the others answer 200."""

STATUS_OF_NO_FILE: Mapping[type[FlowError], int] = {BadRequest: 400, PermissionDenied: 403, NotFound: 404}
"""Those that have one where a file was expected; 500 for all the others there."""


# ---------------------------------------------------------------------- reading


def silent_json() -> dict[str, Any]:
    """The body as JSON whatever it calls itself; none, or null, is an empty object. Raises BadRequest."""
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
    """This is what the client says: the answer of a route of clients names the keys of it that are not known."""
    g.sent = said


def install_unread_bodies(app: Flask) -> None:
    """What is sent to a route of clients that reads no body is read before it acts: its keys are named all the same."""

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
    """That of the route that is asked; None without one."""
    return declaration_of(current_app.view_functions[request.endpoint]) if request.endpoint else None


def arguments(*required: str) -> dict[str, Any]:
    """The body of the request. Raises BadRequest, in FATE's words, when it lacks one of these keys."""
    body = silent_json()
    require(body, *required)
    return body


def documents() -> dict[str, Any]:
    """The body of a request that holds what people wrote. Raises BadRequest for a key that stands twice in an object:
    one of both would be dropped in silence."""
    body = arguments()
    try:
        read_json_text(request.get_data())
    except RepeatedKey as error:
        raise BadRequest(str(error)) from error
    except (ValueError, RecursionError):
        pass        # no JSON, NaN, or too deep: whoever reads the documents says so
    return body


def require(body: Mapping[str, Any], *names: str) -> None:
    """Raises BadRequest naming all that are missing."""
    missing = [name for name in names if body.get(name) is None]
    if missing:
        raise BadRequest(f"required argument are missing: {','.join(missing)}; ")


# ---------------------------------------------------------------------- writing


def ok(data: Any = None, retmsg: str = SUCCESS, **extra: Any) -> Response:
    """It worked; `extra` stands beside `data`: jobId, meta."""
    content = {"retcode": 0, "retmsg": retmsg, "data": data, **extra}
    return _envelope(200, {**content, **_warned(data)})


def _warned(data: Any) -> dict[str, Any]:
    """Where the answer names keys that are not known, if there are some."""
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
    """It did not work, and the client looks for that in the body alone."""
    return _envelope(200, {"retcode": retcode, "retmsg": retmsg, "data": data, **extra})


def reply(answer: Answer) -> Response:
    """What a use case answered to another party."""
    return failed(answer.retcode, answer.retmsg, answer.data)


def error_response(status: int, retmsg: str) -> Response:
    """It did not work, and the HTTP status says so too."""
    return _envelope(status, {"retcode": status, "retmsg": retmsg})


def attached(content: Mapping[str, Any], file_name: str) -> Response:
    """A file of JSON."""
    headers = {"Content-Disposition": f"attachment; filename={file_name}"}
    return Response(to_json(content), mimetype="application/json", headers=headers)


def to_json(value: Any) -> str:
    """Compact, keys sorted, one line, as FATE writes it; but a JsonText stands in it as it is."""
    texts: list[str] = []
    mark = secrets.token_hex(16)        # that nobody can have written into a row

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
    """What JSON has no word for."""
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
    raise TypeError(f"{type(value).__name__} has no place in an answer")


# ---------------------------------------------------------------------- errors


def install_errors(app: Flask) -> None:
    """One handler for each kind of error, for every route that has none of its own."""
    app.register_error_handler(FlowError, _on_flow_error)
    app.register_error_handler(HTTPException, _on_http_error)
    app.register_error_handler(Exception, _on_any_error)


def file_follows(view: Callable[P, Response]) -> Callable[P, Response]:
    """To the clients of this route HTTP 200 means that a file follows, so no error may come with it."""

    @wraps(view)
    def marked(*args: P.args, **kwargs: P.kwargs) -> Response:
        g.file_follows = True
        return view(*args, **kwargs)

    marked.__dict__[_MARK] = True
    return marked


_MARK = "leads_to_a_file"


def leads_to_a_file(view: Callable[..., Any]) -> bool:
    """Whether this view is one of `file_follows`, for who refuses a request before the view is asked."""
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
    """A database that has gone is no defect of ours: its words are enough."""
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
        return error_response(413, f"the body is larger than {limit} bytes, the most that is taken here")
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
    """What a caller learns of a defect: the id under which our log has it. Its own words could name anything."""
    incident = secrets.token_hex(6)
    LOG.error("%s %s failed: error %s", request.method, request.path, incident, exc_info=error)
    return f"unexpected error; the log of this server has the reason: error {incident}"
