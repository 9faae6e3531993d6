"""A test client that lets no answer pass which the OpenAPI document of the server does not have."""

from __future__ import annotations

from functools import cache
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from jsonschema import Draft202012Validator
from werkzeug.exceptions import HTTPException
from werkzeug.test import TestResponse

from fate_flow.api.client_auth import ClientAuth, is_for_clients
from fate_flow.api.openapi import document, path_of

_made: dict[bool, Any] = {}
"""By whether clients sign: the document of the first such application. It is the same for all, and takes a while."""


class DocumentedClient(FlaskClient):
    """As Flask's own, for the routes of clients."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        response = super().open(*args, **kwargs)
        request, is_signed = response.request, _is_signed(self.application)
        if is_signed not in _made:
            _made[is_signed] = document(self.application, is_signed=is_signed)
        path = _path(self.application, request.path, request.method)
        if path:
            problem = _misfit(is_signed, path, request.method.lower(), response)
            assert not problem, f"{request.method} {request.path}: {problem}"
        return response


def _is_signed(app: Flask) -> bool:
    return any(isinstance(getattr(one, "__self__", None), ClientAuth) for one in app.before_request_funcs.get(None, ()))


def _path(app: Flask, path: str, method: str) -> str:
    """As the document has it; empty for what is no route of clients."""
    try:
        rule, _ = app.url_map.bind("localhost").match(path, method, return_rule=True)
    except HTTPException:
        return ""
    is_documented = is_for_clients(rule.rule) and method in ("GET", "POST")
    return path_of(rule) if is_documented else ""


def _misfit(is_signed: bool, path: str, method: str, response: TestResponse) -> str:
    """In what an answer is not as the document has it; empty: in nothing."""
    known = _made[is_signed]["paths"][path][method]["responses"]
    status, mimetype = str(response.status_code), response.mimetype
    if status not in known:
        return f"HTTP status {status} is not one of {', '.join(known)}: {response.data[:300]!r}"
    if mimetype not in known[status]["content"]:
        return f"{mimetype} is not one of {', '.join(known[status]['content'])}"
    if mimetype != "application/json":
        return ""
    problems = _validator(is_signed, path, method, status).iter_errors(response.json)
    return "; ".join(f"{error.json_path}: {error.message}"[:600] for error in problems)


@cache
def _validator(is_signed: bool, path: str, method: str, status: str) -> Draft202012Validator:
    schema = _made[is_signed]["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]
    return Draft202012Validator({"components": _made[is_signed]["components"], **schema})
