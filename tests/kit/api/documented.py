"""Whether answers are in the OpenAPI document of the server, and a test client that lets no other pass."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema_rs import Draft202012Validator as FastValidator
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.test import TestResponse

from fate_flow.api.http.client_auth import ClientAuth
from fate_flow.api.v1.openapi import document, is_described, path_of

HOW = "say what it answers in @declared above its handler; larger answers are in fate_flow/api/http/shapes.py"


class Documented:
    """One document, and the validators of its answers as they are needed."""

    def __init__(self, found: dict[str, Any]) -> None:
        self._document = found
        self._validator = cache(self._made)
        self._fast_validator = cache(self._fast)

    def misfit(self, method: str, path: str, status: int, mimetype: str, body: bytes) -> str:
        """In what an answer is not as the document has it; empty: in nothing."""
        return self._misfit(self._document["paths"][path][method]["responses"], status, mimetype, body)

    def shared_misfit(self, name: str, status: int, mimetype: str, body: bytes) -> str:
        """As `misfit`, of an answer to what is no operation, by the name that it has in the document."""
        return self._misfit({str(status): self._document["components"]["responses"][name]}, status, mimetype, body)

    def _misfit(self, known: dict[str, Any], status: int, mimetype: str, body: bytes) -> str:
        if str(status) not in known:
            return f"HTTP status {status} is not one of {', '.join(known)}: {body[:300]!r}; {HOW}"
        content = self._resolved(known[str(status)]).get("content")
        if content is None:
            return f"a body that is not to be there: {body[:300]!r}" if body else ""
        if mimetype not in content:
            return f"{mimetype} is not one of {', '.join(content)}; {HOW}"
        if mimetype != "application/json":
            return ""
        answer, schema = json.loads(body), json.dumps(content[mimetype]["schema"])
        if self._fast_validator(schema).is_valid(answer):
            return ""
        problems = [
            f"{cause.json_path}: {cause.message[:600]}"
            for error in self._validator(schema).iter_errors(answer)
            for cause in _causes(error, answer)
        ]
        return "; ".join([*problems, HOW]) if problems else ""

    def _resolved(self, response: dict[str, Any]) -> dict[str, Any]:
        name = response.get("$ref", "").rpartition("/")[2]
        found: dict[str, Any] = self._document["components"]["responses"][name] if name else response
        return found

    def _made(self, schema: str) -> Draft202012Validator:
        return Draft202012Validator(self._whole(schema))

    def _fast(self, schema: str) -> FastValidator:
        """One that is a hundred times as fast, and says less of what is wrong."""
        return FastValidator(self._whole(schema))

    def _whole(self, schema: str) -> dict[str, Any]:
        return {"components": self._document["components"], **json.loads(schema)}


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
        body = response.data if response.mimetype == "application/json" else b""
        described = response.status_code, response.mimetype, body
        path = _path(self.application, request.path, request.method)
        if path.startswith("/"):
            problem = _made[is_signed].misfit(request.method.lower(), path, *described)
        else:
            problem = _made[is_signed].shared_misfit(path, *described) if path and request.method != "HEAD" else ""
        assert not problem, f"{request.method} {request.path}: {problem}"
        return response


def _is_signed(app: Flask) -> bool:
    return any(isinstance(getattr(one, "__self__", None), ClientAuth) for one in app.before_request_funcs.get(None, ()))


def _path(app: Flask, path: str, method: str) -> str:
    """As the document has it, or the name of its answer to what is no operation; empty for what is not v1's."""
    try:
        rule, _ = app.url_map.bind("localhost").match(path, method, return_rule=True)
    except MethodNotAllowed:
        return "MethodNotAllowed" if is_described(path) else ""
    except NotFound:
        return "UnknownPath" if is_described(path) else ""
    except HTTPException:           # a redirect
        return ""
    return path_of(rule) if is_described(rule.rule) else ""
