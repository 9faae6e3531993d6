"""Read the text of a user's file, such as a job file: a safe subset of YAML, to JSON values and the line of each.

An unquoted `no`, `on`, `010`, `12:30` or date is text, as in YAML 1.2. Tags, merge keys and repeated keys are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown, shown_key
from fate_flow.jobspec.text.document import MAX_DEPTH, MAX_TEXT, MAX_VALUES

MAX_CHARACTERS = MAX_TEXT
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)      # ten times faster, but not in every build
_LONGEST_NUMBER = 40

_TEXT: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


@dataclass
class Reading:
    """The value of a text, and the line (from 1) of each path in it."""

    value: Any = None
    lines: dict[str, int] = field(default_factory=dict)


def read_yaml(text: str, called: str = "job_file") -> Reading:
    """Return the value of a YAML text. Raise BadRequest with the line of the error; `called`: its first word."""
    if len(text) > MAX_CHARACTERS:
        raise BadRequest(f"{called}: has {len(text)} characters, {MAX_CHARACTERS} is the most")
    try:
        return _Builder(yaml.parse(text, Loader=_LOADER), called).reading()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise BadRequest(f"{called}: {where}{error.problem or error.context}") from error
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise BadRequest(f"{called}: is not YAML: {' '.join(str(error).split())[:200]}") from error


class _Builder:
    """Build values from the events of a YAML parser; the values of aliases are shared, not copied."""

    def __init__(self, events: Iterator[Any], called: str) -> None:
        self._events = events
        self._called = called
        self._anchors: dict[str, Any] = {}
        self._reading = Reading()
        self._values = 0

    def reading(self) -> Reading:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if self._reading.lines:
                    raise self._wrong(event, "a second document begins; a file has one")
                self._reading.lines[""] = _line(event)
                self._reading.value = self._value(next(self._events), "", 0)
        return self._reading

    def _value(self, event: Any, path: str, depth: int) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._wrong(event, f"has more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise self._wrong(event, f"is more than {MAX_DEPTH} levels deep")
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._wrong(event, f"*{event.anchor} refers to no complete value before it")
            return self._anchors[event.anchor]
        if event.tag is not None:
            raise self._wrong(event, f"tags such as {shown(event.tag)} are not supported")
        value = self._content(event, path, depth)
        if event.anchor:
            self._anchors[event.anchor] = value
        return value

    def _content(self, event: Any, path: str, depth: int) -> Any:
        if isinstance(event, yaml.MappingStartEvent):
            return self._object(path, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(path, depth)
        return _plain(event) if event.implicit[0] else event.value

    def _list(self, path: str, depth: int) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            below = f"{path}[{len(found)}]"
            self._reading.lines[below] = _line(event)
            found.append(self._value(event, below, depth + 1))
        return found

    def _object(self, path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event)
            below = f"{path}.{shown_key(key)}".removeprefix(".")
            if key in found:
                raise self._wrong(event, f"{below} is there twice, first in line {self._reading.lines[below]}")
            self._reading.lines[below] = _line(event)
            found[key] = self._value(next(self._events), below, depth + 1)
        return found

    def _key(self, event: Any) -> str:
        """Return the key as text, quoted or not."""
        if not isinstance(event, yaml.ScalarEvent) or event.tag is not None or not event.value:
            raise self._wrong(event, "a key must be a word; quote it if it has special characters")
        if event.value == "<<" and event.implicit[0]:
            raise self._wrong(event, "merge keys (<<) are not supported; write the values out, or use an alias")
        return str(event.value)

    def _wrong(self, event: Any, problem: str) -> BadRequest:
        return BadRequest(f"{self._called}: line {_line(event)}: {problem}")


def _plain(event: Any) -> Any:
    """Return the value of an unquoted scalar."""
    text = event.value
    if text in _TEXT:
        return _TEXT[text]
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return text
    return int(text) if _WHOLE.fullmatch(text) else float(text)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
