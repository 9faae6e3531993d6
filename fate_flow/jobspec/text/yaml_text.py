"""A JSON value as text that any reader of YAML 1.1 or 1.2 takes for the same value.

JSON is almost YAML. What differs, and how it is written here:

- A character beyond U+FFFF is a pair of `\\u` escapes in JSON's ASCII form; YAML takes each for a character. It is
  written as it is, which both take.
- YAML 1.1 takes `1e-05` for text, since it has no point: `1.0e-05`.
- YAML wants a key of more than 1,024 characters after a `?`. That is no JSON any more; without such a key the text is.
"""

from __future__ import annotations

import json
import re

_LONGEST_KEY = 1000       # as it is written, quotes and escapes included; YAML's own bound is 1,024

_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")(?P<colon>: )?|(?<![.0-9])(?P<whole>-?[0-9]+)(?P<exponent>e[-+][0-9]+)'
)
_ESCAPE = re.compile(r"\\(?:u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|u(d[89a-f])|.)")


def yaml_text(value: object) -> str:
    """Raises ValueError and TypeError for what JSON cannot say, half of a surrogate pair included."""
    return _TOKEN.sub(_as_yaml, json.dumps(value, allow_nan=False))


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
        raise ValueError("half of a surrogate pair is no text")
    if not found[1]:
        return found[0]
    return (int(found[1], 16).to_bytes(2) + int(found[2], 16).to_bytes(2)).decode("utf-16-be")
