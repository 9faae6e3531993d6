"""What a worker has run, read and made, by digests, for the record of its party: its runner reads the files, on the
machine where they are."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fate_flow.components.base.regular_file import open_regular
from fate_flow.components.providers.program_order import Order
from fate_flow.components.tables.table_uri import SCHEME, BadTableUri, parse_uri
from fate_flow.core.model.artifact import FILE_SCHEME, LONGEST_URI, MOST_CONTENTS, Content, Use
from fate_flow.core.text.yaml_text import read_yaml_text
from fate_flow.engines.local.programs import find_program
from fate_flow.engines.local.worker import MOST_JSON_BYTES, RESULT, read_json

CONFIG = "config.yaml"
_MOST_BYTES = 8 << 30          # that are read of one worker
_SECONDS = 120.0               # after its end; the end of its share waits for it
_LARGEST_PROGRAM, _PROGRAM_SECONDS = 64 << 20, 3.0     # before its start
_PIECE = 1 << 20


class Reader:
    """Reads the files of one worker, up to limits of number, size and time. What cannot be read has no digest.

    It raises nothing: a worker has ended as it has, whatever it names as its files."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._left = folder, _MOST_BYTES
        self._tried: set[tuple[Use, str]] = set()
        self._found: list[Content] = []

    def read_program(self, argv: tuple[str, ...]) -> None:
        """Read the program that the worker becomes. Nobody sees a sign of the worker meanwhile, so a large one is left
        out."""
        with suppress(Exception):      # the launch says what is wrong
            order = Order.read(self._folder)
            path = find_program((order.argv if order else argv)[0])
            self._read(Use.PROGRAM, f"{FILE_SCHEME}{path}", _LARGEST_PROGRAM, time.monotonic() + _PROGRAM_SECONDS)

    def at_the_end(self) -> tuple[Content, ...]:
        """Read what the worker has read and made, and return all that was found."""
        deadline = time.monotonic() + _SECONDS
        with suppress(Exception):
            for uri in _uris(_config(self._folder / CONFIG).get("input_artifacts")):
                self._read(Use.INPUT, uri, self._left, deadline)
            said = (read_json(self._folder / RESULT) or {}).get("io_meta")
            for uri in _uris(said.get("outputs") if isinstance(said, dict) else None):
                self._read(Use.OUTPUT, uri, self._left, deadline)
        return tuple(self._found)

    def _read(self, use: Use, uri: str, most: int, deadline: float) -> None:
        if (use, uri) in self._tried or len(self._tried) >= MOST_CONTENTS or not _is_text(uri):
            return
        self._tried.add((use, uri))
        path = _path_of(uri)
        if path is None:
            return
        read, digest = 0, hashlib.sha256()
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                while size <= most and read <= size and time.monotonic() < deadline:     # one that grows is not read
                    piece = file.read(_PIECE)
                    if not piece:
                        self._found.append(Content(use, uri, digest.hexdigest(), read))
                        return
                    digest.update(piece)
                    read += len(piece)
        except (OSError, ValueError):
            return
        finally:
            self._left -= read


def _is_text(uri: str) -> bool:
    """Return whether a record can have this text: a worker may name a file by bytes that are none."""
    try:
        return len(uri) <= LONGEST_URI and bool(uri.encode())
    except UnicodeEncodeError:
        return False


def _config(path: Path) -> Mapping[str, Any]:
    """Return the task configuration; nothing if there is none."""
    try:
        with open_regular(path) as file:
            text = file.read(MOST_JSON_BYTES + 1)
        found = read_yaml_text(text.decode()) if len(text) <= MOST_JSON_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _uris(value: object) -> Iterator[str]:
    """Yield the places in a document of artifacts, but those of models that are packed: their digest is known."""
    if isinstance(value, dict):
        if isinstance(uri := value.get("uri"), str):
            if "stored" not in value:
                yield uri
            return
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from _uris(one)


def _path_of(uri: str) -> Path | None:
    if uri.startswith(SCHEME):
        try:
            return parse_uri(uri).path
        except BadTableUri:
            return None
    return Path(uri.removeprefix(FILE_SCHEME)) if uri.startswith(f"{FILE_SCHEME}/") else None
