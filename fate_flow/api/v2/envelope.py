"""The envelope of FATE Flow 2 (reference: client-api-v2): `code` and `message`, with HTTP status 200 even for failures.

`flow` and `pipeline` of fate_client 2.x first read `code` of each answer, also if the caller is refused.
"""

from __future__ import annotations

from flask import Response
from werkzeug.exceptions import HTTPException

from fate_flow.api.http.errors import Statuses, first
from fate_flow.api.http.json_text import to_json
from fate_flow.core.model.errors import FlowError, NotOffered

EXCEPTION = 6000            # FATE Flow 2's code for any other error
RESTRICTED = 6001           # for a function that is switched off

CODE_OF: Statuses = {NotOffered: RESTRICTED}
"""The codes of errors; all other errors have `EXCEPTION`."""


class CodeEnvelope:
    """FATE Flow 2's envelope for errors."""

    def refused(self, error: FlowError) -> Response:
        return _answer(first(CODE_OF, error) or EXCEPTION, error.message)

    def not_served(self, error: HTTPException) -> Response:
        return _answer(EXCEPTION, repr(error))

    def failed(self, text: str) -> Response:
        return _answer(EXCEPTION, text)


def _answer(code: int, message: str) -> Response:
    return Response(to_json({"code": code, "message": message}), content_type="application/json")
