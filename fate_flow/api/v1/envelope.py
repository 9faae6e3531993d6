"""The v1 envelope (reference: client-api-v1, section 1): read a body, write an answer, report an error.

A client finds the outcome in `retcode`. The HTTP status is 200 even for failures, except for those in the tables of
errors below, for `error_response`, and for routes whose 200 means that a file follows (`http/file_routes.py`). Other
parties and this party's workers read the same envelope; their tables are in their folders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flask import Response, current_app, g, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, RequestEntityTooLarge

from fate_flow.api.http.client_auth import NotAuthenticated
from fate_flow.api.http.declared import WARNINGS, Declaration, declaration_of, reads_a_body, unknown_keys, warns_in_data
from fate_flow.api.http.errors import Statuses, first, log_failure
from fate_flow.api.http.file_routes import is_for_a_file
from fate_flow.api.http.json_text import to_json
from fate_flow.api.http.request_origin import FORBIDDEN, OtherSite
from fate_flow.api.http.unread import BrokenBody, LateBody
from fate_flow.core.model.errors import (
    NOT_AUTHENTICATED,
    BadRequest,
    Busy,
    FlowError,
    NotFound,
    PermissionDenied,
    StorageFailed,
)
from fate_flow.core.model.job import Answer
from fate_flow.core.wire.v1 import retcodes
from fate_flow.core.wire.v1.envelope import RECORDED
from fate_flow.jobspec.text.json_text import RepeatedKey, read_json_text

SUCCESS = "success"
UNCAUGHT = 100
_RETRY_AFTER = {"Retry-After": "1"}


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


def read_ignored_body() -> None:
    """Read the body for a route that ignores it, before it acts: so the answer can name its keys, too."""
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
    extra = {RECORDED: True} if answer.is_recorded else {}
    return failed(answer.retcode, answer.retmsg, answer.data, **extra)


def error_response(status: int, retmsg: str) -> Response:
    """Return a failure whose HTTP status is the retcode."""
    return _envelope(status, {"retcode": status, "retmsg": retmsg})


def attached(content: Mapping[str, Any], file_name: str) -> Response:
    """Return an answer that is a JSON file."""
    headers = {"Content-Disposition": f"attachment; filename={file_name}"}
    return Response(to_json(content), mimetype="application/json", headers=headers)


def _envelope(status: int, content: Mapping[str, Any]) -> Response:
    body = to_json({key: value for key, value in content.items() if value is not None})
    return Response(body, status, mimetype="application/json")


# ---------------------------------------------------------------------- errors


class HttpError(FlowError):
    """An error that ends the request with this HTTP status, which is also the retcode."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class UploadMisses(BadRequest):
    """An upload has not all of its keys."""


STATUS_OF: Statuses = {Busy: 503, StorageFailed: 500}
"""The HTTP statuses of errors on every route; all other errors have 200."""

STATUS_OF_NO_FILE: Statuses = {BadRequest: 400, PermissionDenied: 403, NotFound: 404}
"""The HTTP statuses of errors on routes that answer with a file; all other errors have 500 there."""

STATUS_OF_NO_REQUEST: Statuses = {OtherSite: FORBIDDEN, BrokenBody: 400, LateBody: 408}
"""The HTTP statuses of requests that are not taken for one of a client."""

RETCODE_OF: Statuses = {NotAuthenticated: NOT_AUTHENTICATED, UploadMisses: UNCAUGHT}
"""The retcodes of the API's own errors, with HTTP status 200; those of all others are in core/wire/v1/retcodes.py."""


def retcode_of_kind(kind: type[FlowError]) -> int:
    known = (retcode for one, retcode in RETCODE_OF.items() if issubclass(kind, one))
    return next(known, None) or retcodes.retcode_of_kind(kind)


@dataclass(frozen=True)
class RetcodeEnvelope:
    """FATE's envelope for errors. HTTP statuses other than 200 are also the retcode.

    `statuses` and `no_file` are the tables of one kind of callers, for all routes, and for those with a file."""

    statuses: Statuses
    no_file: Statuses = field(default_factory=dict)

    def refused(self, error: FlowError) -> Response:
        status = self._status_of(error)
        if status >= 500:
            log_failure(error)
        if status == 200:
            return failed(_retcode(error), error.message, error.data)
        response = error_response(status, error.message)
        response.headers.update(_RETRY_AFTER if status == 503 else {})
        return response

    def not_served(self, error: HTTPException) -> Response:
        if isinstance(error, RequestEntityTooLarge):
            limit = request.max_content_length
            return error_response(413, f"the body is larger than {limit} bytes, the limit of this server")
        if isinstance(error, MethodNotAllowed):
            return _other_methods(sorted(error.valid_methods or ()))
        if is_for_a_file():
            return error_response(error.code or 500, repr(error))
        return failed(UNCAUGHT, repr(error))

    def failed(self, text: str) -> Response:
        return error_response(500, text) if is_for_a_file() else failed(UNCAUGHT, text)

    def _status_of(self, error: FlowError) -> int:
        if isinstance(error, HttpError):
            return error.status
        status = first(self.statuses, error)
        if status is None and is_for_a_file():
            status = first(self.no_file, error) or 500
        return status or 200


CLIENTS = RetcodeEnvelope({**STATUS_OF, **STATUS_OF_NO_REQUEST}, STATUS_OF_NO_FILE)


def error_body(status: int, text: str) -> bytes:
    """Return the envelope of an error whose HTTP status is the retcode."""
    return to_json({"retcode": status, "retmsg": text}).encode()


def _retcode(error: FlowError) -> int:
    return first(RETCODE_OF, error) or retcodes.retcode_of(error)


def _other_methods(methods: Sequence[str]) -> Response:
    listed = ", ".join(methods)
    response = error_response(405, f"{request.method} is not a method of this path, which has {listed}")
    response.headers["Allow"] = listed
    return response
