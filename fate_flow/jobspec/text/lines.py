"""The lines of a text file in which its values are, for messages that name a path of the file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_PIECE = r"""\.[A-Za-z0-9_|-]+|\.'[^']*'|\."[^"]*"|\[[0-9]+\]"""
_LAST_PIECE = re.compile(rf"(?:^[^.\[]+|{_PIECE}|.)\Z", re.DOTALL)
_PATH = re.compile(rf"(?<![\w.'\"])[A-Za-z0-9_-]+(?:{_PIECE})*(?=[:,)])")
"""A path in a message: at its beginning, or in parentheses."""


@dataclass(frozen=True)
class Lines:
    """The line (from 1) of each path; empty for a document that is no text."""

    by_path: Mapping[str, int] = field(default_factory=dict)

    def in_message(self, text: str) -> str:
        """Return a message with the line of the first path that it names, or of the nearest path above that one."""
        found = (self._line_of(path) for path in _PATH.findall(text)) if self.by_path else ()
        line = next((one for one in found if one is not None), None)
        return text if line is None else f"{text} (line {line})"

    def after_path(self, path: str) -> str:
        """Return a path with its line, or with that of the nearest path above it."""
        line = self._line_of(path) if self.by_path else None
        return path if line is None else f"{path} (line {line})"

    def _line_of(self, path: str) -> int | None:
        return next((self.by_path[one] for one in upwards(path) if one in self.by_path), None)


def upwards(path: str) -> Iterator[str]:
    """Yield the path, the one above it, and so on."""
    while path:
        yield path
        path = _LAST_PIECE.sub("", path)
