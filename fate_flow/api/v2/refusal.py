"""`/v2`: the API of FATE Flow 2, which this server does not have. Every path is refused in the envelope of that API.

The refusal comes before all checks of the caller; it discloses nothing.
"""

from __future__ import annotations

from flask import Flask, request

from fate_flow.api.http.errors import Api
from fate_flow.api.v2.envelope import CodeEnvelope
from fate_flow.core.model.errors import NotOffered
from fate_flow.core.model.grammar import shown

API = Api(CodeEnvelope(), path="/v2")
_INSTEAD = (
    "this server speaks the API of FATE Flow 1.x, below /v1: "
    "use the flow command that comes with it, or fate_client 1.11"
)


def install(app: Flask) -> None:
    """Install the refusal; call this before any other check of requests is installed."""
    app.before_request(_refuse)


def _refuse() -> None:
    if API.has(request.path):
        raise NotOffered(f"{request.method} {shown(request.path)} is not offered: {_INSTEAD}")
