"""Who sends the present request, the client whose key has signed it (`client_auth.py`), and in which trace."""

from __future__ import annotations

import secrets

from flask import Response, g, request

from fate_flow.core.text.trace import TRACEPARENT, trace_id_in, traceparent

CALLER = "fate_flow.client"
TRACE = "fate_flow.trace"
"""The keys of the name and of the id of the trace in the WSGI environment, for the access log."""


def note_caller(name: str) -> None:
    """Remember the client whose key has signed the request."""
    g.caller = request.environ[CALLER] = name


def caller() -> str:
    """Return the name of the client; "" if clients need not sign."""
    return str(g.get("caller", ""))


def trace_of_request() -> str:
    """Return the id of the trace of the request: the one that it names, else a new one."""
    known: str = g.get("trace") or trace_id_in(request.headers.get(TRACEPARENT)) or secrets.token_hex(16)
    g.trace = request.environ[TRACE] = known
    return known


def span_of_request() -> str:
    """Return the id of the span of the request, which its answer names."""
    known: str = g.get("span") or secrets.token_hex(8)
    g.span = known
    return known


def name_trace(answer: Response) -> Response:
    """Name the trace of the request in its answer, also of a refusal."""
    answer.headers[TRACEPARENT] = traceparent(trace_of_request(), span_of_request())
    return answer
