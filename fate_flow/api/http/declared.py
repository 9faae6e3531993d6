"""Declarations above the handlers of routes: what a route takes and answers. `openapi.py` makes the OpenAPI document.

Schemas are JSON Schema as in OpenAPI 3.1. A schema with a `title` is written once in the document, and referenced.

Keys of a body that no declaration names are ignored, and a successful answer names them: in `warnings` in `data`, or
beside a `data` that has no place for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fate_flow.core.access.client_roles import ClientRole
from fate_flow.core.model.grammar import shown_key

Schema = Mapping[str, Any]
Arguments = dict[str, Schema]
"""The schemas of some keys."""

V = TypeVar("V", bound=Callable[..., Any])
_KEY = "declaration"


@dataclass(frozen=True)
class Declaration:
    """The contract of one route, for its callers."""

    what: str                                           # what the route does, in a sentence
    roles: ClientRole                                   # the client roles that suffice, one of them; OPEN: none needed
    needs: Arguments = field(default_factory=dict)      # required keys of the body; null counts as missing
    takes: Arguments = field(default_factory=dict)      # optional keys; null counts as left out
    either: tuple[Schema, ...] = ()                     # alternatives, of which the body must match one
    form: Arguments = field(default_factory=dict)       # additional keys of a form: files
    idle: Collection[str] = ()                          # keys that FATE's clients send here, without effect
    headers: Arguments = field(default_factory=dict)
    data: Schema | None = None                          # `data` of a success; None: there is none
    beside: Arguments = field(default_factory=dict)     # keys beside `data` of a success
    aside: Arguments = field(default_factory=dict)      # keys that may be there in a success and in a failure
    refused: Schema | None = None                       # `data` that a refusal may have
    relays: bool = False                                # refusals of another party are passed on unchanged
    file: str = ""                                      # media type, if HTTP 200 brings a file, or may bring one
    content: Schema = field(default_factory=dict)       # schema of that file, if it is JSON
    also: Mapping[int, str] = field(default_factory=dict)   # additional HTTP statuses, and when they occur
    never: int = 0                                      # not offered: the code of every answer


def declared(what: str, roles: ClientRole, **more: Any) -> Callable[[V], V]:
    """Return a decorator that marks a handler with a `Declaration` of these fields."""
    declaration = Declaration(what, roles, **more)

    def mark(view: V) -> V:
        view.__dict__[_KEY] = declaration
        return view

    return mark


def declaration_of(view: Callable[..., Any]) -> Declaration | None:
    found = getattr(view, _KEY, None)
    return found if isinstance(found, Declaration) else None


# ---------------------------------------------------------------------- unknown keys

WARNINGS = "warnings"
_OF_EVERY_COMMAND = ("conf_path", "dsl_path", "output_path", "local")
"""FATE's clients send these with any command that has such an option."""


def unknown_keys(declaration: Declaration, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield a text for each key of a body that the route does not read, also in objects whose keys a schema names."""
    known = {
        **dict.fromkeys((*_OF_EVERY_COMMAND, *declaration.idle), ANYTHING),
        **declaration.form,
        **declaration.takes,
        **declaration.needs,
    }
    return _unknown([{"properties": known}, *declaration.either], body, "")


def reads_a_body(declaration: Declaration) -> bool:
    """Return whether the handler reads the body."""
    return bool(declaration.needs or declaration.takes)


def warns_in_data(declaration: Declaration) -> bool:
    """Return whether `warnings` is in `data`: if there is no `data`, or it is an object whose keys are all declared."""
    return declaration.data is None or _has_its_keys(declaration.data)


def with_warnings(schema: Schema | None) -> Schema:
    """Return the schema of a `data` that may have warnings."""
    found = schema or an_object({})
    if WARNINGS in found["properties"]:
        return found
    properties = {**found["properties"], WARNINGS: a_list(TEXT, description=IGNORED)}
    return {**{key: one for key, one in found.items() if key != "title"}, "properties": properties}


def _unknown(schemas: Iterable[Schema], value: Any, path: str) -> Iterator[str]:
    """Yield the keys that none of these schemas names; all may describe the value, or one of them."""
    ways = list(_ways(schemas))
    if isinstance(value, list):
        of_each = [way["items"] for way in ways if "items" in way]
        for place, one in enumerate(value):
            yield from _unknown(of_each, one, f"{path.removesuffix('.')}[{place}].")
    elif isinstance(value, Mapping):
        named = [way for way in ways if _names_keys(way)]
        for key, one in value.items():
            inside = list(_inside(named, key))
            yield from _unknown(inside, one, f"{path}{shown_key(key)}.")
            if named and not inside:
                yield f"{path}{shown_key(key)}: is not known; it is ignored"


def _ways(schemas: Iterable[Schema]) -> Iterator[Schema]:
    """Yield the schemas, and those of their `anyOf`."""
    for schema in schemas:
        yield schema
        yield from _ways(schema.get("anyOf", ()))


def _names_keys(schema: Schema) -> bool:
    return bool(schema.get("properties") or "additionalProperties" in schema)


def _inside(schemas: Iterable[Schema], key: str) -> Iterator[Schema]:
    """Yield their schemas of this key; nothing if none of them knows it."""
    for schema in schemas:
        others = schema.get("additionalProperties")
        if key in schema.get("properties", ()):
            yield schema["properties"][key]
        elif isinstance(others, Mapping):
            yield others


def _has_its_keys(schema: Schema) -> bool:
    return schema.get("type") == "object" and schema.get("additionalProperties") is False


# ---------------------------------------------------------------------- shorthands for schemas

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
YES_NO: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
NOTHING: Schema = {"type": "null"}
FREE: Schema = {"type": "object"}
DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "SHA-256 of the document."}
TIME: Schema = {"type": "integer", "minimum": 0, "description": "Milliseconds since 1970."}
IGNORED = "Warnings, such as keys that the server does not know and ignored."


def an_object(properties: Arguments, optional: Arguments | None = None, **more: Any) -> Schema:
    """Return the schema of an object with all of these keys, perhaps the optional ones, and no others."""
    return {
        "type": "object", "properties": {**properties, **(optional or {})}, "required": sorted(properties),
        "additionalProperties": False, **more,
    }  # fmt: skip


def a_list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def by_name(values: Schema, **more: Any) -> Schema:
    """Return the schema of an object whose keys are data."""
    return {"type": "object", "additionalProperties": values, **more}


def one_of(text: Collection[str], **more: Any) -> Schema:
    return {"type": "string", "enum": sorted(text), **more}


def one_or_several(one: Schema, **more: Any) -> Schema:
    return {"anyOf": [one, a_list(one)], **more}


def described(schema: Schema, text: str) -> Schema:
    return {**schema, "description": text}


def or_null(schema: Schema) -> Schema:
    if not schema:
        return schema
    if "type" not in schema or "title" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "null" in kinds:
        return schema
    found = {**schema, "type": [*kinds, "null"]}
    return {**found, "enum": [*schema["enum"], None]} if "enum" in schema else found
