"""What a route takes and answers, said above its handler. `openapi.py` makes the document for clients of these.

Schemas are JSON Schema as OpenAPI 3.1 has it. One with a `title` is written once in the document, and referred to.

Keys of a body that nothing here names are ignored, and the answer of what worked names them: `warnings` in `data`, or
beside a `data` that has no room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fate_flow.core.grammar import shown_key

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


def unknown_keys(told: Declaration, body: Mapping[str, Any]) -> Iterator[str]:
    """What of a body no route reads, in words; where a schema has the keys of an object, in that object too."""
    known = {**dict.fromkeys((*_OF_EVERY_COMMAND, *told.idle), ANYTHING), **told.form, **told.takes, **told.needs}
    ways = [{**known, **way.get("properties", {})} for way in told.either] or [known]
    found = [tuple(_unknown({"properties": way}, body, "")) for way in ways]
    yield from (one for one in found[0] if all(one in others for others in found[1:]))      # known in none


def warns_in_data(told: Declaration) -> bool:
    """Whether `warnings` stands in `data`: there is none, or it is an object whose keys are all declared."""
    return told.data is None or _has_its_keys(told.data)


def with_warnings(schema: Schema | None) -> Schema:
    """That of a `data` in which warnings may stand."""
    found = schema or an_object({})
    if WARNINGS in found["properties"]:
        return found
    properties = {**found["properties"], WARNINGS: a_list(TEXT, description=IGNORED)}
    return {**{key: one for key, one in found.items() if key != "title"}, "properties": properties}


def _unknown(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        return
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for key, one in value.items():
        place = f"{path}{shown_key(key)}"
        if key in known or others:
            yield from _unknown(known.get(key, others), one, f"{place}.")
        elif known or others is False:
            yield f"{place}: is not known; it is ignored"


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


def one_of(words: Collection[str], **more: Any) -> Schema:
    return {"type": "string", "enum": sorted(words), **more}


def one_or_several(one: Schema, **more: Any) -> Schema:
    return {"anyOf": [one, a_list(one)], **more}


def described(schema: Schema, words: str) -> Schema:
    return {**schema, "description": words}


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
