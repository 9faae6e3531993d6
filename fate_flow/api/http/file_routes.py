"""Routes whose clients take HTTP 200 to mean that a file follows: no error may have that status there."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from flask import Response, current_app, g, request

P = ParamSpec("P")

_MARK = "leads_to_a_file"


def file_follows(view: Callable[P, Response]) -> Callable[P, Response]:
    """Mark a route whose clients take HTTP 200 to mean that a file follows."""

    @wraps(view)
    def marked(*args: P.args, **kwargs: P.kwargs) -> Response:
        g.file_follows = True
        return view(*args, **kwargs)

    marked.__dict__[_MARK] = True
    return marked


def leads_to_a_file(view: Callable[..., Any]) -> bool:
    """Return whether `file_follows` marks this view."""
    return bool(getattr(view, _MARK, False))


def is_for_a_file() -> bool:
    """Return whether this request is for a file, as far as it has come."""
    return "file_follows" in g


def note_file_route() -> None:
    """Let the answers to this request be those of its route; for checks that refuse it before the view is called."""
    if leads_to_a_file(current_app.view_functions[request.endpoint or ""]):
        g.file_follows = True
