"""What a route takes and answers, said above its handler. `openapi.py` makes the document for clients of these.

Schemas are JSON Schema as OpenAPI 3.1 has it. One with a `title` is written once in the document, and referred to.

Keys of a body that nothing here names are ignored, and the answer of what worked names them: `warnings` in `data`, or
beside a `data` that has no room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fate_flow.core.model.grammar import shown_key

Schema = Mapping[str, Any]
Arguments = dict[str, Schema]
"""The schemas of some keys."""

V = TypeVar("V", bound=Callable[..., Any])
_KEY = "declaration"


@dataclass(frozen=True)
class Declaration:
    """One route, for those who call it."""

    what: str                                           # it does, in a sentence
    needs: Arguments = field(default_factory=dict)      # keys of the body; they are refused as missing when null
    takes: Arguments = field(default_factory=dict)      # keys that may be left out, or null
    either: tuple[Schema, ...] = ()                     # of which keys some are needed
    form: Arguments = field(default_factory=dict)       # keys of a form beside those: files
    idle: Collection[str] = ()                          # keys that FATE's clients send here, to no effect
    headers: Arguments = field(default_factory=dict)
    data: Schema | None = None                          # of what worked; None: there is none
    beside: Arguments = field(default_factory=dict)     # keys beside `data` when it worked
    aside: Arguments = field(default_factory=dict)      # those that may be there, whether it worked or not
    refused: Schema | None = None                       # `data` that a refusal may bring
    relays: bool = False                                # another party's refusals come through as they are
    file: str = ""                                      # its media type: HTTP 200 brings a file, or may
    content: Schema = field(default_factory=dict)       # of that file, where it is JSON
    also: Mapping[int, str] = field(default_factory=dict)   # HTTP statuses of its own, and when
    never: int = 0                                      # not offered: the retcode that says so, whatever is asked


def declared(what: str, **more: Any) -> Callable[[V], V]:
    """Marks a handler with a `Declaration` of these fields."""
    declaration = Declaration(what, **more)

    def mark(view: V) -> V:
        view.__dict__[_KEY] = declaration
        return view

    return mark


def declaration_of(view: Callable[..., Any]) -> Declaration | None:
    found = getattr(view, _KEY, None)
    return found if isinstance(found, Declaration) else None


# ---------------------------------------------------------------------- keys that are not known

WARNINGS = "warnings"
_OF_EVERY_COMMAND = ("conf_path", "dsl_path", "output_path", "local")
"""FATE's clients send these with any command that has such an option."""


def unknown_keys(declaration: Declaration, body: Mapping[str, Any]) -> Iterator[str]:
    """What of a body no route reads, as text; where a schema has the keys of an object, in that object too."""
    known = {
        **dict.fromkeys((*_OF_EVERY_COMMAND, *declaration.idle), ANYTHING),
        **declaration.form,
        **declaration.takes,
        **declaration.needs,
    }
    return _unknown([{"properties": known}, *declaration.either], body, "")


def reads_a_body(declaration: Declaration) -> bool:
    """Whether its handler looks at what is sent."""
    return bool(declaration.needs or declaration.takes)


def warns_in_data(declaration: Declaration) -> bool:
    """Whether `warnings` stands in `data`: there is none, or it is an object whose keys are all declared."""
    return declaration.data is None or _has_its_keys(declaration.data)


def with_warnings(schema: Schema | None) -> Schema:
    """That of a `data` in which warnings may stand."""
    found = schema or an_object({})
    if WARNINGS in found["properties"]:
        return found
    properties = {**found["properties"], WARNINGS: a_list(TEXT, description=IGNORED)}
    return {**{key: one for key, one in found.items() if key != "title"}, "properties": properties}


def _unknown(schemas: Iterable[Schema], value: Any, path: str) -> Iterator[str]:
    """The keys that none of these knows; all may describe the value, or one of them does."""
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
    """With those that they have to choose from."""
    for schema in schemas:
        yield schema
        yield from _ways(schema.get("anyOf", ()))


def _names_keys(schema: Schema) -> bool:
    return bool(schema.get("properties") or "additionalProperties" in schema)


def _inside(schemas: Iterable[Schema], key: str) -> Iterator[Schema]:
    """What they say of this key; nothing where none of them knows it."""
    for schema in schemas:
        others = schema.get("additionalProperties")
        if key in schema.get("properties", ()):
            yield schema["properties"][key]
        elif isinstance(others, Mapping):
            yield others


def _has_its_keys(schema: Schema) -> bool:
    return schema.get("type") == "object" and schema.get("additionalProperties") is False


# ---------------------------------------------------------------------- words for schemas

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
YES_NO: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
NOTHING: Schema = {"type": "null"}
FREE: Schema = {"type": "object"}
DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "SHA-256 of dsl and runtime_conf."}
TIME: Schema = {"type": "integer", "minimum": 0, "description": "Milliseconds since 1970."}
IGNORED = "Keys that the server does not know, which it ignored, and the like."


def an_object(properties: Arguments, optional: Arguments | None = None, **more: Any) -> Schema:
    """With all of these keys, perhaps the optional ones, and no others."""
    return {
        "type": "object", "properties": {**properties, **(optional or {})}, "required": sorted(properties),
        "additionalProperties": False, **more,
    }  # fmt: skip


def a_list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def by_name(values: Schema, **more: Any) -> Schema:
    """An object whose keys are data."""
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
