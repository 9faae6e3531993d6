"""What a server does with each request, seen from inside, and held against its OpenAPI document.

A body that is as the document says is taken, one that is not is refused, no handler reads a key that is not in the
document, and nothing comes up that is no error of ours.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain
from typing import Any

from flask import Response, g, request
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.validators import extend

from fate_flow.api.bodies.uploads import ReceivingRequest
from fate_flow.api.v1.envelope import HttpError
from fate_flow.api.v1.jobs.list_arguments import read_place, time_in
from fate_flow.api.v1.openapi import document, path_of
from fate_flow.api.v1.tables.table_lists import read_table_place
from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.access.fingerprint import read_fingerprint
from fate_flow.core.access.key_list import is_signed_key_list, read_signed_key_list
from fate_flow.core.access.permission import read_things
from fate_flow.core.model.errors import BadRequest, FlowError
from fate_flow.core.model.grammar import check_table_piece
from fate_flow.peers.key_lists import check_key_list
from fate_flow.peers.site_key import read_public_key
from tests.kit.api.client_world import World

_WITH_DOCUMENTS = ("/v1/job/submit", "/v1/job/validate", "/v1/job/parameter/update")
_BEYOND_SCHEMAS = ("file: ", "output_path: ", "address.path: ", "connector_info.path: ")
"""What messages begin with that are about more than a schema can say: files of the machine."""

_formats = FormatChecker(formats=())


@_formats.checks("table-piece", raises=BadRequest)
def _is_table_piece(value: object) -> bool:
    return not isinstance(value, str) or bool(check_table_piece(value, "table_name"))


@_formats.checks("components", raises=BadRequest)
def _are_components(value: object) -> bool:
    return not isinstance(value, (str, list)) or bool(read_things({"component": value}, CATALOGUE))


@_formats.checks("public-key", raises=BadRequest)
def _is_public_key(value: object) -> bool:
    if isinstance(value, str) and is_signed_key_list(value):
        return bool(check_key_list(read_signed_key_list(value)))
    return not isinstance(value, str) or bool(read_public_key(value))


@_formats.checks("fingerprint", raises=BadRequest)
def _is_fingerprint(value: object) -> bool:
    return not isinstance(value, str) or bool(read_fingerprint(value))


@_formats.checks("line")
def _is_line(value: object) -> bool:
    return not isinstance(value, str) or (bool(value.strip()) and value.strip().isprintable())


@_formats.checks("printable")
def _is_printable(value: object) -> bool:
    return not isinstance(value, str) or value.isprintable()


@_formats.checks("day or time", raises=BadRequest)
def _is_day_or_time(value: object) -> bool:
    return not isinstance(value, str) or time_in({"time": value}, "time") is not None


@_formats.checks("place", raises=BadRequest)
def _is_place(value: object) -> bool:
    return not isinstance(value, str) or not value or read_place({"from": value}) is not None


@_formats.checks("place of a table", raises=BadRequest)
def _is_place_of_a_table(value: object) -> bool:
    return not isinstance(value, str) or not value or read_table_place({"from": value}) is not None


@_formats.checks("moment", raises=ValueError)
def _is_moment(value: object) -> bool:
    form = "%Y-%m-%d %H:%M:%S" if " " in str(value) else "%Y-%m-%d"
    return not isinstance(value, str) or bool(datetime.strptime(value, form))


def _is_whole(_: Any, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# JSON has one number for 1 and 1.0; the server takes whole numbers as they are usually written.
_types = Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_whole)
_Validator = extend(Draft202012Validator, type_checker=_types)


NOT_OFFERED = "Not offered: "


class Watched:
    """Hooks in an application that has not been asked yet; `problems` is what they found."""

    def __init__(self, world: World) -> None:
        self.problems: list[str] = []
        self.asked: defaultdict[str, set[str]] = defaultdict(set)      # keys that were read, by operation
        self.taken: set[str] = set()                                   # operations that have worked
        self.document = document(world.app, is_signed=False)
        self.refill: Callable[[], None] | None = None                  # before the first request to each path
        self._path = ""
        self._validators: dict[str, Draft202012Validator] = {}
        self._answer = world.app.error_handler_spec[None][None][FlowError]
        world.app.request_class = type("WatchedRequest", (world.app.request_class,), {"get_json": _get_json})
        world.app.register_error_handler(FlowError, self._note)
        world.app.register_error_handler(Exception, self._fail)
        world.app.before_request(self._begin)
        world.app.after_request(self._check)

    def operations(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """By `POST /v1/...`, those that are offered."""
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                if method != "head" and not operation["summary"].startswith(NOT_OFFERED):
                    yield f"{method.upper()} {path}", operation

    def _begin(self) -> None:
        operation = self._operation()
        if self.refill is not None and operation and schema_of(operation) and request.path != self._path:
            self._path = request.path
            self.refill()

    def _note(self, error: FlowError) -> Response:
        g.refusal = error
        return self._answer(error)

    def _fail(self, error: Exception) -> Response:
        """The envelope would tell a client; here it must not pass for a refusal."""
        self.problems.append(f"{request.method} {request.path} {_sent()!r}: {error!r}")
        return Response(repr(error), 500)

    def _check(self, response: Response) -> Response:
        operation = self._operation()
        if operation is not None:
            label = f"{request.method} {_path()}"
            reads = g.get("reads", set())
            self.asked[label] |= reads
            found = _problems(operation, self._validator(label, operation), reads, response)
            self.problems += [f"{label}: {problem}" for problem in found]
            if _has_worked(response):
                self.taken.add(label)
        return response

    def _validator(self, label: str, operation: dict[str, Any]) -> Draft202012Validator | None:
        """Of the JSON that is sent; None when none is."""
        if label not in self._validators and (schema := schema_of(operation)):
            whole = {**schema, "components": self.document["components"]}
            self._validators[label] = _Validator(whole, format_checker=_formats)
        return self._validators.get(label)

    def _operation(self) -> dict[str, Any] | None:
        if request.url_rule is None or request.method in ("HEAD", "OPTIONS"):
            return None
        found: dict[str, Any] | None = self.document["paths"].get(_path(), {}).get(request.method.lower())
        return found


def _path() -> str:
    assert request.url_rule is not None
    return path_of(request.url_rule)


def _problems(
    operation: dict[str, Any], validator: Draft202012Validator | None, reads: set[str], response: Response
) -> Iterator[str]:
    undeclared = reads - schema_of(operation).get("properties", {}).keys()
    if undeclared:
        yield f"reads {sorted(undeclared)}: name them in needs or takes of @declared above its handler"
    if request.mimetype == "multipart/form-data" or validator is None:
        return
    wrong = next(chain(_wrong_in_headers(operation), _wrong_in_body(validator)), None)
    refusal = g.get("refusal")
    if wrong is not None and _has_worked(response):
        yield f"took {_sent()!r}, which is not as its document says: {wrong}"
    if wrong is None and isinstance(refusal, BadRequest | HttpError) and not _is_beyond_schemas(refusal):
        yield f"refused {_sent()!r}, which is as its document says: {refusal.message}"


def schema_of(operation: dict[str, Any]) -> dict[str, Any]:
    """Of the JSON that is sent; empty when none is."""
    content = operation.get("requestBody", {"content": {}})["content"]
    return dict(content.get("application/json", {}).get("schema", {}))


def _is_beyond_schemas(refusal: FlowError) -> bool:
    is_about_things = isinstance(refusal, HttpError) and refusal.status != 400
    is_about_documents = request.path in _WITH_DOCUMENTS or "this job's components" in refusal.message
    return is_about_things or is_about_documents or refusal.message.startswith(_BEYOND_SCHEMAS)


def _has_worked(response: Response) -> bool:
    if response.status_code != 200:
        return False
    body = response.get_json(silent=True) if response.mimetype == "application/json" else None
    return not isinstance(body, dict) or body.get("retcode", 0) == 0


def _wrong_in_body(validator: Draft202012Validator) -> Iterator[str]:
    try:
        body = json.loads(request.get_data() or b"{}")
    except ValueError as error:
        yield str(error)
        return
    for error in validator.iter_errors(body):
        yield f"{error.json_path}: {error.message}"


def _wrong_in_headers(operation: dict[str, Any]) -> Iterator[str]:
    for one in operation["parameters"]:
        if one["in"] == "header" and one["name"] in request.headers:
            errors = _Validator(one["schema"]).iter_errors(request.headers[one["name"]])
            yield from (f"{one['name']}: {error.message}" for error in errors)


def _sent() -> bytes:
    return request.get_data()[:500]


# ---------------------------------------------------------------------- what is read of a body


def _get_json(self: ReceivingRequest, *args: Any, **kwargs: Any) -> Any:
    found = ReceivingRequest.get_json(self, *args, **kwargs)
    return _Body(found) if isinstance(found, dict) else found


class _Body(dict[str, Any]):
    """Remembers the keys that are asked for by name."""

    def __getitem__(self, key: str) -> Any:
        _read(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        _read(key)
        return super().get(key, default)


def _read(key: str) -> None:
    if "reads" not in g:
        g.reads = set()
    g.reads.add(key)
