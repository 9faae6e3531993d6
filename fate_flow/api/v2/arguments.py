"""Read the arguments of a request of FATE Flow 2's clients: those that the route declares, from the query of a GET, or
from the JSON object or the form of a POST. Other keys are ignored, as FATE Flow 2 does.

A route declares its arguments with `declared(needs=..., takes=...)`, by schemas whose `type` is one type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flask import current_app, request
from werkzeug.datastructures import MultiDict

from fate_flow.api.http.declared import Declaration, Schema, declaration_of
from fate_flow.api.v2.errors import InvalidRequest
from fate_flow.core.model.errors import BadRequest

QUERY, JSON, FORM = "querystring", "json", "form"
"""The places of arguments, as FATE Flow 2 names them in `data` of an invalid request."""

_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")
_YES = frozenset({"t", "true", "on", "y", "yes", "1"})
_NO = frozenset({"f", "false", "off", "n", "no", "0"})


def arguments() -> dict[str, Any]:
    """Return the arguments that the route declares. Raise InvalidRequest for the first that is missing or wrong."""
    if request.method in ("GET", "HEAD"):
        return checked(request.args, QUERY)
    return checked(_body(), JSON)


def checked(given: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return those of these values that the route declares, in their types. Raise InvalidRequest."""
    declaration = _declaration()
    found = {}
    for key, schema in {**declaration.needs, **declaration.takes}.items():
        value = _value(given, key, schema)
        if value is not None:
            found[key] = _typed(place, key, value, schema)
        elif key in declaration.needs:
            raise InvalidRequest(place, key, _NULL if key in given else _MISSING)
    return found


_MISSING, _NULL = "Missing data for required field.", "Field may not be null."


def _declaration() -> Declaration:
    found = declaration_of(current_app.view_functions[request.endpoint or ""])
    if found is None:
        raise LookupError(f"{request.path} does not declare what it takes")
    return found


def _body() -> Mapping[str, Any]:
    """Return the JSON object of the body, whatever its content type; no body is an empty object."""
    if not request.get_data().strip():
        return {}
    try:
        body = request.get_json(force=True, silent=True)
    except RecursionError:       # a few kilobytes of brackets
        body = None
    if body is None:
        raise BadRequest("the body is not JSON")
    if not isinstance(body, dict):
        raise InvalidRequest(JSON, "_schema", "Invalid input type.")
    return body


def _value(given: Mapping[str, Any], key: str, schema: Schema) -> Any:
    if isinstance(given, MultiDict) and schema.get("type") == "array":
        return given.getlist(key) or None
    return given.get(key)


def _typed(place: str, key: str, value: Any, schema: Schema) -> Any:
    kind = schema.get("type")
    if kind is None:
        return value
    try:
        return _READERS[kind](value)
    except ValueError as error:
        raise InvalidRequest(place, key, _WRONG[kind]) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _number(value: Any) -> int:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if type(value) is not int:
        raise ValueError(value)
    return value


def _flag(value: Any) -> bool:
    text = str(value).lower()
    if text not in _YES | _NO:
        raise ValueError(value)
    return text in _YES


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(value)
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(value)
    return value


_READERS = {"string": _text, "integer": _number, "boolean": _flag, "object": _mapping, "array": _list}
_WRONG = {
    "string": "Not a valid string.",
    "integer": "Not a valid integer.",
    "boolean": "Not a valid boolean.",
    "object": "Not a valid mapping type.",
    "array": "Not a valid list.",
}
