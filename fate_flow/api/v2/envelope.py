"""The envelope of FATE Flow 2 (reference: client-api-v2): `code` and `message`, with HTTP status 200 even for failures.

`flow` and `pipeline` of fate_client 2.x first read `code` of each answer, also if the caller is refused. A key whose
value is null is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from fate_flow.api.http.client_auth import NotAuthenticated
from fate_flow.api.http.errors import Statuses, first, log_failure
from fate_flow.api.http.json_text import to_json
from fate_flow.api.http.request_origin import FORBIDDEN, OtherSite
from fate_flow.api.http.unread import BrokenBody, LateBody
from fate_flow.api.v2.errors import CodedError
from fate_flow.core.model.errors import (
    BadDocument,
    BadRequest,
    FlowError,
    JobNotFound,
    NotFound,
    NotOffered,
    PeerUnreachable,
    PermissionDenied,
    StorageFailed,
)
from fate_flow.services.models.inheriting import InheritanceFailed

SUCCESS = "success"
EXCEPTION = 6000            # FATE Flow 2's code for any other error
RESTRICTED = 6001           # for a function that is switched off

CODE_OF: Statuses = {
    BadDocument: 1000,
    BadRequest: 5001,
    JobNotFound: 1001,
    NotFound: 6003,
    NotOffered: RESTRICTED,
    NotAuthenticated: 5004,
    PermissionDenied: 5005,
    PeerUnreachable: 6002,
    InheritanceFailed: 1007,
}
"""The codes of errors that have none of their own; all other errors have `EXCEPTION`. The first class that fits
counts."""

STATUS_OF: Statuses = {OtherSite: FORBIDDEN, BrokenBody: 400, LateBody: 408}
"""The HTTP statuses of requests that are not taken for one of a client."""


def ok(data: Any = None, *, job_id: str | None = None, message: str = SUCCESS, **extra: Any) -> Response:
    """Return a success; `extra` has keys beside `data`."""
    return _answer(0, message, {"data": data, "job_id": job_id, **extra})


def without_envelope(content: Mapping[str, Any]) -> Response:
    """Return an answer of a route where FATE Flow 2 has no envelope."""
    return Response(to_json(content), content_type="application/json")


class CodeEnvelope:
    """FATE Flow 2's envelope for errors."""

    def refused(self, error: FlowError) -> Response:
        if isinstance(error, StorageFailed):
            log_failure(error)
        code = error.code if isinstance(error, CodedError) else first(CODE_OF, error) or EXCEPTION
        response = _answer(code, error.message, {"data": error.data})
        response.status_code = first(STATUS_OF, error) or 200
        return response

    def not_served(self, error: HTTPException) -> Response:
        if isinstance(error, RequestEntityTooLarge):
            limit = request.max_content_length
            return _answer(EXCEPTION, f"the body is larger than {limit} bytes, the limit of this server", {})
        return _answer(EXCEPTION, repr(error), {})

    def failed(self, text: str) -> Response:
        return _answer(EXCEPTION, text, {})


def _answer(code: int, message: str, more: Mapping[str, Any]) -> Response:
    shown = {key: value for key, value in more.items() if value is not None}
    return without_envelope({"code": code, "message": message, **shown})
