"""Answer errors: each API of an application has its own envelope, and one mechanism asks the right one.

A request belongs to the API whose blueprint it reaches. A request that reaches no route belongs to the API of its path,
otherwise to the default one.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from flask import Blueprint, Flask, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Rule

from fate_flow.api.http.caller import trace_of_request
from fate_flow.api.http.unread import BROKEN_BODIES, broken_body
from fate_flow.core.model.errors import DATABASE_AWAY, Busy, FlowError

LOG = logging.getLogger(__name__)

Statuses = Mapping[type[FlowError], int]
"""HTTP statuses by error; of several classes that fit, the first counts."""


REFUSED = "fate_flow.refused"
"""The key in the WSGI environment of the FlowError that answers a request."""


class Envelope(Protocol):
    """What one kind of callers is told about an error. Each method returns the whole answer."""

    def refused(self, error: FlowError) -> Response:
        """Answer an error that the product raises on purpose."""
        ...

    def not_served(self, error: HTTPException) -> Response:
        """Answer a request that Flask refuses: its path, its method, or the size of its body."""
        ...

    def failed(self, text: str) -> Response:
        """Answer a request that met a defect; `text` has the id of the entry in our log and nothing else."""
        ...


@dataclass(frozen=True)
class Api:
    """The routes for one kind of callers."""

    envelope: Envelope
    blueprints: Sequence[Blueprint] = ()
    path: str = ""                   # every path below it belongs to this API, also without a route; empty: none

    def has(self, path: str) -> bool:
        return bool(self.path) and (path == self.path or path.startswith(f"{self.path}/"))


def register_apis(app: Flask, default: Api, *others: Api) -> None:
    """Register the blueprints of all APIs, and answer errors in the envelope of the API that was asked."""
    app.url_rule_class = _Route
    for blueprint in (one for api in (default, *others) for one in api.blueprints):
        app.register_blueprint(blueprint)
    by_blueprint = {blueprint.name: api.envelope for api in others for blueprint in api.blueprints}

    def envelope() -> Envelope:
        if request.blueprint is not None:
            return by_blueprint.get(request.blueprint, default.envelope)
        return next((api.envelope for api in others if api.has(request.path)), default.envelope)

    def refused(error: FlowError) -> Response:
        request.environ[REFUSED] = error
        return envelope().refused(error)

    app.register_error_handler(FlowError, refused)
    app.register_error_handler(HTTPException, lambda error: envelope().not_served(error))
    app.register_error_handler(Exception, lambda error: envelope().failed(defect_text(error)))
    for kind in BROKEN_BODIES:       # raised while the application reads the body
        app.register_error_handler(kind, lambda error: envelope().refused(broken_body(error)))


class _Route(Rule):
    """A route that builds no URL: none is asked for, and what would build them takes most of the time of a route."""

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:  # noqa: ARG002
        return _no_url


def _no_url(*_: object, **__: object) -> tuple[str, str]:
    raise NotImplementedError("routes of a server build no URL")


def first(table: Statuses, error: FlowError) -> int | None:
    """Return the HTTP status of an error; None if the table does not have it."""
    return next((status for kind, status in table.items() if isinstance(error, kind)), None)


def defect_text(error: Exception) -> str:
    """Return the text for a caller about a bug: the id of the entry in our log. The exception's own text could contain
    anything."""
    incident = secrets.token_hex(6)
    trace = trace_of_request()
    LOG.error("%s %s (trace %s) failed: error %s", request.method, request.path, trace, incident, exc_info=error)
    return f"unexpected error; the log of this server has the reason: error {incident}"


def log_failure(error: FlowError) -> None:
    """Log an error that is the server's own; without a traceback if the database failed, or if there was too much to do
    at once: that is no bug of ours."""
    is_no_bug = isinstance(error, (*DATABASE_AWAY, Busy))
    LOG.error("%s %s: %s", request.method, request.path, error.message, exc_info=None if is_no_bug else error)
