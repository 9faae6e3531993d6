"""The OpenAPI document of the routes for clients, `/v1/openapi.json`: made from the routes and their declarations.

The document is the same for all servers of a version, except for whether requests must be signed, and says nothing
about a party. So it is served without authentication: most tools that read such documents cannot sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any

from flask import Blueprint, Flask, Response, current_app
from werkzeug.exceptions import NotFound
from werkzeug.routing import Rule

import fate_flow
from fate_flow.api.http.client_auth import SIGNED_WITH, NotAuthenticated, is_for_clients
from fate_flow.api.http.declared import (
    IGNORED,
    TEXT,
    WARNINGS,
    Declaration,
    Schema,
    a_list,
    an_object,
    declaration_of,
    declared,
    described,
    or_null,
    warns_in_data,
    with_warnings,
)
from fate_flow.api.http.file_routes import leads_to_a_file
from fate_flow.api.http.json_text import to_json
from fate_flow.api.http.request_origin import FORBIDDEN, OtherSite
from fate_flow.api.http.unread import UNREADABLE
from fate_flow.api.v1.envelope import STATUS_OF, STATUS_OF_NO_FILE, UNCAUGHT, retcode_of_kind
from fate_flow.core.access.client_roles import OPEN, names_of
from fate_flow.core.model import errors
from fate_flow.core.model.errors import FlowError, PermissionDenied

PATH = "/v1/openapi.json"
_JSON, _FORM = "application/json", "multipart/form-data"
_METHODS = ("get", "head", "post", "put", "delete", "patch")
_VARIABLE = re.compile(r"<(?:(\w+):)?(\w+)>")

_ABOUT = """The requests that clients may send to one party's server, and all answers that they can get.

An answer is an envelope. `retcode` 0 means success. Any other `retcode` means failure, and `retmsg` says why. As in
FATE Flow, the HTTP status is 200 even for a failure. Exceptions are routes whose 200 means that a file follows, errors
of the server's storage (500), an overloaded server (503, try again) and a body that is too large (413).

`components.responses` has the answers to requests that are no operation of this document. `UnknownPath`: the path is
not in this document; HTTP status 200, as in FATE Flow. `MethodNotAllowed`: the path does not have the method; this
includes OPTIONS and TRACE. `OtherApi`: the path is below `/v2`; HTTP status 200 for every method. Input that is not an
HTTP request gets an answer that every operation lists.

The paths below `/v1/party`, `/v1/initiator`, `/v1/tracker` and `/v1/exchange` are for the servers of other parties.
They are not for clients, and not in this document except for `/v1/party/list`. The workers of tasks use another port,
on loopback only.

Keys of a body that this document does not name are ignored. The answer names them in `warnings`: in `data`, or beside a
`data` that is a list or whose keys are names. The native job file is stricter: unknown keys are refused. A body that is
not a JSON object is refused; a missing body counts as an empty object. Whole numbers are written without a fraction.
"""


class Undeclared(LookupError):
    """Routes for clients without a declaration."""


def blueprint(is_signed: bool) -> Blueprint:
    found = Blueprint("openapi", __name__)

    @cache
    def text() -> str:
        return to_json(document(current_app, is_signed=is_signed))

    @found.get(PATH)
    @declared("This document.", OPEN, file=_JSON, content={"type": "object", "required": ["openapi", "paths"]})
    def openapi() -> Response:
        return Response(text(), mimetype=_JSON)

    return found


def is_described(path: str) -> bool:
    """Return whether a route is for clients, and not below `/v2`."""
    return is_for_clients(path) and not f"{path}/".startswith("/v2/")


def document(app: Flask, *, is_signed: bool) -> dict[str, Any]:
    """Return the document of all routes for clients. Raise Undeclared."""
    routes = [(rule, _view(app, rule)) for rule in app.url_map.iter_rules() if is_described(rule.rule)]
    undeclared = sorted(f"{view.__qualname__} ({rule.rule})" for rule, view in routes if declaration_of(view) is None)
    if undeclared:
        raise Undeclared(
            f"{', '.join(undeclared)}: write above the handler @declared(\"What it does.\", "
            "needs={...}, takes={...}, data=...), see fate_flow/api/http/declared.py"
        )
    paths: dict[str, dict[str, Any]] = {}
    for rule, view in sorted(routes, key=lambda route: route[0].rule):
        for method in _METHODS:
            if method.upper() in (rule.methods or ()):
                paths.setdefault(path_of(rule), {})[method] = _operation(rule, method, view, is_signed)
    components: dict[str, Any] = {}
    found = {
        "openapi": "3.1.0",
        "info": {"title": "fate_flow", "version": fate_flow.__version__, "description": _ABOUT},
        "paths": _hoisted(paths, components),
    }
    shared = _hoisted(_shared_responses(), components)
    found["components"] = {"schemas": dict(sorted(components.items())), "responses": shared}
    if is_signed:
        found["components"]["securitySchemes"] = {
            name: {"type": "apiKey", "in": "header", "name": name} for name in SIGNED_WITH
        }
        found["security"] = [{name: [] for name in SIGNED_WITH}]
        found["paths"][PATH]["get"]["security"] = []
    return found


def _view(app: Flask, rule: Rule) -> Callable[..., Any]:
    return app.view_functions[rule.endpoint]


def path_of(rule: Rule) -> str:
    return _VARIABLE.sub(r"{\2}", rule.rule)


# ---------------------------------------------------------------------- one operation


def _operation(rule: Rule, method: str, view: Callable[..., Any], is_signed: bool) -> dict[str, Any]:
    declaration = declaration_of(view)
    assert declaration is not None, rule
    path = path_of(rule)
    name = re.sub(r"\W+", "_", path.removeprefix("/v1")).strip("_")
    found: dict[str, Any] = {
        "operationId": f"{name}_{method}",
        "tags": [name.partition("_")[0]],
        "summary": declaration.what,
        **_roles(declaration, is_signed),
        "parameters": [*_in_path(rule), *_in_headers(declaration)],
        "responses": dict(_responses(declaration, leads_to_a_file(view), is_signed and bool(declaration.roles))),
    }
    for status in (FORBIDDEN, *UNREADABLE):
        found["responses"].setdefault(str(status), {"$ref": f"#/components/responses/{_shared_name(status)}"})
    if method == "head":
        found["responses"] = {status: {"description": "Like GET, without a body."} for status in found["responses"]}
    if (body := _body(declaration)) and (method not in ("get", "head") or declaration.needs or declaration.either):
        found["requestBody"] = body
    return found


def _roles(declaration: Declaration, is_signed: bool) -> dict[str, str]:
    """Return the description with the client roles that suffice, if clients sign."""
    names = " or ".join(names_of(declaration.roles))
    return {"description": f"Client role: {names}."} if is_signed and names else {}


def _in_path(rule: Rule) -> Iterator[dict[str, Any]]:
    for converter, name in _VARIABLE.findall(rule.rule):
        schema: Schema = {"type": "string", "minLength": 1}
        text = "The rest of the path." if converter == "path" else f"The {name}."
        yield {"name": name, "in": "path", "required": True, "schema": schema, "description": text}


def _in_headers(declaration: Declaration) -> Iterator[dict[str, Any]]:
    for name, schema in declaration.headers.items():
        yield {"name": name, "in": "header", "required": False, "schema": schema}


def _body(declaration: Declaration) -> dict[str, Any] | None:
    """Return the description of the body; other keys are always allowed."""
    if declaration.never:
        return None
    is_needed = bool(declaration.needs or declaration.either)
    schema: dict[str, Any] = {
        "type": "object" if is_needed else ["object", "null"],
        "properties": {**{key: or_null(one) for key, one in declaration.takes.items()}, **declaration.needs},
        "additionalProperties": {"description": "Ignored, and named in warnings."},
    }
    if declaration.needs:
        schema["required"] = list(declaration.needs)
    if declaration.either:
        schema["anyOf"] = list(declaration.either)
    content = {_JSON: {"schema": schema}}
    if declaration.form:
        needed = [*declaration.form, *(key for key in declaration.needs if key not in declaration.form)]
        fields = {**schema["properties"], **declaration.form}
        content[_FORM] = {"schema": {"type": "object", "properties": fields, "required": needed}}
    return {"required": is_needed, "content": content}


# ---------------------------------------------------------------------- its answers


def _responses(declaration: Declaration, is_file: bool, is_signed: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    if declaration.never:
        statuses = {403: _meaning(PermissionDenied)} if is_file and is_signed else {}
        if is_file:
            statuses[declaration.never] = "Not offered, whatever the body."
        else:
            refused = [retcode_of_kind(PermissionDenied), retcode_of_kind(NotAuthenticated)] if is_signed else []
            retcodes = [declaration.never, *refused]
            yield "200", _envelope("Not offered, whatever the body.", _failure(declaration, retcodes))
    else:
        yield "200", _success(declaration, is_file)
        statuses = (
            {status: _meaning(kind) for kind, status in STATUS_OF.items()} if is_file or not declaration.file else {}
        )
        if is_file:
            statuses.update({status: _meaning(kind) for kind, status in STATUS_OF_NO_FILE.items()})
    if is_signed or not declaration.never:
        statuses[413] = "The body is larger than the server's limit."
    for status, text in sorted({**statuses, **declaration.also}.items()):
        yield str(status), _envelope(text, _error(status))


def _shared_responses() -> dict[str, Any]:
    """Return the answers that are the same for all operations, and those to requests that are no operation."""
    unknown = an_object({"retcode": {"const": UNCAUGHT}, "retmsg": {"const": repr(NotFound())}})
    allow = {"description": "The methods that the path has.", "required": True, "schema": TEXT}
    return {
        "UnknownPath": _envelope("There is no such path. The HTTP status is 200.", unknown),
        "MethodNotAllowed": {
            **_envelope("The path does not have this method. The HTTP status is 405.", _error(405)),
            "headers": {"Allow": allow},
        },
        **{
            _shared_name(status): _envelope(text, _error(status))
            for status, text in {FORBIDDEN: _meaning(OtherSite), **UNREADABLE}.items()
        },
    }  # fmt: skip


def _shared_name(status: int) -> str:
    return HTTPStatus(status).phrase.title().replace("-", "").replace(" ", "")


def _meaning(kind: type[FlowError]) -> str:
    return (kind.__doc__ or "").partition("\n")[0].strip()


def _success(declaration: Declaration, is_file: bool) -> dict[str, Any]:
    if not declaration.file:
        return _envelope(
            "Success, or a failure with its reason.", {"anyOf": [_ok(declaration), _failure(declaration, _retcodes())]}
        )
    content = {declaration.file: {"schema": dict(declaration.content)} if declaration.content else {}}
    if is_file and declaration.data is not None:
        shapes = [one for one in (_ok(declaration), declaration.content) if one]
        content[_JSON] = {"schema": {"anyOf": shapes}}
    return {"description": "The file.", "content": content}


def _ok(declaration: Declaration) -> Schema:
    data, aside = {} if declaration.data is None else {"data": declaration.data}, declaration.aside
    if not warns_in_data(declaration):
        aside = {**aside, WARNINGS: a_list(TEXT, description=IGNORED)}
    elif declaration.data is not None:
        data = {"data": with_warnings(declaration.data)}
    elif "data" not in aside:
        aside = {**aside, "data": with_warnings(None)}
    properties = {"retcode": {"const": 0}, "retmsg": TEXT, **data, **declaration.beside}
    return an_object(properties, aside)


def _failure(declaration: Declaration, retcodes: list[int]) -> Schema:
    if declaration.relays:
        text = "A failure; another party's answer is passed on unchanged."
        retcode: Schema = {"type": "integer", "not": {"const": 0}}
        return an_object({"retcode": retcode, "retmsg": TEXT}, {"data": {}}, title="RelayedFailure", description=text)
    optional = {**declaration.aside, **({} if declaration.refused is None else {"data": declaration.refused})}
    known = retcodes == _retcodes() and not optional
    return an_object(
        {"retcode": {"enum": retcodes}, "retmsg": described({**TEXT, "minLength": 1}, "Why, and what would be right.")},
        optional, **({"title": "Failure", "description": _meanings()} if known else {}),
    )  # fmt: skip


def _error(status: int) -> Schema:
    return an_object({"retcode": {"const": status}, "retmsg": {**TEXT, "minLength": 1}}, title=f"Error{status}")


def _envelope(text: str, schema: Schema) -> dict[str, Any]:
    return {"description": text, "content": {_JSON: {"schema": schema}}}


@cache
def _kinds() -> dict[int, str]:
    """Return the retcodes of errors with HTTP status 200, and their meanings."""
    found: dict[int, set[str]] = {}
    kinds: list[type[FlowError]] = [*_errors(), NotAuthenticated]
    for kind in kinds:
        if not issubclass(kind, tuple(STATUS_OF)):
            found.setdefault(retcode_of_kind(kind), set()).add(_meaning(kind))
    return {retcode: " ".join(sorted(text)) for retcode, text in sorted(found.items())}


def _errors() -> Iterator[type[FlowError]]:
    for one in vars(errors).values():
        if isinstance(one, type) and issubclass(one, FlowError):
            yield one


def _retcodes() -> list[int]:
    return list(_kinds())


def _meanings() -> str:
    return "\n".join(f"{retcode}: {text}" for retcode, text in _kinds().items())


# ---------------------------------------------------------------------- components


def _hoisted(value: Any, components: dict[str, Any]) -> Any:
    """Return the value with each titled schema moved to `components` and replaced by a reference."""
    if isinstance(value, Mapping):
        found = {key: _hoisted(one, components) for key, one in value.items()}
        title = found.get("title")
        if not isinstance(title, str):
            return found
        if components.setdefault(title, found) != found:
            raise ValueError(f"two schemas have the title {title}")
        return {"$ref": f"#/components/schemas/{title}"}
    return [_hoisted(one, components) for one in value] if isinstance(value, (list, tuple)) else value
