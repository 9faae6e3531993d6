"""The files that pages load: style, icon, libraries of others, and one script for each kind of page.

A page loads one script, so its first view is three requests. That script is joined of the files of the package when the
server starts. All pages have the same one, but those with a graph, which need a library that is larger than all else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

STATIC = Path(__file__).parent / "static"

JOINED = {
    "pages.js": ("board.js", "sign-in.js", "log.js", "log-events.js"),
    "pages-with-graph.js": ("board.js", "lib/dagre.min.js", "graph.js"),
}  # fmt: skip
"""The scripts of pages: by name, the files that run one after the other."""

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}


@dataclass(frozen=True)
class StaticFile:
    """A file of the package, or several in one, with the digest that is part of its address."""

    content: bytes
    mimetype: str
    digest: str

    @property
    def version(self) -> str:
        """What its address says of its content."""
        return self.digest[:16]


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Return the files by name: by path below `static/`, and the joined ones."""
    found = {
        path.relative_to(STATIC).as_posix(): _file(path.read_bytes(), path.suffix)
        for path in sorted(STATIC.rglob("*")) if path.suffix in _TYPES
    }  # fmt: skip
    joined = {name: _file(_joined(found, names), ".js") for name, names in JOINED.items()}
    return MappingProxyType(found | joined)


def _joined(files: Mapping[str, StaticFile], names: tuple[str, ...]) -> bytes:
    parts = []
    for name in names:
        licence = f", licence: {name.partition('.')[0]}.LICENSE.txt" if name.startswith("lib/") else ""
        parts += [f"// {name}{licence}\n".encode(), files[name].content, b"\n"]
    return b"".join(parts)


def _file(content: bytes, suffix: str) -> StaticFile:
    return StaticFile(content, _TYPES[suffix], hashlib.sha256(content).hexdigest())
