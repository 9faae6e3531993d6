"""`/v2`: the API of FATE Flow 2, which this server does not have. Every path answers so in the envelope of that API.

`flow` and `pipeline` of fate_client 2.x first read `code` of each answer, also if the caller is refused. So this answer
comes before all checks of the caller; it discloses nothing.
"""

from __future__ import annotations

from flask import Flask, Response, request

from fate_flow.api.http.envelope import to_json
from fate_flow.core.model.grammar import shown

RESTRICTED = 6001           # what FATE Flow 2 answers for a function that is switched off
_INSTEAD = (
    "this server speaks the API of FATE Flow 1.x, below /v1: "
    "use the flow command that comes with it, or fate_client 1.11"
)


def install(app: Flask) -> None:
    """Install the refusal; call this before any other check of requests is installed."""
    app.before_request(_refuse)


def is_v2(path: str) -> bool:
    return path == "/v2" or path.startswith("/v2/")


def _refuse() -> Response | None:
    if not is_v2(request.path):
        return None
    message = f"{request.method} {shown(request.path)} is not offered: {_INSTEAD}"
    return Response(to_json({"code": RESTRICTED, "message": message}), content_type="application/json")
