"""Who sends the present request: the client whose key has signed it (`client_auth.py`)."""

from __future__ import annotations

from flask import g, request

CALLER = "fate_flow.client"
"""The key of the name in the WSGI environment, for the access log."""


def note_caller(name: str) -> None:
    """Remember the client whose key has signed the request."""
    g.caller = request.environ[CALLER] = name


def caller() -> str:
    """Return the name of the client; "" if clients need not sign."""
    return str(g.get("caller", ""))
