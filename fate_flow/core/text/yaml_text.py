"""A JSON value as text that every reader of YAML 1.1 or 1.2 reads as the same value, and back.

JSON is almost YAML. The differences, and the form used here:

- A character beyond U+FFFF is a pair of `\\u` escapes in JSON's ASCII form, which YAML reads as two characters. It is
  written unescaped, which both read.
- YAML 1.1 reads `1e-05` as text, since it has no point. It is written `1.0e-05`.
- YAML requires a `?` before a key of more than 1,024 characters. A text with such a key is not JSON; all others are.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

_LONGEST_KEY = 1000       # characters with quotes and escapes; YAML's own limit is 1,024

_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")(?P<colon>: )?|(?<![.0-9])(?P<whole>-?[0-9]+)(?P<exponent>e[-+][0-9]+)'
)
_LONG_KEY = re.compile(r'\? (?P<key>"(?:[^"\\]|\\.)*") : |"(?:[^"\\]|\\.)*"')
_ESCAPE = re.compile(r"\\(?:u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|u(d[89a-f])|.)")


def yaml_text(value: object, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """Return the text. `indent`: of each level, in spaces; None for one line.

    Raise ValueError or TypeError for a value that is not JSON, or half of a surrogate pair."""
    return _TOKEN.sub(_as_yaml, json.dumps(value, allow_nan=False, indent=indent, sort_keys=sort_keys))


def read_yaml_text(text: str) -> Any:
    """Return the value of a text of `yaml_text`, or of JSON, in a hundredth of the time that a reader of YAML takes.

    Raise ValueError for another text."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError:
        return json.loads(_LONG_KEY.sub(_as_json, text), parse_constant=_refuse)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _as_json(found: re.Match[str]) -> str:
    return f"{found['key']}: " if found["key"] else found[0]


def _as_yaml(found: re.Match[str]) -> str:
    if found["exponent"]:
        return f"{found['whole']}.0{found['exponent']}"
    text = found["text"]
    if "\\ud" in text:
        text = _ESCAPE.sub(_whole_character, text)
    if not found["colon"]:
        return text
    return f"{text}: " if len(text) <= _LONGEST_KEY else f"? {text} : "


def _whole_character(found: re.Match[str]) -> str:
    if found[3]:
        raise ValueError("half of a surrogate pair is not text")
    if not found[1]:
        return found[0]
    return (int(found[1], 16).to_bytes(2) + int(found[2], 16).to_bytes(2)).decode("utf-16-be")
