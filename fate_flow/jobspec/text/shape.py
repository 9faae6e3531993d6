"""Check a file against its JSON Schema, with messages for people: the path, the value, and what would be right.

jsonschema-rs finds the errors. Its own messages are for programmers, so this module writes them anew, with the
schema's `patternErrorMessage` for a pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fate_flow.core.model.grammar import shown
from fate_flow.jobspec.text.document import Node
from fate_flow.jobspec.text.json_schema import Schema

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator


class Shape:
    """What a JSON Schema allows. It is compiled at the first check: with its library it takes 7 MB, so only a process
    that checks a file has it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def check(self, file: Node) -> None:
        """Add a problem for each part of the file that the schema does not allow."""
        paths: set[str] = set()
        for error in self._validator.iter_errors(file.value):
            node = file
            for step in error.instance_path:
                # The library gives a key of digits, such as that of a party, as a number.
                node = node.element(int(step)) if isinstance(node.value, list) else node.at(str(step))
            _add(node, error, self._schema, paths)

    @cached_property
    def _validator(self) -> Validator:
        from jsonschema_rs import Draft202012Validator

        return Draft202012Validator(dict(self._schema), offline=True)


def _add(node: Node, error: ValidationError, root: Schema, paths: set[str]) -> None:
    """Add a problem for an error. `paths`: values that have one, since 0.5 is neither a whole number nor at least 1."""
    keyword, found = error.kind.name, error.kind.as_dict()
    schema = _schema_at(root, error.schema_path[:-1])
    if keyword == "required":
        node.at(found["property"]).wrong("is missing")
    elif keyword == "additionalProperties":
        for key in found["unexpected"]:
            if "patternProperties" in schema:
                node.at(key).wrong(MESSAGES["pattern"](key, schema))
            else:
                node.at(key).unknown(key, schema["properties"])
    elif keyword == "uniqueItems":
        _add_repeated(node)
    elif node.path not in paths:
        paths.add(node.path)
        node.wrong(MESSAGES[keyword](node.value, schema))


def _schema_at(root: Schema, path: list[str | int]) -> Schema:
    found: Any = root
    for step in path:
        found = found[step]
    return found  # type: ignore[no-any-return]


def _add_repeated(node: Node) -> None:
    seen: set[object] = set()
    for one in node.elements():
        if isinstance(one.value, (int, float, str)):      # other values are wrong in such lists anyway
            if one.value in seen:
                one.wrong(f"{shown(one.value)} is there twice")
            seen.add(one.value)


def _type_message(value: object, schema: Schema) -> str:
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    return f"{shown(value)} is not {' or '.join(_KINDS[kind] for kind in kinds)}"


def _enum_message(value: object, schema: Schema) -> str:
    known = ", ".join(map(str, schema["enum"]))
    return f"{shown(value)} is not one of {known}" if len(schema["enum"]) > 1 else f"{shown(value)} is not {known}"


_KINDS = {
    "object": "an object", "array": "a list", "string": "text", "boolean": "true or false", "number": "a number",
    "integer": "a whole number",
}  # fmt: skip
MESSAGES: Mapping[str, Callable[[Any, Schema], str]] = {
    "type": _type_message,
    "enum": _enum_message,
    "pattern": lambda value, schema: f"{shown(value)} {schema['patternErrorMessage']}",
    "minimum": lambda value, schema: f"{shown(value)} is less than {schema['minimum']}",
    "maximum": lambda value, schema: f"{shown(value)} is more than {schema['maximum']}",
    "maxLength": lambda value, schema: f"has {len(value)} characters, {schema['maxLength']} is the most",
    **dict.fromkeys(("minLength", "minItems", "minProperties"), lambda _value, _schema: "is empty"),
}
"""The text about a wrong value, by the keyword that it violates; the other keywords are about keys or elements."""
