"""Whether answers are in the OpenAPI document of the server, and a test client that lets no other pass."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from werkzeug.exceptions import HTTPException
from werkzeug.test import TestResponse

from fate_flow.api.client_auth import ClientAuth, is_for_clients
from fate_flow.api.openapi import document, path_of

HOW = "say what it answers in @declared above its handler; larger answers are in fate_flow/api/shapes.py"


class Documented:
    """One document, and the validators of its answers as they are needed."""

    def __init__(self, found: dict[str, Any]) -> None:
        self._document = found
        self._validator = cache(self._made)

    def misfit(self, method: str, path: str, status: int, mimetype: str, body: bytes) -> str:
        """In what an answer is not as the document has it; empty: in nothing."""
        known = self._document["paths"][path][method]["responses"]
        if str(status) not in known:
            return f"HTTP status {status} is not one of {', '.join(known)}: {body[:300]!r}; {HOW}"
        content = known[str(status)]["content"]
        if mimetype not in content:
            return f"{mimetype} is not one of {', '.join(content)}; {HOW}"
        if mimetype != "application/json":
            return ""
        answer = json.loads(body)
        problems = [
            f"{cause.json_path}: {cause.message[:600]}"
            for error in self._validator(method, path, str(status)).iter_errors(answer)
            for cause in _causes(error, answer)
        ]
        return "; ".join([*problems, HOW]) if problems else ""

    def _made(self, method: str, path: str, status: str) -> Draft202012Validator:
        schema = self._document["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]
        return Draft202012Validator({"components": self._document["components"], **schema})


def _causes(error: ValidationError, answer: Any) -> list[ValidationError]:
    """Of two forms of an answer, what is wrong with the one that is meant."""
    is_refusal = isinstance(answer, dict) and answer.get("retcode") != 0
    meant = [cause for cause in error.context or () if cause.schema_path[0] == int(is_refusal)]
    return meant or [error]


# ---------------------------------------------------------------------- a client of an application in this process

_made: dict[bool, Documented] = {}
"""By whether clients sign: the document of the first such application. It is the same for all, and takes a while."""


class DocumentedClient(FlaskClient):
    """As Flask's own, for the routes of clients."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        response = super().open(*args, **kwargs)
        request, is_signed = response.request, _is_signed(self.application)
        if is_signed not in _made:
            _made[is_signed] = Documented(document(self.application, is_signed=is_signed))
        path = _path(self.application, request.path, request.method)
        if path:
            body = response.data if response.mimetype == "application/json" else b""
            told = response.status_code, response.mimetype, body
            problem = _made[is_signed].misfit(request.method.lower(), path, *told)
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
