"""Trace ids, as W3C Trace Context writes them: one id from a client's command through all parties to the workers.

The header `traceparent` has the id of the trace, and that of the span which sends it. A value that cannot be read
counts as none: a trace never decides whether a request is carried out.
"""

from __future__ import annotations

import re

TRACEPARENT = "traceparent"
"""The header. In the environment of a process the name is written in capitals."""

ENVIRONMENT = "TRACEPARENT"
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


def trace_id_in(value: object) -> str:
    """Return the id of the trace (32 hex digits) in a `traceparent`; empty if it has none. Versions after 00 may have
    more at their end."""
    return _ids_in(value)[0]


def span_id_in(value: object) -> str:
    """Return the id of the span (16 hex digits) in a `traceparent`; empty if it has none."""
    return _ids_in(value)[1]


def _ids_in(value: object) -> tuple[str, str]:
    found = _FORM.fullmatch(value) if isinstance(value, str) and len(value) <= 500 else None
    if found is None:
        return "", ""
    version, trace, span, more = found.groups()
    is_valid = version != "ff" and (version != "00" or more is None) and set(trace) != {"0"} and set(span) != {"0"}
    return (trace, span) if is_valid else ("", "")


def traceparent(trace: str, span: str) -> str:
    """Return the header of a span of this trace. `span`: 16 hex digits, not all of them 0."""
    return f"00-{trace}-{span}-01"
