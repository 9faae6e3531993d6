"""Check values against a JSON Schema, with messages for people: the path, the value, and what would be right.

This supports the part of JSON Schema that `schema.py` uses, with its meaning: a keyword applies only to values of its
own type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fate_flow.core.model.grammar import shown
from fate_flow.jobspec.text.document import Node


def check_shape(node: Node, schema: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    """Add a problem for each part of the value that the schema does not allow; `root` has the `$defs`."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for check in (_check_value, _check_text, _check_number):
        problem = check(node.value, schema)
        if problem:
            node.wrong(problem)
            return
    if isinstance(node.value, Mapping):
        _check_object(node, schema, root)
    elif isinstance(node.value, list):
        _check_list(node, schema, root)


def _check_value(value: object, schema: Mapping[str, Any]) -> str:
    if "enum" in schema and not any(_is_same(value, one) for one in schema["enum"]):
        known = ", ".join(map(str, schema["enum"]))
        return f"{shown(value)} is not one of {known}" if len(schema["enum"]) > 1 else f"{shown(value)} is not {known}"
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if kinds and not any(_IS[kind](value) for kind in kinds):
        return f"{shown(value)} is not {' or '.join(_TEXT[kind] for kind in kinds)}"
    return ""


def _check_text(value: object, schema: Mapping[str, Any]) -> str:
    if not isinstance(value, str):
        return ""
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        most = schema.get("maxLength")
        return f"has {len(value)} characters, {most} is the most" if most else "is empty"
    if "pattern" in schema and not _compiled(schema["pattern"]).fullmatch(value):
        return f"{shown(value)} {schema['patternErrorMessage']}"
    return ""


def _check_number(value: object, schema: Mapping[str, Any]) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    if "minimum" in schema and value < schema["minimum"]:
        return f"{shown(value)} is less than {schema['minimum']}"
    if "maximum" in schema and value > schema["maximum"]:
        return f"{shown(value)} is more than {schema['maximum']}"
    return ""


def _check_object(node: Node, schema: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for key in schema.get("required", ()):
        if key not in node.value:
            node.at(key).wrong("is missing")
    if len(node.value) < schema.get("minProperties", 0):
        node.wrong("is empty")
    for key, inside in node.members().items():
        problem = _check_text(key, schema["propertyNames"]) if "propertyNames" in schema else ""
        if problem:
            inside.wrong(problem)
        elif key in known:
            check_shape(inside, known[key], root)
        elif others is False:
            inside.unknown(key, known)
        elif others is not True:
            check_shape(inside, others, root)


def _check_list(node: Node, schema: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    elements = node.elements()
    if len(elements) < schema.get("minItems", 0):
        node.wrong("is empty")
    seen: set[object] = set()
    for one in elements:
        if schema.get("uniqueItems") and isinstance(one.value, (int, float, str)):      # no other values in such lists
            if one.value in seen:
                one.wrong(f"{shown(one.value)} is there twice")
            seen.add(one.value)
        check_shape(one, schema.get("items", {}), root)


def _is_same(value: object, other: object) -> bool:
    """Return whether two JSON values are equal: true is not 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


_compiled = cache(re.compile)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_IS: Mapping[str, Callable[[object], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == int(value),  # type: ignore[call-overload]  # a number
}
_TEXT = {
    "object": "an object", "array": "a list", "string": "text", "boolean": "true or false", "number": "a number",
    "integer": "a whole number",
}  # fmt: skip
